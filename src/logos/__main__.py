"""`python -m logos` is the command `logos`."""

import sys

from logos.cli import main

if __name__ == "__main__":
    sys.exit(main())
