"""The rows that every area stores and reads: six narrow columns, made from one seed, and what is true of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SEED = 20130101
BATCH_ROWS = 1 << 16
CITIES = 50
DAYS = 3650

HUNDRED_BY, HUNDRED = "c", 100
"""The column to partition by for 100 partitions; its values lie scattered, so that every batch holds all of them."""

FIVE_HUNDRED_BY, FIVE_HUNDRED = "b", 500
"""The same for 500 partitions."""

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "a": pa.float64(),
        "b": pa.int64(),
        "c": pa.int64(),
        "s": pa.utf8(),
        "d": pa.date32(),
    }
)


class WrongAnswer(Exception):
    """A result that is not what the data says: there is nothing to measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is true of the rows: any answer can be held against it."""

    rows: int
    sum_id: int
    sum_a: float
    sum_b: int

    @classmethod
    def of(cls, table: pa.Table) -> Facts:
        """Counted by Arrow, which has no part in what is measured."""
        return cls(
            rows=table.num_rows,
            sum_id=pc.sum(table["id"]).as_py(),
            sum_a=pc.sum(table["a"]).as_py(),
            sum_b=pc.sum(table["b"]).as_py(),
        )


def make(rows: int) -> pa.Table:
    """`rows` rows of `SCHEMA`, in batches as a client would send them."""
    random = np.random.default_rng(SEED)
    cities = pa.array([f"city {number:02d}" for number in range(CITIES)])
    named = pa.DictionaryArray.from_arrays(pa.array(random.integers(0, CITIES, rows, dtype=np.int32)), cities)
    columns = [
        pa.array(np.arange(rows)),
        pa.array(random.random(rows)),
        pa.array(random.integers(0, FIVE_HUNDRED, rows)),
        pa.array(random.integers(0, HUNDRED, rows)),
        named.cast(pa.utf8()),
        pa.array(random.integers(0, DAYS, rows, dtype=np.int32)).cast(pa.date32()),
    ]
    return pa.Table.from_batches(pa.table(columns, schema=SCHEMA).to_batches(BATCH_ROWS))


def expect(what: str, found: object, wanted: object) -> None:
    """`WrongAnswer` unless both are the same; floats may differ by the order in which they were added up."""
    if isinstance(wanted, float) and isinstance(found, float):
        same = abs(found - wanted) <= 1e-9 * max(abs(wanted), 1.0)
    else:
        same = found == wanted
    if not same:
        raise WrongAnswer(f"{what} is {found!r}; expected {wanted!r}")
