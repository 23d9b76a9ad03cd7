"""Commits of `__manifest` rows alone: what they are is worked out again on every newer snapshot."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from lance_flight.catalog.differences import Difference
from lance_flight.catalog.manifest import Manifest
from lance_flight.catalog.retries import attempts
from lance_flight.catalog.snapshot import Snapshot
from lance_flight.errors import Conflict, OutcomeUnknown
from lance_flight.faults import reached
from lance_flight.model.naming import spec_namespace


def commit_rows(
    manifest: Manifest,
    change: Callable[[Snapshot], Difference],
    operation: str,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Commit what `change` makes of the newest snapshot, and return the version in which it is visible.

    The rows of the specs are written back with it, so that whoever creates a partition at the same moment conflicts.
    Without a difference nothing is committed.
    """
    name, mark = manifest.store.parent.name, secrets.token_hex(16)
    for _ in attempts(name):
        snapshot = manifest.snapshot()
        difference = change(snapshot)
        if not difference.object_ids:
            return snapshot.version
        try:
            committed = manifest.commit(
                snapshot,
                _with_specs(snapshot, difference.rows),
                operation,
                [mark],
                removed=difference.removed,
                properties=properties,
            )
            reached("committed")
        except Conflict:
            version = manifest.committed(snapshot, mark)
        except OSError as exc:
            version = manifest.committed(snapshot, mark)
            if version is None and "://" in manifest.store.uri:
                raise OutcomeUnknown(f"a commit to {name!r} was sent and not answered: {exc}") from exc
            if version is None:
                raise
        else:
            version = committed.version
        if version is not None:
            return version
    raise AssertionError("attempts end in an error")


def _with_specs(snapshot: Snapshot, rows: pa.Table) -> pa.Table:
    changed = set(rows["object_id"].to_pylist())
    names: Sequence[str] = [name for spec in snapshot.specs if (name := spec_namespace(spec.id)) not in changed]
    return pa.concat_tables([snapshot.rows_of(names), rows])
