"""How many examples the property tests of this directory look at: few and fixed by default, many on request."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "sample", max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW
)
settings.register_profile("full", max_examples=10_000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile("full" if os.environ.get("LANCE_FLIGHT_TESTS") == "full" else "sample")
