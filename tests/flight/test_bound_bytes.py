"""Bytes of bound parameters: each column counts, also those that share their bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.errors import LimitExceeded
from lance_flight.flight import updates

COLUMNS, ROWS, BYTES = 100, 1000, 8


def test_columns_that_share_their_bytes_count_one_by_one() -> None:
    row = pa.RecordBatch.from_arrays([pa.array([1] * ROWS)] * COLUMNS, [str(place) for place in range(COLUMNS)])

    class Sent(list[Any]):
        schema = row.schema

    sent: Any = Sent([SimpleNamespace(data=row)])
    call: Any = SimpleNamespace(is_cancelled=lambda: False)
    whole = COLUMNS * ROWS * BYTES
    assert updates._parameters(sent, call, whole) == row
    with pytest.raises(LimitExceeded, match="parameter_limit"):
        updates._parameters(sent, call, whole - 1)
