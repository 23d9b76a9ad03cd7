"""Storage and commit: everything that touches Lance."""

import os

from lance_flight.machine import cores

# Lance reads this once, when it is imported, and decodes with one thread on a small machine without it.
os.environ.setdefault("LANCE_CPU_THREADS", str(cores()))
