"""Implementations of the ports: hosts, the log, git, files."""
