"""Files of the demo: a small repository with missing features, the task, and the script of its agents."""
