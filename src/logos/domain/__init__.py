"""The words of Logos as frozen records: no clock, no files, no network, the standard library only."""
