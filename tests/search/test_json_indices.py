"""Lance's indices of paths in documents: why none is made or asked here, and that those of other writers disturb nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig
from lance_flight.engine.engine import Engine

from tests.engine.database import open_engine

CONDITION = "json_get_string(doc, 'k') = 'x'"


def table(place: str | Path, documents: list[str], first: int = 1) -> lance.LanceDataset:
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(documents))
    ids = pa.array(range(first, first + len(documents)), pa.int64())
    rows = pa.table({"id": ids, "site": [str(first)] * len(documents), "doc": texts})
    return lance.write_dataset(rows, str(place), mode="append" if Path(place).exists() else "create")


def of_path(path: str) -> IndexConfig:
    return IndexConfig(index_type="json", parameters={"target_index_type": "btree", "path": path})


def ids(dataset: lance.LanceDataset, condition: str, **options: Any) -> list[int]:
    found: list[int] = dataset.to_table(columns=["id"], filter=condition, **options)["id"].to_pylist()
    return found


def test_lance_still_builds_no_segments_of_such_an_index(tmp_path: Path) -> None:
    """Notices when it does: all indices here are built as segments, which a commit with the pins makes visible."""
    dataset = table(tmp_path / "t.lance", ['{"k": "x"}'])
    with pytest.raises(TypeError, match="Vector column doc must be"):
        dataset.create_index_uncommitted("doc", of_path("k"), name="ix", replace=True, fragment_ids=[0])


def test_lance_still_looks_a_key_up_in_the_index_of_a_path(tmp_path: Path) -> None:
    """Notices when it does not: with the index, a condition on the key `a.b` is answered for the path `$.a.b`."""
    documents = ['{"a.b": "x"}', '{"a": {"b": "x"}}']
    dataset = table(tmp_path / "t.lance", documents)
    condition = "json_get_string(doc, 'a.b') = 'x'"
    assert ids(dataset, condition) == [1]
    dataset.create_scalar_index("doc", of_path("a.b"))
    assert ids(lance.dataset(dataset.uri), condition) == [2]


def test_lance_still_indexes_values_of_one_kind_alone(tmp_path: Path) -> None:
    """Notices when it takes others: which values a key has, nobody promises."""
    mixed = table(tmp_path / "mixed.lance", ['{"k": "x"}', '{"k": 5}'])
    with pytest.raises(ValueError, match="JSON path 'k' expected Utf8, but batch row 1 has JSON type Int64"):
        mixed.create_scalar_index("doc", of_path("k"))
    grown = table(tmp_path / "grown.lance", ['{"k": "x"}'])
    grown.create_scalar_index("doc", of_path("k"))
    grown = table(grown.uri, ['{"k": 5}'], 2)
    assert ids(grown, CONDITION) == [1]
    with pytest.raises(OSError, match="JSON path 'k' expected Utf8, but batch row 0 has JSON type Int64"):
        grown.optimize.optimize_indices()
    table(grown.uri, ['{"k": [1]}'], 3)
    with pytest.raises((OSError, ValueError), match="Failed to convert to string: InvalidCast"):
        ids(lance.dataset(grown.uri), CONDITION)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Three tables of stock Lance, with indices of paths, of which one answers wrong, and of a number."""
    for first in (1, 11, 21):
        documents = ['{"k": "x"}', '{"k": "y", "a.b": "x", "a": {"b": "z"}}', '{"a": {"b": "x"}}']
        dataset = table(tmp_path / f"t{first}.lance", documents, first)
        for name, path in (("ix", "k"), ("iy", "a.b")):
            dataset.create_scalar_index("doc", of_path(path), name=name)
        dataset.create_scalar_index("id", "BTREE", name="by_id")
    return open_engine(tmp_path)


def found(engine: Engine, name: str, condition: str) -> list[int]:
    rows: list[int] = engine.query(f"SELECT id FROM {name} WHERE {condition} ORDER BY id")["id"].to_pylist()
    return rows


def test_such_indices_of_other_writers_disturb_nothing(engine: Engine) -> None:
    engine.update("INSERT INTO t1 VALUES (4, '1', '{\"k\": [1]}')")
    engine.update("DELETE FROM t1 WHERE id = 1")
    assert found(engine, "t1", CONDITION) == []
    assert found(engine, "t1", "json_get_string(doc, 'a.b') = 'x' OR id = 4") == [2, 4]
    engine.update("REINDEX t1")
    engine.update("ALTER TABLE t1 COMPACT")
    assert found(engine, "t1", "json_get_string(doc, 'k') <> 'x'") == [2, 4]
    assert engine.query("SHOW INDEXES FROM t1")["name"].to_pylist() == ["by_id"]


def test_such_indices_disturb_nothing_in_partitions(engine: Engine) -> None:
    engine.update("CREATE TABLE p (id BIGINT, site VARCHAR, doc JSON) PARTITIONED BY (site)")
    for first in (1, 11, 21):
        engine.update(f"ALTER TABLE p ATTACH TABLE 't{first}' PARTITION (site = '{first}')")
    assert found(engine, "p", "id IN (2, 11, 23)") == [2, 11, 23]
    assert found(engine, "p", CONDITION) == [1, 11, 21]
    assert found(engine, "p", "json_get_string(doc, 'a.b') = 'x'") == [2, 12, 22]
    engine.update("INSERT INTO p VALUES (5, '1', '[1]')")
    engine.update("ALTER TABLE p COMPACT")
    assert found(engine, "p", f"{CONDITION} OR id = 5") == [1, 5, 11, 21]


def test_a_column_of_its_own_is_the_index_of_a_key(engine: Engine) -> None:
    engine.update("ALTER TABLE t1 ADD COLUMN k VARCHAR AS (json_get_string(doc, 'k'))")
    engine.update("CREATE INDEX ON t1 (k) WITH (min_rows = 0)")
    assert found(engine, "t1", "k = 'x'") == [1]
    plan = "\n".join(engine.query("EXPLAIN SELECT id FROM t1 WHERE k = 'x'")["plan"].to_pylist())
    assert "k_idx (btree) of k" in plan
