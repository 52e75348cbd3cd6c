"""The page: runs in a browser, to watch and to steer. It reads views and acts through app, as the command line does."""
