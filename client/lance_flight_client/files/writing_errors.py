"""Errors of Arrow's writers: types that a format does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from lance_flight.errors import DataError


@contextmanager
def written_as(format: str) -> Iterator[None]:
    """Name the format in an error of Arrow's writers."""
    try:
        yield
    except pa.ArrowException as exc:
        raise DataError(
            f"the rows cannot be written as {format}: {exc}; expected other types, or another format"
        ) from exc
