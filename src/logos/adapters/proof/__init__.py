"""Runs the steps of a proof: clean rooms, and the tests that a command ran in them."""
