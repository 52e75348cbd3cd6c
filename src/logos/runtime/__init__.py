"""The thin shell around the flows: it drives a run, waits for agents and keeps people informed."""
