"""Publishing a branch: what it changed becomes what the main branch shows, in one commit.

A partition counts as changed on one side if its `__manifest` rows are not those at the fork; after a publication the
two have met again, and the next one begins there.
"""

from __future__ import annotations

from contextlib import suppress

from lance_flight.catalog.manifests.differences import Difference
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.row_commits import commit_rows
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.branches import BranchRef
from lance_flight.errors import NotFound, SerializationFailure, Unsupported
from lance_flight.model.naming import SEPARATOR, TABLE

PUBLISHED = "lance_flight:published"


def publish(main: Manifest, branch: Manifest, ref: BranchRef) -> int:
    """Make the main branch equal to a branch in every partition that the branch changed, and return its version.

    `SerializationFailure` names a partition that both have changed; nothing is published then.
    """
    tip = branch.snapshot()

    def change(newest: Snapshot) -> Difference:
        _check_layout(ref, tip, newest)
        base = _met_at(main, branch, ref)
        mine = set(Difference.between(base, tip).object_ids)
        missing = Difference.between(newest, tip).only(mine)
        both = sorted(set(Difference.between(base, newest).object_ids).intersection(missing.object_ids))
        if both:
            table = next((name for name in both if name.endswith(SEPARATOR + TABLE)), both[0])
            raise SerializationFailure(
                f"branch {ref.name!r} cannot be published: {table!r} was changed on the main branch as well"
            )
        return missing

    properties = {PUBLISHED: f"{ref.identifier}@{tip.version}"}
    return commit_rows(main, change, f"publish branch {ref.name}", properties)


def _check_layout(ref: BranchRef, tip: Snapshot, newest: Snapshot) -> None:
    """Refuse a branch of other specs or columns: its rows may not mean the same under those of the main one."""
    if tip.specs != newest.specs:
        what, shown = "partition specs", _shown_specs
    elif not tip.schema.has_columns_of(newest.schema):
        what, shown = "columns", _shown_columns
    else:
        return
    raise Unsupported(
        f"branch {ref.name!r} cannot be published: it and the main branch have different {what}:"
        f" {shown(tip)} and {shown(newest)}"
    )


def _shown_specs(snapshot: Snapshot) -> str:
    return ", ".join(spec.to_text() for spec in snapshot.specs)


def _shown_columns(snapshot: Snapshot) -> str:
    return ", ".join(f"{f.name} {f.type}{' NOT NULL' * (not f.nullable)}" for f in snapshot.schema.plain)


def _met_at(main: Manifest, branch: Manifest, ref: BranchRef) -> Snapshot:
    """Return the snapshot at which a branch and the main one agreed last: its last publication, or the fork.

    Where the history of the publication has expired it is the fork, which never does: that refuses more, never less.
    """
    for _, said in main.properties(ref.forked_at):
        identifier, _, version = said.get(PUBLISHED, "").rpartition("@")
        if identifier == ref.identifier:
            with suppress(NotFound):
                return branch.snapshot(int(version))
    return main.snapshot(ref.forked_at)
