"""Fragments of datasets: small values that other processes read, each with a lease of its own."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from operator import methodcaller
from pathlib import Path

import lance_flight
import pytest
from lance_flight.errors import InvalidInput

from tests.dataset.roots import overtake

pytestmark = pytest.mark.slow  # processes that read


def test_fragments_are_read_by_other_processes(root: Path) -> None:
    with (
        lance_flight.dataset(root, "readings", columns=["id"], filter="upper(site) <> 'S0' AND id > 3") as dataset,
        ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool,
    ):
        tables = list(pool.map(methodcaller("to_table"), dataset.fragments()))
        assert len(tables) >= 4
        assert all(table.schema.equals(dataset.schema) for table in tables)
        found = sorted(n for table in tables for n in table["id"].to_pylist())
        assert found == sorted(dataset.to_table()["id"].to_pylist())
        assert len(found) == dataset.count_rows() > 50


READER = """
import pickle, sys
from lance_flight.catalog.storage.leases import leases
fragments = pickle.load(open(sys.argv[1], "rb"))
streams = [fragment.to_batches() for fragment in fragments]
found = [row for row in next(streams[0])["id"].to_pylist()]
leases.publish_all()
print(len(found), flush=True)
sys.stdin.readline()
print(sorted(found + [n for stream in streams for batch in stream for n in batch["id"].to_pylist()]))
"""


def test_a_process_that_reads_fragments_keeps_their_version(
    root: Path, change: Callable[..., None], tmp_path: Path
) -> None:
    expected = sorted(lance_flight.dataset(root, "readings").to_table()["id"].to_pylist())
    sent = tmp_path / "fragments"
    sent.write_bytes(pickle.dumps(lance_flight.dataset(root, "readings").fragments()))
    command = [sys.executable, "-c", READER, str(sent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert 0 < int(reader.stdout.readline()) < len(expected)
        change("DELETE FROM readings WHERE id > 10")
        overtake(root)
        rest, _ = reader.communicate("go on\n", timeout=60)
    assert rest.strip() == str(expected)


def test_fragments_are_small_and_always_the_same(root: Path) -> None:
    def fragments() -> list[bytes]:
        dataset = lance_flight.dataset(root, "readings", filter="id > 3")
        return [pickle.dumps(fragment) for fragment in dataset.fragments()]

    assert fragments() == fragments()
    assert max(map(len, fragments())) < 20_000


def test_large_tables_are_divided(root: Path, change: Callable[..., None]) -> None:
    change("INSERT INTO readings SELECT value, 's0', 1.0 FROM generate_series(1000, 1099)")
    dataset = lance_flight.dataset(root, "readings", filter="site = 's0'")
    whole, parts = dataset.fragments(), dataset.fragments(rows=50)
    assert len(whole) == 1
    assert len(parts) > 1
    assert sum(part.to_table().num_rows for part in parts) == whole[0].rows == dataset.count_rows()
    with pytest.raises(InvalidInput, match="at least 1"):
        dataset.fragments(rows=0)
