"""A random walk over everything that can happen to a run, and a model that knows what must be true after each step."""
