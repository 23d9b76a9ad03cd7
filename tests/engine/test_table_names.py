"""Every name that a table may be created under is found again, and none is a way into another table."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.errors import NotFound

LAYOUTS = pytest.mark.parametrize("layout", ["", " PARTITIONED BY (id)"], ids=["plain", "partitioned"])
OF_LANCE = ["_versions", "_transactions", "_indices", "_deletions", "_refs", "data", "tree"]


def listed(engine: Engine) -> list[str]:
    return [str(name) for name in engine.root.tables()]


@LAYOUTS
@pytest.mark.parametrize("name", ["_x", "__x", "_", "__manifest_", *OF_LANCE])
def test_a_table_is_found_under_the_name_that_it_was_created_under(engine: Engine, name: str, layout: str) -> None:
    engine.update(f"CREATE TABLE {name} (id INT){layout}")
    assert engine.update(f"INSERT INTO {name} VALUES (1)") == 1
    assert engine.query(f"SELECT id FROM {name}").to_pylist() == [{"id": 1}]
    assert listed(engine) == [f"public.{name}"]
    engine.update(f"DROP TABLE {name}")
    assert listed(engine) == []


@pytest.mark.slow  # every name in every layout
@LAYOUTS
@pytest.mark.parametrize("name", ["_s", *OF_LANCE])
def test_a_schema_may_have_any_such_name_and_such_tables(
    tmp_path: Path, engine: Engine, name: str, layout: str
) -> None:
    (tmp_path / name).mkdir()
    for table in ("t", "_versions", "data"):
        engine.update(f"CREATE TABLE {name}.{table} (id INT){layout}")
        engine.update(f"INSERT INTO {name}.{table} VALUES (1)")
    assert engine.root.schemas() == sorted(["public", name])
    assert listed(engine) == [f"{name}.{table}" for table in ("_versions", "data", "t")]
    assert engine.query(f"SELECT a.id FROM {name}.t a JOIN {name}._versions b ON a.id = b.id").num_rows == 1


def test_what_belongs_to_a_table_at_the_root_is_no_schema(tmp_path: Path, engine: Engine) -> None:
    dataset = lance.write_dataset(pa.table({"id": [1, 2]}), str(tmp_path))
    dataset.delete("id = 1")
    dataset.create_scalar_index("id", "BTREE")
    dataset.tags.create("first", 1)
    assert {"_versions", "_transactions", "_deletions", "_indices", "_refs", "data"} <= {
        path.name for path in tmp_path.iterdir()
    }
    (tmp_path / "beside").mkdir()
    assert engine.root.schemas() == ["beside", "public"]
    assert listed(engine) == []
    for name in OF_LANCE:
        with pytest.raises(NotFound):
            engine.update(f"CREATE TABLE {name}.t (id INT)")
