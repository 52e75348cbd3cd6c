"""The nine levels, from purpose to syntax and back."""
