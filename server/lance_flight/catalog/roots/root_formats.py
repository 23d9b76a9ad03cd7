"""The record of a root: which version of each format writers use for new things in it (`.lance-flight/formats.json`).

A root without a record is of the first versions. `lance-flight migrate` writes the record, as the last thing that it does: who
runs it says that every server over the root reads the versions of this release.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from lance_flight.catalog.storage.durability import write_file
from lance_flight.catalog.storage.formats import FIRST, ROOT, StoredFormat
from lance_flight.catalog.storage.names import PRIVATE
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import Corrupt
from lance_flight.faults import failpoint
from lance_flight.model.json_documents import read_json

RECORD = "formats.json"
CHECK_SECONDS = 10.0
"""Time after which a running server looks at the record again before it reads; before it changes the root it always does."""


class RootFormats:
    """The record of the root at `store`. Safe to share among threads."""

    def __init__(self, store: Store, *, now: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self._now = now
        self._lock = threading.Lock()
        self._checked: float | None = None

    def check(self) -> None:
        """Raise `NewerFormat` where only newer releases read the root; looked at every `CHECK_SECONDS`."""
        with self._lock:
            checked = self._checked
        if checked is None or self._now() - checked >= CHECK_SECONDS:
            self.check_now()

    def check_now(self) -> None:
        """Raise `NewerFormat` where only newer releases read the root, as it is now."""
        self._check(self.versions())
        with self._lock:
            self._checked = self._now()

    def version_for_new(self, kind: StoredFormat) -> int:
        """Return the version that new things of a format get: that of the record, or the newest that this release knows."""
        found = self.versions()
        self._check(found)
        recorded = found.get(kind.name, FIRST)
        return min(recorded, kind.newest) if isinstance(recorded, int) and recorded >= FIRST else FIRST

    def versions(self) -> Mapping[str, object]:
        """Return what the record says, unchecked; nothing for a root without one, `Corrupt` for what is no record.

        Nothing as well where the private directory is closed to this process, which only reads tables then: they state their own versions.
        """
        try:
            content = self.store.child(PRIVATE).read(RECORD)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return {}
        try:
            found = read_json(content)
        except ValueError as exc:
            raise Corrupt(f"{PRIVATE}/{RECORD} of root {self.store.name!r} is no JSON: {exc}") from exc
        if not isinstance(found, dict):
            raise Corrupt(
                f"{PRIVATE}/{RECORD} of root {self.store.name!r} is {found!r}; expected versions by their formats"
            )
        return found

    def write(self, versions: Mapping[str, int]) -> None:
        """Write the record in one step; what it says of formats that are not among the versions stays."""
        place = self.store.child(PRIVATE)
        place.check_way(RECORD)
        content = json.dumps({**self.versions(), **versions}, separators=(",", ":"), sort_keys=True).encode()
        if place.is_remote:
            place.write(RECORD, content)
            return
        Path(place.uri).mkdir(mode=0o700, exist_ok=True)
        write_file(Path(place.uri, RECORD), content, drafted=partial(failpoint, "formats_drafted"))

    def _check(self, versions: Mapping[str, object]) -> None:
        ROOT.check(versions.get(ROOT.name, FIRST), f"root {self.store.name!r}")
