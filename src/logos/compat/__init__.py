"""The spec's function names over a default run."""
