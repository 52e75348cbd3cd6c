"""Whether a PASS can be bought: agents that cheat and agents that do not, played through the command line."""
