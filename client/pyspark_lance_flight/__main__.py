"""The file that `spark-submit` is given to run `lance_flight_client.spark`.

Spark lets programs import what lies beside their file. Here that is nothing which hides a module of Python's own.
"""

import sys

from lance_flight_client.spark.program import main

sys.exit(main())
