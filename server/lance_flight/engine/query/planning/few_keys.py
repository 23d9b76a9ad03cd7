"""Distinct values of a query's column, read before planning another query whose partitions they prune."""

from __future__ import annotations

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.engine.query.planning.session import QuerySession

MOST_KEYS = 10_000


def few_keys(session: QuerySession, keys: DataFrame) -> pa.Array | None:
    """Return the distinct non-NULL values of the only column of `keys`; None if there are too many."""
    # One more than may be: what a limit has cut off is not known, whether NULL is among the rest or not.
    distinct = keys.distinct().limit(MOST_KEYS + 1)
    batches = list(session.stream(distinct))
    distinct_keys = pa.chunked_array(
        [batch.column(0) for batch in batches], distinct.schema().field(0).type
    ).combine_chunks()
    return distinct_keys.drop_null() if len(distinct_keys) <= MOST_KEYS else None
