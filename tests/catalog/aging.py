"""Time that passes for files alone, and what a vacuum may remove by then."""

from __future__ import annotations

import os
from pathlib import Path

from lance_flight.catalog.maintenance.vacuum import VacuumRules
from lance_flight.catalog.storage.leases import LEASES

from tests.stock import manifest

HOUR = 3600.0
ALL_THAT_MAY_GO = VacuumRules(retain_hours=0, force=True)


def age(place: Path, *, hours: float) -> None:
    """Make every file below a place so much older."""
    for path in place.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found = path.stat()
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns - int(hours * HOUR * 1e9)))


def file_names(place: Path) -> set[str]:
    """Every file below a place but leases: those of this process come and go by its clock, whatever a test does."""
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and path.parent.name != LEASES}


def table_files(place: Path) -> set[str]:
    """Every file of the partition tables of a namespace, and none of its manifest's."""
    return {name for name in file_names(place) if not name.startswith(("__manifest/", ".lance-flight/"))}


def versions(place: Path) -> list[int]:
    """The stored versions of a table."""
    return [int(version["version"]) for version in manifest(place).versions()]
