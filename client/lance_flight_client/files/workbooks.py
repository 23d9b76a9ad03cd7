"""Sheets of Excel workbooks as text: CSV, whose form and types are guessed as those of any other."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from lance_flight.errors import DataError, InvalidInput, NotFound


def sheet_text(file: IO[bytes], name: str, sheet: str | None) -> bytes:
    """Return a sheet (None: the first one) as CSV, whose lines are the rows from the first one that has cells.

    `InvalidInput` without the library, `NotFound` without the sheet.
    """
    try:
        import python_calamine as calamine  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise InvalidInput(f"{name!r} needs the package {exc.name}; install 'lance-flight[excel]'") from exc
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
        names = workbook.sheet_names
        if sheet is not None and sheet not in names:
            raise NotFound(f"{name}: no sheet {sheet!r}; expected {', '.join(map(repr, names))}")
        rows = workbook.get_sheet_by_name(names[0] if sheet is None else sheet).iter_rows()
        return "".join(f"{line}\n" for line in _lines(rows)).encode()
    except calamine.CalamineError as exc:
        raise DataError(f"{name}: is no workbook that can be read: {exc}") from exc


def _lines(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield rows as lines; titles before the first row with several cells are as short as they are."""
    has_begun = False
    for row in rows:
        cells = list(map(_cell, row))
        has_begun = has_begun or sum(map(bool, cells)) > 1
        yield ",".join(cells) if has_begun else "".join(cells)


def _cell(value: Any) -> str:
    """Return a cell as CSV has it; an empty one is nothing, which is NULL.

    >>> [_cell(each) for each in ("", 'a"b', 2.0, 2.5, True)]
    ['', '"a""b"', '2', '2.5', 'true']
    """
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"' if value else ""
    if isinstance(value, bool):
        return str(value).lower()
    # Numbers of Excel are doubles.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
