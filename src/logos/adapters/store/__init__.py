"""The run log on disk."""
