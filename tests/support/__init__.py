"""What the tests of every folder share: isolation, waiting, repositories, logs, and the sandbox that has all of them."""
