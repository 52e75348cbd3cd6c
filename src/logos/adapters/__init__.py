"""The outside world behind the ports: hosts, files, the log."""
