"""Commits of `__manifest` rows alone: what they are is worked out again on every newer snapshot."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType

from lance_flight.catalog.manifests.differences import Difference
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.retries import COMMIT, retry


def commit_rows(
    manifest: Manifest,
    change: Callable[[Snapshot], Difference],
    operation: str,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Commit what `change` makes of the newest snapshot, and return the version in which it is visible.

    Without a difference nothing is committed.
    """
    mark = secrets.token_hex(16)

    def committed(_: int) -> int | None:
        snapshot = manifest.snapshot()
        difference = change(snapshot)
        if not difference.object_ids:
            return snapshot.version
        return manifest.make_visible(
            snapshot, difference.rows, operation, [mark], removed=difference.removed, properties=properties
        )

    return retry(COMMIT, manifest.store.parent.name, committed)
