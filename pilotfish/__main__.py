"""`python -m pilotfish` is the command line; see `pilotfish.cli`."""

import sys

from pilotfish.cli import main

if __name__ == "__main__":
    sys.exit(main())
