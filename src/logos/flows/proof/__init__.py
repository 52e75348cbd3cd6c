"""A proof: which step is next, and what the result of one means. Pure, the same for every flow."""
