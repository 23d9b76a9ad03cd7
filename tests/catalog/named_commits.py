"""Appends with a commit id, and what may happen to a table after one."""

from __future__ import annotations

import pytest
from lance_flight.catalog.commits.once import CommitToken
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate

from tests.catalog.small_table import rows


def append(namespace: PartitionedNamespace, commit_id: str, *pairs: tuple[int, str | None]) -> int:
    """Append rows under an id, as a job would that does not know whether it did."""
    transaction = namespace.begin()
    transaction.once = CommitToken.now(commit_id, len(pairs))
    with namespace.changing(transaction):
        if pairs:
            namespace.write(transaction, [rows(*pairs)], evaluate)
        return namespace.commits.commit(transaction)


BETWEEN = pytest.mark.parametrize(
    "between",
    [
        pytest.param("INSERT INTO t VALUES (9, 'z')", id="other commits"),
        pytest.param("ALTER TABLE t SET PARTITIONED BY (bucket(4, id))", id="another spec"),
        pytest.param("ALTER TABLE t ADD COLUMN n INTEGER", id="another schema"),
        pytest.param("ALTER TABLE t ROLLBACK TO {begun}", id="a rollback to before it"),
        pytest.param("TRUNCATE TABLE t", id="all rows gone"),
    ],
)
"""What may happen to a table that has remembered a commit; `begun` is a version from before it."""
