"""Where a run log is kept."""
