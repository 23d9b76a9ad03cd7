"""`python -m lance_flight.cli`."""

import sys

from lance_flight.cli import main

sys.exit(main())
