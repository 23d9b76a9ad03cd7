"""Bytes of bound parameters: each value counts, also those that share their bytes, and those without any."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.errors import LimitExceeded
from lance_flight.flight.rows import InputRules, read_parameters

COLUMNS, ROWS, BYTES = 100, 1000, 8


@pytest.mark.parametrize("column", [pa.array([1] * ROWS), pa.nulls(ROWS), pa.array([True] * ROWS)], ids=str)
@pytest.mark.parametrize("batches", [1, 5000])
def test_each_parameter_counts_by_itself(column: pa.Array, batches: int) -> None:
    row = pa.RecordBatch.from_arrays(
        [column] * (COLUMNS // batches or 1), [str(n) for n in range(COLUMNS // batches or 1)]
    )
    row = row.slice(0, max(ROWS // batches, 1))

    class Sent(list[Any]):
        schema = row.schema

    sent: Any = Sent([SimpleNamespace(data=row)] * batches)
    call: Any = SimpleNamespace(is_cancelled=lambda: False)
    whole = batches * row.num_columns * row.num_rows * BYTES
    read = read_parameters(sent, call, InputRules(parameter_limit=whole))
    assert read is not None
    assert read.num_rows == batches * row.num_rows
    with pytest.raises(LimitExceeded, match="parameter_limit"):
        read_parameters(sent, call, InputRules(parameter_limit=whole - 1))
