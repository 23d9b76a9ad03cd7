"""Interface to the other servers over the same root: their activity, and the statements that run there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from lance_flight.backend_values import CancelStatus, PeerRequest


class Peers(Protocol):
    """The other servers; one that does not answer in time is left out, with a warning in the log."""

    def rows(self, table: str, principal: str | None) -> Iterable[pa.Table]:
        """Return the rows of a system table at each of them, as a principal may see them (None: an administrator)."""
        ...

    def kill(self, statement: str, principal: str | None) -> CancelStatus | None:
        """Cancel a statement wherever it runs, if it is the principal's (None: an administrator); None if it runs nowhere."""
        ...

    def cancel(self, statement: str, principal: str) -> Iterable[CancelStatus]:
        """Refuse the tickets of a principal's query everywhere, and cancel what is read of it; return what became of it where."""
        ...

    def local(self, request: PeerRequest) -> Peers | None:
        """Return the peers to which a question is passed on: the other replicas of this machine, if it is to reach them.

        None is for a question that this machine has asked: what it reaches is asked without it.
        """
        ...


class _NoPeers:
    def rows(self, table: str, principal: str | None) -> Iterable[pa.Table]:
        return ()

    def kill(self, statement: str, principal: str | None) -> CancelStatus | None:
        return None

    def cancel(self, statement: str, principal: str) -> Iterable[CancelStatus]:
        return ()

    def local(self, request: PeerRequest) -> Peers | None:
        return self


NO_PEERS: Peers = _NoPeers()
"""Of a server that is alone."""
