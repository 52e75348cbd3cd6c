"""Git worktrees, merges and snapshots."""
