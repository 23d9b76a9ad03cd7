"""What a snapshot added: its new rows, each once, and nothing for rows that were only moved; what removes rows is named."""

from __future__ import annotations

import pickle
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.catalog.commits.commit import _Member
from lance_flight.catalog.history import Additions
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.rewriting import rewrite
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import NotFound, QueryFailed, Unsupported

from tests.catalog.aging import age
from tests.catalog.pinned_layouts import lay_out, repin
from tests.catalog.planned_additions import newest, run
from tests.catalog.small_table import opened
from tests.selection import IS_FULL

pytestmark = pytest.mark.slow  # every change to a table, and streams over it

Rows = Counter[tuple[int, str | None]]
WALKS = 60 if IS_FULL else 2
STEPS = 14

MERGE = "MERGE INTO t USING {} s ON t.id = s.id {} WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'a')"
ADDS = {
    "an insert": ("INSERT INTO t VALUES (5, 'a', 5), (6, 'new', 6)", [5, 6]),
    "an insert of what is there": ("INSERT INTO t SELECT * FROM t WHERE id < 3", [1, 2]),
    "an overwrite of a partition without rows": ("INSERT OVERWRITE t VALUES (5, 'new', 5)", [5]),
    "a merge that finds no row": (MERGE.format("(SELECT 7 AS id)", ""), [7]),
    "a table that is attached": ("ALTER TABLE t ATTACH TABLE 'plain' PARTITION (name = 'z')", [90, 91]),
    "a rollback to before a deletion": ("ALTER TABLE t ROLLBACK TO {begun}", [0]),
}
MOVES = {
    "a compaction": "compact",
    "rows under a new spec": "rewrite",
    "an index": "index",
    "a new spec": "ALTER TABLE t SET PARTITIONED BY (bucket(2, id))",
    "a new column": "ALTER TABLE t ADD COLUMN y INTEGER",
    "a computed column": "ALTER TABLE t ADD COLUMN y BIGINT AS (id + x)",
    "a wider column": "ALTER TABLE t ALTER COLUMN id TYPE BIGINT",
    "wider columns": "ALTER TABLE t ALTER COLUMN x TYPE BIGINT",
    "a column that is renamed": "ALTER TABLE t RENAME COLUMN x TO z",
    "a column that is dropped": "ALTER TABLE t DROP COLUMN x",
    "a tag": "ALTER TABLE t CREATE TAG here",
    "a deletion of nothing": "DELETE FROM t WHERE id = 99",
    "an insert of nothing": "INSERT INTO t SELECT * FROM t WHERE id = 99",
}
CHANGES = {
    "a deletion": ("DELETE FROM t WHERE id = 2", "delete 1 rows in 1 partitions", []),
    "an update": ("UPDATE t SET x = 0 WHERE id = 2", "update 1 rows in 1 partitions", [2]),
    "an overwrite": ("INSERT OVERWRITE t VALUES (5, 'a', 5)", "overwrite 1 partitions with 1 rows in place of 2", [5]),
    "a partition that is dropped": ("ALTER TABLE t DROP PARTITION (name = 'a')", "drop 1 partitions", []),
    "a partition that is detached": ("ALTER TABLE t DETACH PARTITION (name = 'a') TO b", "detach b with 2 rows", []),
    "a truncation": ("TRUNCATE TABLE t", "truncate 4 rows in 3 partitions", []),
    "a merge that finds one": (
        MERGE.format("(SELECT 1 AS id UNION SELECT 8)", "WHEN MATCHED THEN UPDATE SET x = 0"),
        "merge 2 rows in 1 partitions",
        [1, 8],
    ),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows 1 to 4 in three partitions; the first one had more, and lies in two files."""
    made = tmp_path_factory.mktemp("template")
    for sql in (
        "CREATE TABLE plain (id INT NOT NULL, name VARCHAR, x INT)",
        "INSERT INTO plain VALUES (90, 'z', 90), (91, 'z', 91)",
        "CREATE TABLE t (id INT NOT NULL, name VARCHAR, x INT) PARTITIONED BY (name)",
        "INSERT INTO t VALUES (0, 'a', 0), (1, 'a', 1)",
        "INSERT INTO t VALUES (2, 'a', 2), (3, 'b', 3), (4, NULL, 4)",
    ):
        run(made / "t", sql)
    return made


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path, dirs_exist_ok=True)) / "t"


def read(place: Path, additions: Sequence[object], names: Sequence[str] = ("id", "name")) -> Rows:
    """The rows as another process reads them."""
    schema = opened(place).snapshot().schema
    columns = pa.schema([schema.arrow.field(name).with_nullable(nullable=True) for name in names])
    found = pickle.loads(pickle.dumps(additions))  # noqa: S301 - our own
    rows: Rows = Counter()
    for added in found:
        mine = [tuple(row.values()) for batch in added.read(columns, schema.ids) for row in batch.to_pylist()]
        assert added.rows == len(mine)
        rows.update(mine)
    return rows


def added(place: Path, first: int, last: int, *, allows_changes: bool = False) -> list[int]:
    found = Additions(namespace=opened(place), allows_changes=allows_changes).between(first, last)
    return sorted(number for (number,) in read(place, found, ("id",)).elements())


@pytest.mark.parametrize("name", ADDS)
def test_what_adds_rows_is_told_by_these(place: Path, name: str) -> None:
    statement, ids = ADDS[name]
    begun = newest(place)
    run(place, "DELETE FROM t WHERE id = 0")
    before = newest(place)
    run(place, statement.format(begun=begun))
    assert added(place, before, newest(place)) == ids
    assert added(place, newest(place), newest(place)) == []


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_rows_adds_none(place: Path, name: str) -> None:
    run(
        place,
        "ALTER TABLE t SET PARTITIONED BY (bucket(3, id))"
        if name == "rows under a new spec"
        else "DELETE FROM t WHERE id = 0",
    )
    before = newest(place)
    run(place, MOVES[name])
    after = newest(place)
    assert added(place, before, after) == []
    run(place, "INSERT INTO t (id, name) VALUES (5, 'a')")
    assert added(place, before, newest(place)) == [5]


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_rows_is_named_or_told_by_what_it_brings(place: Path, name: str) -> None:
    statement, operation, ids = CHANGES[name]
    run(place, "DELETE FROM t WHERE id = 0")
    before = newest(place)
    run(place, "INSERT INTO t VALUES (9, 'c', 9)")
    run(place, statement)
    after = newest(place)
    said = "truncate 5 rows in 4 partitions" if name == "a truncation" else operation
    with pytest.raises(
        QueryFailed, match=f"snapshot {after} of 't' removed or changed rows that were there before: {said}"
    ):
        added(place, before, after)
    assert added(place, before, after - 1) == [9]
    assert added(place, before, after, allows_changes=True) == sorted([9, *ids])


def test_rows_that_move_share_no_snapshot_with_those_that_others_add(place: Path) -> None:
    namespace = opened(place)
    before = newest(place)
    moving, adding = namespace.begin(), namespace.begin()
    moving.did.append("compact 0 partitions")
    adding.did.append("append 0 rows")
    members = [_Member(moving), _Member(adding), _Member(namespace.begin())]
    namespace.commits._commit(members)
    assert [member.version for member in members] == [before + 2, before + 1, before + 1]


def test_a_table_that_cannot_hold_a_row_is_neither_read_nor_missed(place: Path) -> None:
    before = newest(place)
    run(place, "INSERT INTO t VALUES (5, 'a', 5), (6, 'b', 6)")
    run(place, "DELETE FROM t WHERE name = 'b'")
    namespace = opened(place)
    (tables,) = namespace.snapshot().tables
    held = {
        table.object_id
        for table, value in zip(tables.tables(), tables.values[0].to_pylist(), strict=True)
        if value == "a"
    }
    additions = Additions(namespace=namespace, may_hold=lambda _: held)
    assert read(place, additions.between(before, newest(place))) == Counter([(5, "a")])
    assert read(place, additions.all_of(newest(place))) == Counter([(0, "a"), (1, "a"), (2, "a"), (5, "a")])
    with pytest.raises(QueryFailed):
        replace(additions, may_hold=None).between(before, newest(place))


def test_all_rows_of_a_snapshot_are_those_that_it_has(place: Path) -> None:
    before = newest(place)
    run(place, "UPDATE t SET name = 'moved' WHERE id < 2")
    additions = Additions(namespace=opened(place))
    assert read(place, additions.all_of(before)) == Counter([(0, "a"), (1, "a"), (2, "a"), (3, "b"), (4, None)])
    assert read(place, additions.all_of(newest(place))) == Counter(
        [(0, "moved"), (1, "moved"), (2, "a"), (3, "b"), (4, None)]
    )


def test_a_snapshot_that_vacuum_removed_is_missed(place: Path) -> None:
    before = newest(place)
    for number in range(3):
        run(place, f"INSERT INTO t VALUES ({number}, 'a', 0)")
    age(place, hours=1)
    vacuum(opened(place), VacuumRules(retain_hours=0, transaction_hours=0, force=True))
    with pytest.raises(NotFound, match=f"snapshot {before} of 't' is not there any more.*VACUUM"):
        added(place, before, newest(place))


def test_a_table_without_a_fixed_version_is_no_source(tmp_path: Path) -> None:
    lay_out(tmp_path / "t")
    repin(tmp_path / "t", "v1$k7m2n9p4q8r5s3t6$dataset")
    namespace = PartitionedNamespace.open(Store(str(tmp_path / "t")))
    with pytest.raises(Unsupported, match=r"has tables without a fixed version, such as 'v1\$"):
        Additions(namespace=namespace).all_of(namespace.snapshot().version)


STATEMENTS = (
    "INSERT INTO t (id, name, x) VALUES ({n}, '{name}', {n}), ({n} + 1, 'c', 0)",
    "INSERT INTO t (id, name) VALUES ({n}, NULL)",
    "DELETE FROM t WHERE id % 5 = {k}",
    "UPDATE t SET id = id + {n} WHERE id % 5 = {k}",
    "INSERT OVERWRITE t (id, name) VALUES ({n}, '{name}')",
    "compact",
    "ALTER TABLE t SET PARTITIONED BY (bucket({n}, id), name)",
    "rewrite",
    "ALTER TABLE t ADD COLUMN c{n} INTEGER",
    "rollback",
)


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_history_is_told_snapshot_by_snapshot(place: Path, seed: int) -> None:
    """Against the contents of every snapshot: what came, where nothing went, and that something went where it did."""
    chance = random.Random(seed)  # noqa: S311 - a walk, no secret
    first = newest(place)
    run(place, "DELETE FROM t WHERE id = 0")
    for number in range(STEPS):
        values = {"n": 100 * (number + 1), "name": chance.choice("ab"), "k": chance.randrange(5)}
        walk(place, chance.choice(STATEMENTS).format(**values))
    did = opened(place).log.operations()
    contents = {version: content(place, version) for version in range(first, newest(place) + 1)}
    removals = 0
    for version in range(first + 1, newest(place) + 1):
        came, went = contents[version] - contents[version - 1], contents[version - 1] - contents[version]
        anyway = read(place, Additions(namespace=opened(place), allows_changes=True).between(version - 1, version))
        if did.get(version, "").startswith("rollback"):
            # It may bring back the old files of rows that were only written anew since.
            assert came <= anyway
            continue
        assert anyway == came
        if went:
            removals += 1
            with pytest.raises(QueryFailed, match=f"snapshot {version} "):
                added(place, version - 1, version)
        else:
            assert read(place, Additions(namespace=opened(place)).between(version - 1, version)) == came
    assert removals


def walk(place: Path, statement: str) -> None:
    match statement:
        case "compact":
            compact(opened(place), CompactionRules(deleted=0))
        case "rewrite":
            rewrite(opened(place), evaluate)
        case "rollback":
            last = newest(place)
            if opened(place).snapshot(last - 2).specs == opened(place).snapshot(last).specs:
                run(place, f"ALTER TABLE t ROLLBACK TO {last - 2}")
        case _:
            run(place, statement)


def content(place: Path, version: int) -> Rows:
    answer = Engine(Root(Store(str(place.parent))), target_partitions=1).query(f"SELECT id, name FROM t@{version}")
    return Counter((row["id"], row["name"]) for row in answer.to_pylist())
