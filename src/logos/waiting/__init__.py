"""When is an agent done: pure rules over observations of its terminal and its response file."""
