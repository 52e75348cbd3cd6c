"""Where agents run: a CAO server, this machine, or a script."""
