"""Roots, as the process that runs here finds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lance_flight.catalog.storage.store import Store
from lance_flight.errors import InvalidInput


def store_of(root: str, storage: Mapping[str, str]) -> Store:
    """Return the place of a root; `InvalidInput` for a directory that this machine does not have."""
    if "://" in root:
        return Store(root.rstrip("/"), dict(storage))
    path = Path(root).expanduser().resolve()
    if not path.is_dir():
        raise InvalidInput(f"root {root!r} is no directory here; expected one, or an object-store URI")
    return Store(str(path), dict(storage))
