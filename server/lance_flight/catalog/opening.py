"""Stores of the roots that users name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from lance_flight.catalog.backup.restoring import check_restored
from lance_flight.catalog.storage.formats import RootFormats
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import InvalidInput


def root_store(root: str, storage_options: Mapping[str, str] = MappingProxyType({}), *, create: bool = False) -> Store:
    """Open the store of a root that a user names: an object-store URI, or a directory, which is created with `create` alone."""
    if "://" in root:
        store = Store(root.rstrip("/"), dict(storage_options))
        store.check()
        _check_root(store)
        return store
    path = Path(root).expanduser().resolve()
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"root {root!r} is a file; expected a directory")
    if not path.exists() and not create:
        raise InvalidInput(f"root {root!r} is not there; expected a directory, or --create to make it")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise InvalidInput(f"root {root!r} is not there and cannot be made: {exc.strerror}") from exc
    store = Store(str(path))
    _check_root(store)
    return store


def _check_root(store: Store) -> None:
    """Refuse a root that is being restored, or that only newer releases read, before anything in it is settled."""
    check_restored(store)
    RootFormats(store).check_now()
