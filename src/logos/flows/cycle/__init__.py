"""The cycle: analyst, programmer and tester, each author with a reviewer."""
