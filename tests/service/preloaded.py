"""What a server process has imported before it serves: loaded once, by the process that those of tests are forked from."""

from __future__ import annotations

import gc
import importlib
import os
import warnings

from lance_flight_client.cli.__main__ import keep_out

_BEFORE = set(os.environ)
keep_out("pandas")  # as the command does
importlib.import_module("lance_flight.serving.main_loop")
warnings.filterwarnings("ignore", "lance is not fork-safe")  # where it has begun something: here it was only imported
gc.freeze()

OWN = frozenset(os.environ) - _BEFORE
"""The variables that imports have set, for themselves."""
