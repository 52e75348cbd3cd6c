"""The continuity report: what a run did, session by session."""
