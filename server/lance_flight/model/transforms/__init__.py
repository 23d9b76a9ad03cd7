"""The partition transforms, one class each with what it prunes beside it, and the one table of them.

Spec: Partition Transform. What a transform computes is what its derived expression computes, to the letter
(decision 8): `month` is 1–12, `truncate` goes toward zero, parts of timestamps with a zone are those of its local time.
A new transform is a subclass of `Transform` and a line in `TRANSFORMS`. A part of dates that is to prune has its place among the
others in `planning/calendar.py` and `constraints.py`, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lance_flight.model.transforms.buckets import Bucket, MultiBucket
from lance_flight.model.transforms.date_parts import Day, Hour, Month, Year
from lance_flight.model.transforms.identity import Identity
from lance_flight.model.transforms.transform import Transform
from lance_flight.model.transforms.truncate import Truncate

__all__ = [
    "TRANSFORMS",
    "Bucket",
    "Day",
    "Hour",
    "Identity",
    "Month",
    "MultiBucket",
    "Transform",
    "Truncate",
    "Year",
]

TRANSFORMS: Mapping[str, type[Any]] = MappingProxyType(
    {kind.type: kind for kind in (Identity, Year, Month, Day, Hour, Bucket, MultiBucket, Truncate)}
)
"""Every transform by its name in the JSON of a spec, in PARTITIONED BY and in messages."""
