"""Logos runs a team of coding agents on a repository and keeps an exact record of what they did."""

__version__ = "0.1.0"
