"""The history of specs in `t$specs`, and namespaces described in SQL as the spec's Appendix E has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lance_flight.engine.engine import Engine

from tests.catalog.by_hand import DATA, METADATA, lay_out
from tests.engine.database import open_engine
from tests.engine.evolved_events import EVENTS, VERSIONS, evolved
from tests.stock import manifest, stored_tables

PROPERTIES = json.loads((DATA / "appendix_e_properties.json").read_text())


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return evolved(tmp_path_factory.mktemp("root"), EVENTS, VERSIONS)


@pytest.fixture
def by_hand(tmp_path: Path) -> Engine:
    """The appendices' namespace, as `events`."""
    lay_out(tmp_path / "events")
    return open_engine(tmp_path, target_partitions=1)


def test_each_spec_has_the_snapshot_that_brought_it(engine: Engine) -> None:
    place = Path(engine.root.store.uri) / "t"
    stock, tables = manifest(place), stored_tables(place)
    found = engine.query("SELECT DISTINCT spec_id, snapshot, is_current, tables, rows FROM t$specs ORDER BY spec_id")
    assert found.to_pylist() == [
        {
            "spec_id": number,
            "snapshot": next(
                v["version"]
                for v in stock.versions()
                if f"partition_spec_v{number}" in stock.checkout_version(v["version"]).metadata
            ),
            "is_current": number == 3,
            "tables": sum(table.spec_id == number for table in tables),
            "rows": sum(table.dataset.count_rows() for table in tables if table.spec_id == number),
        }
        for number in (1, 2, 3)
    ]


def test_the_moment_and_the_operation_are_those_of_the_snapshot(engine: Engine) -> None:
    differing = engine.query(
        "SELECT * FROM t$specs s JOIN t$snapshots v ON s.snapshot = v.version"
        " WHERE s.committed_at <> v.committed_at OR s.operation <> v.operation"
    )
    assert differing.num_rows == 0


def test_an_old_snapshot_knows_the_specs_of_its_time(engine: Engine) -> None:
    (second,) = set(engine.query("SELECT snapshot FROM t$specs WHERE spec_id = 2")["snapshot"].to_pylist())
    found = engine.query(f'SELECT DISTINCT spec_id, is_current FROM "t@{second}$specs" ORDER BY spec_id').to_pylist()
    assert [(row["spec_id"], row["is_current"]) for row in found] == [(1, False), (2, True)]


def properties(engine: Engine, statement: str) -> dict[str, Any]:
    """What DESCRIBE NAMESPACE returns."""
    return dict(zip(*engine.query(f"DESCRIBE NAMESPACE {statement}").to_pydict().values(), strict=True))


WAYS = {
    "dotted": lambda path: ".".join(["events", *path]),
    "with the schema": lambda path: ".".join(["public", "events", *path]),
    "quoted": lambda path: ".".join(["lance", "public", "events", *(f'"{name}"' for name in path)]),
    "as text": lambda path: f"events '{'$'.join(path)}'",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("described", PROPERTIES, ids=lambda described: "$".join(described["id"]))
def test_a_namespace_is_described_as_in_appendix_e(by_hand: Engine, described: dict[str, Any], way: str) -> None:
    assert {"properties": properties(by_hand, WAYS[way](described["id"]))} == described["response"]


def test_a_table_is_described_by_its_specs_and_its_schema(by_hand: Engine) -> None:
    found = properties(by_hand, "events")
    assert {name: json.loads(value) for name, value in found.items()} == METADATA


def test_a_table_called_namespace_is_described_as_a_table(by_hand: Engine) -> None:
    by_hand.update("CREATE TABLE namespace AS SELECT 1 AS x")
    assert by_hand.query("DESCRIBE namespace")["column_name"].to_pylist() == ["x"]
    assert by_hand.query("DESCRIBE TABLE namespace")["column_name"].to_pylist() == ["x"]
