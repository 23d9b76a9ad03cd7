"""Reports of writes, passed on by a file.

Spark commits in a process of its own on the driver's machine, and passes nothing back from there.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The version that a write made, its rows, and how many partitions they went into.

    `version` is None where the `commit_id` had been committed before, and nothing was written.
    """

    version: int | None = None
    rows: int = 0
    partitions: int = 0

    @classmethod
    def read(cls, path: Path) -> Report | None:
        """Return the report that a write has left, or None."""
        return cls(**json.loads(path.read_text())) if path.exists() else None

    def leave(self, path: str) -> None:
        """Write the report; what is committed stays so, whether that succeeds or not."""
        try:
            Path(path).write_text(json.dumps(asdict(self)))
        except OSError as exc:
            log.warning("the report of a write, %s, was not made: %s", self, exc)
