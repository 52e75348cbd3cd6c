"""Read models: what people and programs are shown of a run, folded from its log. Pure."""
