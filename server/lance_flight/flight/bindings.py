"""Parameters that were bound to a handle by a client that keeps using the handle.

The protocol answers a binding with a new handle that carries the parameters. Clients older than that answer ignore it,
so the binding is remembered here as well, on this server, for as long as there is room.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

_MOST_ENTRIES = 1024
_MOST_BYTES = 64 << 20


class Bindings:
    """The most recently used bindings, keyed by the identity of the prepared statement."""

    def __init__(self, *, most_entries: int = _MOST_ENTRIES, most_bytes: int = _MOST_BYTES) -> None:
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def remember(self, identity: str, parameters: bytes) -> None:
        """Keep `parameters` for `identity`, in place of older ones, and forget what there is no room for."""
        with self._lock:
            self._drop(identity)
            self._entries[identity] = parameters
            self._bytes += len(parameters)
            while self._bytes > self._most_bytes or len(self._entries) > self._most_entries:
                self._drop(next(iter(self._entries)))

    def recall(self, identity: str) -> bytes | None:
        """The parameters last bound to `identity`, or None."""
        with self._lock:
            if identity in self._entries:
                self._entries.move_to_end(identity)
            return self._entries.get(identity)

    def forget(self, identity: str) -> None:
        """Drop what was bound to `identity`, if anything was."""
        with self._lock:
            self._drop(identity)

    def _drop(self, identity: str) -> None:
        self._bytes -= len(self._entries.pop(identity, b""))
