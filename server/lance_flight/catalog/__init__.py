"""Storage and commit: everything that touches Lance."""

import os

from lance_flight.machine import cores

# Lance reads this once, when it is imported, and decodes with one thread on a small machine without it.
os.environ.setdefault("LANCE_CPU_THREADS", str(cores()))
# A build that is cancelled as it ends is no fault, and what Lance warns of would stand in the output of commands.
os.environ.setdefault("LANCE_LOG", "warn,lance::executor=error")
