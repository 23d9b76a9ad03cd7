"""Verification: what lies where it belongs is sound, whatever moved it there, and what does not is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.rewriting import RewritingRules, rewrite
from lance_flight.catalog.maintenance.verification import VerificationReport, verify
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import NotFound
from lance_flight.model.checksums import Checksum
from lance_flight_client.cli import main

from tests.stock import manifest, stored_rows, stored_tables


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table under three specs, with NULL partitions and a custom expression."""
    made = tmp_path_factory.mktemp("specs")
    engine = Engine(Root(Store(str(made))), target_partitions=2)
    for sql in (
        "CREATE TABLE t (id BIGINT, day DATE, c VARCHAR) PARTITIONED BY (month(day), c)",
        "INSERT INTO t VALUES (1, '2025-01-02', 'a'), (2, NULL, 'b'), (3, '2025-02-03', NULL)",
        "INSERT INTO t VALUES (4, '2025-01-05', 'a'), (5, '2024-01-05', 'a')",
        "ALTER TABLE t SET PARTITIONED BY (expr('lower(col0)', c) AS low, bucket(4, id))",
        "INSERT INTO t SELECT id + 10, day, upper(c) FROM t",
        "ALTER TABLE t SET PARTITIONED BY (id)",
        "INSERT INTO t VALUES (21, '2025-01-02', 'a'), (NULL, NULL, NULL)",
    ):
        engine.update(sql)
    return made


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "root"))


def opened(root: Path) -> PartitionedNamespace:
    return PartitionedNamespace.open(Store(str(root / "t")))


def verified(root: Path) -> VerificationReport:
    return verify(opened(root), evaluate)


def test_what_was_written_here_is_sound(root: Path) -> None:
    report = verified(root)
    assert report.unsound == []
    assert len(report.tables) == len(stored_tables(root / "t"))
    assert report.checksum == Checksum.of(stored_rows(root / "t").to_batches())
    assert report.checksum.rows == 12
    assert {row["object_id"]: row["rows"] for row in report.as_table.to_pylist()} == {
        stored.object_id: stored.dataset.count_rows() for stored in stored_tables(root / "t")
    }


def test_the_checksum_stays_while_rows_are_moved(root: Path) -> None:
    before = verified(root).checksum
    assert compact(opened(root)).versions
    assert verified(root).checksum == before
    assert rewrite(opened(root), evaluate, rules=RewritingRules(rows_per_piece=3)).commits
    assert {stored.spec_id for stored in stored_tables(root / "t")} == {3}
    assert verified(root).checksum == before
    Engine(Root(Store(str(root))), target_partitions=2).update("UPDATE t SET c = 'z' WHERE id = 3")
    assert verified(root).checksum != before


def test_an_older_snapshot_is_verified_as_it_was(root: Path) -> None:
    namespace = opened(root)
    old = namespace.snapshot()
    before = verified(root).checksum
    Engine(Root(Store(str(root))), target_partitions=2).update("DELETE FROM t WHERE id = 1")
    assert verify(namespace, evaluate, old).checksum == before
    assert verified(root).checksum.rows == before.rows - 1


def test_a_field_whose_column_is_gone_is_not_looked_at(root: Path) -> None:
    engine = Engine(Root(Store(str(root))), target_partitions=2)
    engine.update("ALTER TABLE t DROP COLUMN day")
    report = verified(root)
    assert report.unsound == []
    assert report.checksum.rows == 12


def misplace(root: Path) -> str:
    """Rows of a value that is not its own in one partition table, at the version that is pinned; its object id."""
    stored = next(each for each in stored_tables(root / "t") if each.spec_id == 3 and each.values["id"] == 21)
    place = stored.dataset.uri
    table = stored.dataset.to_table()
    wrong = table.set_column(0, table.schema.field(0), pa.array([99] * len(table), pa.int64()))
    found = lance.write_dataset(pa.concat_tables([table, wrong, wrong]), place, mode="overwrite")
    rows = manifest(root / "t").to_table()
    at = np.flatnonzero(pc.equal(rows["object_id"], stored.object_id).to_numpy())[0]
    row = rows.slice(int(at), 1)
    column = row.schema.get_field_index("read_version")
    row = row.set_column(column, row.schema.field(column), pa.array([found.version], row.schema.field(column).type))
    manifest(root / "t").merge_insert("object_id").when_matched_update_all().execute(row)
    return stored.object_id


def test_rows_that_belong_elsewhere_are_counted_and_the_first_is_shown(root: Path) -> None:
    name = misplace(root)
    (wrong,) = verified(root).unsound
    assert (wrong.object_id, wrong.misplaced, wrong.checksum.rows) == (name, 2, 3)
    assert wrong.problem == "a row has id = 99; expected 21"


def lose(root: Path) -> str:
    """Delete the data file of one partition table; its object id."""
    stored = stored_tables(root / "t")[0]
    for path in Path(str(stored.dataset.uri), "data").iterdir():
        path.unlink()
    return stored.object_id


def test_a_table_that_cannot_be_read_does_not_hide_the_others(root: Path) -> None:
    # What is in memory by now says nothing of the files.
    assert verified(root).is_sound
    name, count = lose(root), len(stored_tables(root / "t"))
    report = verified(root)
    (wrong,) = report.unsound
    assert wrong.object_id == name
    assert wrong.problem
    assert str(root) not in wrong.problem
    assert len(report.tables) == count


def test_the_command_ends_with_1_where_something_is_wrong(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        """Run the command: how it ended, and what it said."""
        status = main(["verify", *arguments])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    status, said = run(str(root))
    assert status == 0, said
    assert f"12 rows in {len(stored_tables(root / 't'))} partition tables" in said
    assert said.rstrip().endswith(f"checksum {verified(root).checksum}: all sound")
    name = misplace(root)
    status, said = run(str(root), "t")
    assert status == 1
    assert f"t: {name}: 2 rows belong elsewhere; a row has id = 99; expected 21" in said
    status, said = run(str(root), "t", "--snapshot", "99")
    assert status == 1
    assert "99" in said


def test_sql_returns_a_row_for_each_table(root: Path) -> None:
    name = misplace(root)
    plan = Engine(Root(Store(str(root))), target_partitions=2).plan("VERIFY TABLE t", None, scope=Scope())
    assert plan is not None
    found = Engine(Root(Store(str(root))), target_partitions=2).run(plan.tasks[0]).read_all()
    assert found.equals(verified(root).as_table)
    wrong = [row for row in found.to_pylist() if row["problem"] is not None]
    assert [(row["object_id"], row["misplaced_rows"], row["rows"]) for row in wrong] == [(name, 2, 3)]


def test_a_snapshot_that_is_not_there_is_not_found(root: Path) -> None:
    with pytest.raises(NotFound):
        opened(root).snapshot(99)
