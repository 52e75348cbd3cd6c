"""Blind acceptance tests: what their author sees, and where they lie."""
