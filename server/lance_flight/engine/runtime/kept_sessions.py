"""Sessions by their keys, in the order of their use, with what is asked of each of them found without a look at all others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from lance_flight.engine.runtime.client_sessions import Session


@dataclass(frozen=True, slots=True)
class Kept:
    """Session with the time when it was last looked up by one of its keys."""

    session: Session
    used: float


class KeptSessions:
    """Ordered index of sessions by their keys, of which one may have several; the one that was put last comes last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._keys: dict[Session, set[str]] = {}
        self._of_holder: dict[str, OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys, those first that were not used for longest."""
        return iter(self._kept)

    def __getitem__(self, key: str) -> Kept:
        return self._kept[key]

    def get(self, key: str) -> Kept | None:
        """Return the session of a key with its last use; None without one."""
        return self._kept.get(key)

    def put(self, key: str, session: Session, used: float = 0.0) -> None:
        """Let a key find a session, as the last one that was used."""
        before = self._kept.get(key)
        if before is None or before.session is not session:
            if before is not None:
                self.pop(key)
            self._keys.setdefault(session, set()).add(key)
            self._of_holder.setdefault(session.holder, OrderedDict())[key] = None
        self._kept[key] = Kept(session, used)
        self._kept.move_to_end(key)
        self._of_holder[session.holder].move_to_end(key)

    def pop(self, key: str) -> Session:
        """Remove a key and return its session."""
        session = self._kept.pop(key).session
        keys = self._keys[session]
        keys.remove(key)
        if not keys:
            del self._keys[session]
        own = self._of_holder[session.holder]
        del own[key]
        if not own:
            del self._of_holder[session.holder]
        return session

    def remove(self, session: Session) -> None:
        """Remove all keys of a session."""
        for key in self.keys_of(session):
            self.pop(key)

    def keys_of(self, session: Session) -> list[str]:
        """Return the keys of a session; none of one that is not kept."""
        return list(self._keys.get(session, ()))

    def count_of(self, holder: str) -> int:
        """Return the number of keys of a holder's sessions."""
        return len(self._of_holder.get(holder, ()))

    def of_holder(self, holder: str) -> list[str]:
        """Return the keys of a holder's sessions, those first that were not used for longest."""
        return list(self._of_holder.get(holder, ()))

    @property
    def largest_holder(self) -> str:
        """Return the holder with the most keys; there must be one."""
        return max(self._of_holder, key=lambda holder: len(self._of_holder[holder]))

    @property
    def sessions(self) -> list[Session]:
        """Return every session, once."""
        return list(self._keys)

    @property
    def entries(self) -> list[Kept]:
        """Return every session as often as it has keys, the most recently used one last."""
        return list(self._kept.values())
