"""`python -m lance_flight_client.spark`."""

import sys

from lance_flight_client.spark.program import main

sys.exit(main())
