"""Rolling a namespace back: a new snapshot that equals an old one, in one commit."""

from __future__ import annotations

import pyarrow.compute as pc

from lance_flight.catalog.differences import Difference, check_same_layout
from lance_flight.catalog.manifest import Manifest
from lance_flight.catalog.row_commits import commit_rows
from lance_flight.catalog.snapshot import Snapshot
from lance_flight.errors import Unsupported


def roll_back(manifest: Manifest, old: Snapshot) -> int:
    """Make the newest snapshot equal to `old` and return its version; partitions created since then go.

    What others commit at the same moment comes after it: appends go on top of the old pins.
    """

    def change(newest: Snapshot) -> Difference:
        check_same_layout(old, newest)
        difference = Difference.between(newest, old)
        _refuse_floating(difference, old)
        return difference

    return commit_rows(manifest, change, f"rollback to {old.version}")


def _refuse_floating(difference: Difference, old: Snapshot) -> None:
    """A table without a pin is read at its newest version, which says nothing of what it was at the time."""
    rows = difference.rows
    floats = pc.and_(
        pc.equal(rows["object_type"], "table"), pc.and_(rows["read_version"].is_null(), rows["read_tag"].is_null())
    )
    floating = rows["object_id"].filter(floats)
    if len(floating):
        raise Unsupported(
            f"snapshot {old.version} cannot be brought back: partition table {floating[0].as_py()!r} had no fixed version in it"
        )
