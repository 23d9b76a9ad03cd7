"""Pieces of maintenance done by executors of Spark: each is done once, whatever befalls its task, or all are undone."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lance_flight.catalog.bulk.pieces import Threads
from lance_flight.errors import SchemaError
from lance_flight_client.spark.maintenance import Executors
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

# Spark's workers know the product, and not its tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True)
class Marked:
    """A piece that leaves a file, and fails as it was told."""

    place: str
    number: int
    fault: str = ""

    def run(self) -> int:
        """Leave a file."""
        context = TaskContext.get()
        if self.fault == "is killed once" and context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "raises once" and context.attemptNumber() == 0:
            raise OSError("once")
        if self.fault == "raises":
            raise OSError("always")
        if self.fault == "is refused":
            raise SchemaError("piece", ["is", "refused"])
        Path(self.place, str(self.number)).write_text("")
        return self.number

    def undo(self, result: int) -> None:
        """Take it away."""
        Path(self.place, str(result)).unlink()


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def told() -> tuple[list[tuple[int, int]], Any]:
    heard: list[tuple[int, int]] = []
    return heard, lambda done, total: heard.append((done, total))


def test_every_piece_is_done_whatever_befalls_its_first_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [
        Marked(str(tmp_path), 4),
        Marked(str(tmp_path), 3, "is killed once"),
        Marked(str(tmp_path), 2, "raises once"),
    ]
    heard, progress = told()
    monkeypatch.setattr("lance_flight_client.spark.maintenance.PIECES_PER_JOB", 2)
    assert Executors(spark, "test")(pieces, progress) == [4, 3, 2]
    assert names(tmp_path) == ["2", "3", "4"]
    assert heard[-1] == (3, 3)
    assert (2, 3) in heard


@pytest.mark.parametrize("run", ["threads", "executors"])
def test_nothing_is_left_where_a_piece_is_refused(request: pytest.FixtureRequest, tmp_path: Path, run: str) -> None:
    pieces = [Marked(str(tmp_path), n, "is refused" if n == 2 else "") for n in range(4)]
    runner: Any = Threads(2) if run == "threads" else Executors(request.getfixturevalue("spark"), "test")
    with pytest.raises(SchemaError, match="piece: is; refused") as raised:
        runner(pieces)
    assert raised.value.problems == ("is", "refused")
    assert names(tmp_path) == []


def test_a_piece_that_always_fails_ends_the_work(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="always"):
        Executors(spark, "test")([Marked(str(tmp_path), 0, "raises")])
