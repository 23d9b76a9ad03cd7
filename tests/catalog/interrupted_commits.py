"""Commits that another writer gets in before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.errors import Conflict


def interrupted(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object], *, after: bool = False) -> None:
    """Another writer commits right before the next commit; or (`after`) the answer of that one is lost."""
    commit, left = Manifest.commit, [other]

    def commits(self: Manifest, *arguments: Any, **named: Any) -> Snapshot:
        if not left:
            return commit(self, *arguments, **named)
        other = left.pop()
        if after:
            commit(self, *arguments, **named)
        other()
        if after:
            raise Conflict("the answer was lost")
        return commit(self, *arguments, **named)

    monkeypatch.setattr(Manifest, "commit", commits)
