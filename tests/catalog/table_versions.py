"""The stored versions of a table, and which of them a vacuum may remove."""

from __future__ import annotations

from pathlib import Path

from lance_flight.catalog.maintenance.vacuum import VacuumRules

from tests.stock import manifest

ALL_THAT_MAY_GO = VacuumRules(retain_hours=0, force=True)


def versions(place: Path) -> list[int]:
    return [int(version["version"]) for version in manifest(place).versions()]
