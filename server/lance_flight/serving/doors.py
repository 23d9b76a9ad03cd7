"""Further ports over the same server, for clients that do not speak Flight SQL as pyarrow's server does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lance_flight.flight.encryption import Tls


class Door(Protocol):
    """A further port: `title` says for whom it is."""

    title: str

    @property
    def uri(self) -> str:
        """Return its address."""
        ...

    def renew(self, tls: Tls) -> None:
        """Show other certificates to clients that connect from now on."""
        ...

    def stopping(self) -> None:
        """End what clients wait for by further calls: new calls are refused from now on."""
        ...

    def stop(self) -> None:
        """Close the port and every connection."""
        ...


class Doors:
    """Doors of a server by the settings of their ports."""

    def __init__(self, doors: Mapping[str, Door]) -> None:
        self._doors = doors

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return their addresses by the names of the settings."""
        return {setting: door.uri for setting, door in self._doors.items()}

    @property
    def lines(self) -> list[str]:
        """Return what is printed of each."""
        return [f"{door.title} at {door.uri}" for door in self._doors.values()]

    def renew(self, tls: Tls) -> None:
        """Show other certificates at each of them."""
        for door in self._doors.values():
            door.renew(tls)

    def stopping(self) -> None:
        """Tell each that no new calls are to come."""
        for door in self._doors.values():
            door.stopping()

    def stop(self) -> None:
        """Close all of them."""
        for door in self._doors.values():
            door.stop()
