"""File that has the address of a server for as long as it accepts connections."""

from __future__ import annotations

from pathlib import Path

from lance_flight.errors import InvalidInput


def check_ready_file(path: str) -> None:
    """Raise `InvalidInput` where the file could not be written later; no path is no file."""
    if path and not Path(path).parent.is_dir():
        raise InvalidInput(f"ready file {path!r} cannot be written: {str(Path(path).parent)!r} is no directory")


def write_ready_file(path: str, uri: str) -> None:
    """Write the address, whole or not at all; no path is no file."""
    if path:
        file = Path(path)
        draft = file.with_name(file.name + ".part")
        draft.write_text(uri)
        draft.replace(file)
