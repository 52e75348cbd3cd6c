"""Drives a run: the loop, the journal, terminals, waiting, checks, checkpoints. It knows ports, never adapters."""
