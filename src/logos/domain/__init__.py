"""The records of Logos: frozen dataclasses, standard library only, no clock, files or network."""
