"""Datasets over a root: one version of a table, its filter and columns, in the libraries that read Arrow."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import lance_flight
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.errors import InvalidInput, NotFound, SqlError, Unsupported
from lance_flight_client.errors import ServerError

from tests.dataset.roots import overtake

IDS = [n for n in range(150) if n % 10 != 9]


def ids(dataset: lance_flight.Dataset) -> list[int]:
    return sorted(dataset.to_table()["id"].to_pylist())


SELECTIONS = [
    pytest.param({}, IDS, id="all"),
    pytest.param({"filter": "site = 's1'"}, [n for n in IDS if n % (4 if n < 100 else 5) == 1], id="whole partitions"),
    pytest.param({"filter": "site = 's1' AND id < 20"}, [1, 5, 13, 17], id="partitions and rows"),
    pytest.param({"filter": "celsius > 70"}, [n for n in IDS if n > 140], id="rows of a column that is not read"),
    pytest.param({"filter": "murmur3(id) = murmur3(7)"}, [7], id="what the engine computes"),
    pytest.param(
        {"filter": "upper(site) = 'S4' -- fifth"}, [n for n in IDS if n >= 100 and n % 5 == 4], id="a comment"
    ),
    pytest.param({"filter": "1 = 0"}, [], id="no row"),
    pytest.param({"filter": pc.field("id") < 3}, [0, 1, 2], id="a pyarrow expression"),
    pytest.param({"filter": (pc.field("site") == "s2") & (pc.field("id") > 140)}, [142, 147], id="another one"),
    pytest.param({"snapshot": "first"}, list(range(100)), id="a tag"),
    pytest.param({"snapshot": "first", "filter": "id >= 98"}, [98, 99], id="a tag and a filter"),
]


@pytest.mark.parametrize(("given", "expected"), SELECTIONS)
def test_a_dataset_has_the_rows_that_its_filter_leaves(
    root: Path, given: Mapping[str, Any], expected: list[int]
) -> None:
    with lance_flight.dataset(root, "readings", columns=["id", "site"], **given) as dataset:
        assert dataset.schema.names == ["id", "site"]
        assert ids(dataset) == expected
        assert dataset.count_rows() == len(expected)
        assert dataset.to_table().schema.equals(dataset.schema)
        assert sorted(n for part in dataset.fragments() for n in part.to_table()["id"].to_pylist()) == expected
        assert sum(part.rows or 0 for part in dataset.fragments()) >= len(expected)


def test_every_library_is_given_the_same_rows(root: Path) -> None:
    dataset = lance_flight.dataset(str(root), "public.readings", columns=["celsius", "id"], filter="site = 's3'")
    expected = dataset.to_table().sort_by("id")
    assert next(dataset.to_batches()).schema.names == ["celsius", "id"]
    assert dataset.to_polars().sort("id").to_arrow().cast(expected.schema).equals(expected)
    assert (
        pa.Table.from_pandas(dataset.to_pandas().sort_values("id"), preserve_index=False).cast(expected.schema)
        == expected
    )
    assert dataset.scanner().to_table().sort_by("id").equals(expected)
    assert dataset.to_reader().read_all().sort_by("id").equals(expected)
    for _ in range(2):
        assert duckdb.sql("SELECT count(*), max(celsius) FROM dataset").fetchall() == [(30, 74.0)]
        assert pl.DataFrame(dataset).height == 30


def test_columns_come_in_the_order_they_are_asked_for_or_not_at_all(root: Path) -> None:
    assert lance_flight.dataset(root, "readings").schema.names == ["id", "site", "celsius"]
    assert lance_flight.dataset(root, "readings", columns=["site", "id"]).to_table().column_names == ["site", "id"]
    none = lance_flight.dataset(root, "readings", columns=[], filter="id < 5")
    assert sum(batch.num_rows for batch in none.to_batches()) == none.count_rows() == 5


def test_a_dataset_stays_at_its_version(root: Path, change: Callable[..., None]) -> None:
    dataset = lance_flight.dataset(root, "readings")
    filtered = lance_flight.dataset(root, "readings", filter="id > 140")
    change("DELETE FROM readings WHERE id > 10", "ALTER TABLE readings ADD COLUMN more INT")
    assert ids(dataset) == IDS
    assert ids(filtered) == [n for n in IDS if n > 140]
    assert dataset.schema.names == ["id", "site", "celsius"]
    later = lance_flight.dataset(root, "readings")
    assert later.version > dataset.version
    assert later.schema.names == ["id", "site", "celsius", "more"]
    assert ids(lance_flight.dataset(root, "readings", snapshot=dataset.version)) == IDS


def test_a_moment_is_the_newest_version_that_was_there_then(root: Path, change: Callable[..., None]) -> None:
    version, now = lance_flight.dataset(root, "readings").version, datetime.now(UTC)
    change("DELETE FROM readings")
    assert lance_flight.dataset(root, "readings", snapshot=now).version == version
    assert lance_flight.dataset(root, "readings", snapshot=now.replace(tzinfo=None)).version == version


def test_vacuum_keeps_the_version_while_a_dataset_is_open(root: Path, change: Callable[..., None]) -> None:
    with lance_flight.dataset(root, "readings") as dataset:
        fragments = dataset.fragments()
        change("DELETE FROM readings WHERE id > 10")
        overtake(root)
        assert ids(dataset) == IDS
    stream = fragments[0].to_batches()
    overtake(root)
    assert sum(batch.num_rows for batch in stream) > 0, "a fragment keeps it as well"
    version = dataset.version
    del dataset, fragments, stream
    gc.collect()
    overtake(root)
    with pytest.raises(NotFound, match=str(version)):
        lance_flight.dataset(root, "readings", snapshot=version)


READER = """
import sys, lance_flight
from lance_flight.catalog.storage.leases import leases
dataset = lance_flight.dataset(sys.argv[1], "readings", snapshot=int(sys.argv[2]))
leases.publish_all()
print(dataset.count_rows(), flush=True)
sys.stdin.readline()
print(sorted(dataset.to_table()["id"].to_pylist()))
"""


def test_vacuum_keeps_the_version_of_a_dataset_in_another_process(root: Path, change: Callable[..., None]) -> None:
    version = lance_flight.dataset(root, "readings").version
    gc.collect()
    command = [sys.executable, "-c", READER, str(root), str(version)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert int(reader.stdout.readline()) == len(IDS)
        change("DELETE FROM readings WHERE id > 10")
        overtake(root)
        rest, _ = reader.communicate("go on\n", timeout=60)
    assert rest.strip() == str(IDS)


def test_a_closed_dataset_says_so(root: Path) -> None:
    with lance_flight.dataset(root, "readings") as dataset:
        assert repr(dataset) == f"<Dataset public.readings version {dataset.version}: id, site, celsius>"
    assert "closed" in repr(dataset)
    dataset.close()
    for read in (dataset.to_table, dataset.count_rows, dataset.fragments, dataset.to_reader):
        with pytest.raises(InvalidInput, match=r"'public.readings' is closed; open it again"):
            read()


WRONG = [
    pytest.param({"table": "reading"}, NotFound, "did you mean 'readings'", id="nearly a table"),
    pytest.param({"table": "a..b"}, InvalidInput, "schema.name", id="no name"),
    pytest.param({"table": "other.readings"}, NotFound, "readings", id="no such schema"),
    pytest.param({"columns": ["idd"]}, NotFound, "did you mean 'id'", id="nearly a column"),
    pytest.param({"columns": ["id", "id"]}, InvalidInput, "'id' twice", id="a column twice"),
    pytest.param({"columns": "id"}, InvalidInput, "list of names", id="columns as text"),
    pytest.param({"filter": "nope = 1"}, SqlError, "nope", id="a filter over no column"),
    pytest.param({"filter": "id +"}, SqlError, "Expected", id="a filter that is no SQL"),
    pytest.param({"filter": "site"}, SqlError, "BOOLEAN", id="a filter that is no condition"),
    pytest.param({"filter": "id > 1 LIMIT 1"}, SqlError, "LIMIT", id="a filter and more"),
    pytest.param({"filter": pc.field("nope") == 1}, InvalidInput, "nope", id="an expression over no column"),
    pytest.param({"filter": pc.field("id") + 1}, InvalidInput, "bool", id="an expression that is no condition"),
    pytest.param({"filter": True}, InvalidInput, "SQL or a pyarrow expression", id="a filter of another kind"),
    pytest.param(
        {"snapshot": 4711},
        NotFound,
        r"'readings' has no snapshot of version 4711; expected one of \d+",
        id="no such version",
    ),
    pytest.param({"snapshot": "none"}, NotFound, "'none'", id="no such tag"),
    pytest.param({"snapshot": datetime(1999, 1, 1)}, NotFound, "1999", id="before the table"),
    pytest.param({"root": "/nowhere/at/all"}, InvalidInput, "no directory here", id="no root"),
    pytest.param({"root": "grpc://127.0.0.1:1"}, ServerError, "no server answers at grpc", id="no server"),
]


@pytest.mark.parametrize(("given", "error", "message"), WRONG)
def test_what_cannot_be_read_is_refused_at_opening(
    root: Path, given: Mapping[str, Any], error: type[Exception], message: str
) -> None:
    named = {"root": root, "table": "readings", **given}
    with pytest.raises(error, match=message):
        lance_flight.dataset(named.pop("root"), named.pop("table"), **named)


def test_a_branch_is_read_with_a_pyarrow_expression(root: Path, change: Callable[..., None]) -> None:
    change("ALTER TABLE readings CREATE BRANCH b", 'DELETE FROM "readings@b" WHERE id > 3')
    assert ids(lance_flight.dataset(root, "readings@b")) == [0, 1, 2, 3]
    assert ids(lance_flight.dataset(root, "readings@b", filter=pc.field("id") > 1)) == [2, 3]
    with pytest.raises(Unsupported, match="pyarrow expression"):
        lance_flight.dataset(root, "readings@b", filter="id > 1")


def test_the_package_loads_nothing_until_it_is_asked() -> None:
    program = (
        "import sys, lance_flight; print(sorted({'pyarrow', 'lance', 'datafusion', 'numpy'} & sys.modules.keys()))"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"
    assert {"dataset", "Dataset"} <= set(lance_flight.__all__) & set(dir(lance_flight))
    with pytest.raises(AttributeError, match="nothing"):
        lance_flight.nothing  # noqa: B018
