"""Maintenance as SQL and from the command line, what both say, and the options of a table's maintenance."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.maintenance.survey import MaintenancePolicy, policy_of
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine

from tests.catalog.aging import age, file_names
from tests.engine.commands import Commands
from tests.engine.database import Database
from tests.stock import stored_tables

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "p": list("ababab")})
SUM = "SELECT p, count(*) AS n, sum(id) AS s FROM {} GROUP BY p ORDER BY p"


@pytest.fixture(scope="module")
def template(database: Database) -> str:
    """A table of two partitions of three files each."""
    database.ingest("template", ROWS.slice(0, 2), partition_by="p")
    for start in (2, 4):
        database.ingest("template", ROWS.slice(start, 2), "append")
    return "template"


def left_behind(place: Path) -> Path:
    """A data file of a partition that is part of no version, as a writer leaves it that was killed."""
    data = place / stored_tables(place)[0].row["location"] / "data"
    return Path(shutil.copy(next(data.iterdir()), data / f"{'0' * 40}.lance"))


def files_of(database: Database, table: str) -> int:
    return database.query(f'SELECT * FROM "{table}$files"').num_rows


def test_alter_table_compact_returns_what_it_did(database: Database, copied: str) -> None:
    before = database.rows(SUM.format(copied))
    report = database.query(f"ALTER TABLE {copied} COMPACT")
    assert report["files_before"].to_pylist() == [3, 3]
    assert report["files_after"].to_pylist() == [1, 1]
    assert report["is_lost"].to_pylist() == [False, False]
    assert files_of(database, copied) == 2
    assert database.rows(SUM.format(copied)) == before
    assert database.query(f"ALTER TABLE public.{copied} COMPACT;").num_rows == 0


@pytest.mark.parametrize(
    ("clauses", "files"),
    {
        "OVER 3 FILES": 6,
        "OVER 2 FILES": 2,
        "WHERE p = 'a'": 4,
        "WHERE p = 'nothing'": 6,
        "OVER 9 FILES DELETED 0 PERCENT": 6,
        "DELETED 0 PERCENT WHERE true": 2,
    }.items(),
)
def test_alter_table_compact_takes_tables_by_files_and_condition(
    database: Database, copied: str, clauses: str, files: int
) -> None:
    before = database.rows(SUM.format(copied))
    database.query(f"ALTER TABLE {copied} COMPACT {clauses}")
    assert files_of(database, copied) == files
    assert database.rows(SUM.format(copied)) == before


def test_vacuum_says_what_goes_and_then_lets_it_go(database: Database, copied: str) -> None:
    database.query(f"ALTER TABLE {copied} COMPACT")
    age(database.root / copied, hours=200)
    before = file_names(database.root / copied)
    planned = database.query(f"VACUUM {copied} DRY RUN")
    assert file_names(database.root / copied) == before
    done = database.query(f"VACUUM {copied}")
    assert done.to_pylist() == planned.to_pylist()
    assert sum(done["files"].to_pylist()) == len(before) - len(file_names(database.root / copied))
    assert database.value(f'SELECT count(*) FROM "{copied}$snapshots"') == 1
    assert database.value(f"SELECT sum(id) FROM {copied}") == 15


def test_less_than_the_floor_has_to_be_forced(database: Database, copied: str, commands: Commands) -> None:
    assert "[refused]" in database.refuses(f"VACUUM {copied} RETAIN 1 HOUR")
    database.run(f"ALTER TABLE {copied} CREATE TAG kept")
    database.run(f"DELETE FROM {copied} WHERE id = 0")
    # The statements before may be fetched again for some time: their snapshots stay.
    said = database.query(f"VACUUM {copied} RETAIN 0 HOURS DRY RUN FORCE").to_pylist()
    assert [(each["kind"], each["files"]) for each in said] == [("nothing", None)]
    assert database.query(f"VACUUM {copied} RETAIN 0 HOURS FORCE")["kind"].to_pylist() == ["nothing"]
    told = commands.run("vacuum", database.root, copied, "--retain", "0", "--force").out
    assert "nothing     1 snapshots have a tag" in told
    for reason in (
        "1 snapshots have a tag",
        "snapshots were the newest within the last 60 seconds",
        "is older than 24 hours",
    ):
        assert reason in said[0]["note"]


def test_what_was_never_committed_goes_at_the_age_that_the_statement_names(database: Database, copied: str) -> None:
    loose = left_behind(database.root / copied)
    age(database.root / copied, hours=3)
    database.query(f"VACUUM {copied}")
    assert loose.exists(), "a transaction may take a day"
    database.query(f"VACUUM {copied} TRANSACTIONS 4 HOURS")
    assert loose.exists()
    planned = database.query(f"VACUUM {copied} TRANSACTIONS 2 HOURS DRY RUN")
    assert loose.exists()
    assert database.query(f"VACUUM {copied} DRY RUN TRANSACTIONS 2 HOURS").to_pylist() == planned.to_pylist() != []
    assert database.query(f"VACUUM {copied} TRANSACTIONS 2 HOURS").to_pylist() == planned.to_pylist()
    assert not loose.exists()
    assert database.rows(SUM.format(copied)) == [("a", 3, 6), ("b", 3, 9)]


def test_less_than_a_transaction_may_take_has_to_be_forced(database: Database, copied: str) -> None:
    loose = left_behind(database.root / copied)
    age(database.root / copied, hours=1.5)
    said = database.refuses(f"VACUUM {copied} TRANSACTIONS 1 HOUR")
    assert "[refused] what is not committed is kept for 2 hours, got 1" in said
    planned = database.query(f"VACUUM {copied} RETAIN 0 HOURS TRANSACTIONS 1 HOUR DRY RUN").to_pylist()
    assert loose.exists()
    assert database.query(f"VACUUM {copied} RETAIN 0 HOURS TRANSACTIONS 1 HOUR FORCE").to_pylist() == planned != []
    assert not loose.exists()
    assert database.rows(SUM.format(copied)) == [("a", 3, 6), ("b", 3, 9)]


def test_repair_table_mends_and_says_how(database: Database, copied: str) -> None:
    assert database.query(f"REPAIR TABLE {copied}").num_rows == 0
    (gone,) = [table for table in stored_tables(database.root / copied) if table.values["p"] == "b"]
    shutil.rmtree(database.root / copied / gone.row["location"])
    assert database.query(f"REPAIR TABLE {copied} DRY RUN").to_pylist() == [
        {
            "kind": "missing directory",
            "name": gone.object_id,
            "what": f"there is no table in {gone.row['location']!r}: its rows are lost, and nothing says how many they were",
            "mended": None,
        }
    ]
    assert database.query(f"REPAIR TABLE {copied}")["mended"].to_pylist() == ["row removed"]
    assert database.rows(SUM.format(copied)) == [("a", 3, 6)]


def test_a_stream_goes_on_while_its_table_is_compacted_and_vacuumed(
    database: Database, table: str, commands: Commands
) -> None:
    data = pa.table({"id": pa.array(range(400_000), pa.int64()), "p": [f"p{n % 40}" for n in range(400_000)]})
    database.ingest(table, data, partition_by="p")
    database.run(f"DELETE FROM {table} WHERE id < 400")
    plan = database.engine.execute(f"SELECT id FROM {table}")
    batches = database.engine.run(plan.tasks[0])
    ids = batches.read_next_batch()["id"].to_pylist()
    database.ingest(table, data, "append")
    assert commands.run("compact", database.root, table).status == 0
    age(database.root / table / "__manifest", hours=200)
    database.query(f"VACUUM {table}")
    ids += batches.read_all()["id"].to_pylist()
    assert sorted(ids) == list(range(400, 400_000))


def test_the_commands_do_the_same_from_outside(database: Database, copied: str, commands: Commands) -> None:
    before = database.rows(SUM.format(copied))
    done = commands.run("compact", database.root, copied)
    assert done.out == f"{copied}: 2 of 2 partition tables compacted, 6 files into 2\n"
    age(database.root / copied, hours=200)
    planned = commands.run("vacuum", database.root, copied, "--dry-run").out.splitlines()
    assert "would go" in planned[0]
    assert sorted(line.split()[0] for line in planned[1:]) == ["snapshots", "versions", "versions"]
    age(database.root / copied, hours=1)  # the leases of the statements before are over
    removed = commands.run("vacuum", database.root, copied)
    assert removed.status == 0
    assert "removed" in removed.out
    assert commands.run("repair", database.root, copied).out == f"{copied}: nothing is wrong\n"
    assert database.rows(SUM.format(copied)) == before


def test_a_command_without_a_table_takes_them_all(tmp_path: Path, commands: Commands) -> None:
    root = tmp_path / "root"
    database = Database(root)
    for table in ("one", "two"):
        database.ingest(table, ROWS, partition_by="p")
        database.ingest(table, ROWS, "append")
    database.ingest("plain", ROWS)
    done = commands.run("compact", root)
    assert [line.split(":")[0] for line in done.out.splitlines()] == ["one", "plain", "two"]
    manifest = lance.dataset(str(root / "one" / "__manifest"))
    manifest.drop_columns(["partition_field_p"])
    looked = commands.run("repair", root)
    assert looked.status == 1, "something is wrong and stays so"
    assert "one: lost columns" in looked.out
    assert "two: nothing is wrong" in looked.out
    failed = commands.run("vacuum", root)
    assert failed.status == 1
    assert "[corrupt]" in failed.err
    assert "two:" in failed.out, "one that fails does not keep the others from it"
    assert commands.run("repair", root, "--apply").status == 0
    assert commands.run("repair", root).status == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compact", "root", "nothing"], "not_found"),
        (["rewrite", "root", "plain"], "unsupported"),
        (["compact", "nowhere"], "not a directory"),
        (["compact", "root", "--files", "-1"], "files is -1"),
        (["vacuum", "root", "--retain", "1"], "refused"),
        (["vacuum", "root", "--transactions", "-1"], "transaction_hours"),
        (["vacuum", "root", "--transactions", "1.9"], "refused"),
        (["repair", "root", "nothing"], "not_found"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_commands_say_in_one_line_what_is_wrong(
    tmp_path: Path, commands: Commands, arguments: list[str], says: str
) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "root" / "plain.lance"))
    done = commands.run(*[tmp_path / part if part in {"root", "nowhere"} else part for part in arguments])
    assert done.status == 1
    assert says in done.err
    assert len(done.err.splitlines()) == 1


COLUMNS = "(id BIGINT, p VARCHAR)"
KINDS = pytest.mark.parametrize("partitioned", ["", " PARTITIONED BY (p)"], ids=["plain", "partitioned"])
DAY = 86400.0


def policy(engine: Engine, table: str = "t") -> MaintenancePolicy:
    return policy_of(engine.root.table(TableName("public", table)).snapshot())


def definition(engine: Engine, table: str = "t") -> str:
    return str(engine.query(f"SHOW CREATE TABLE {table}")["definition"][0].as_py())


TAKEN = [
    pytest.param("compact_files = 4", MaintenancePolicy(compact_files=4), "compact_files = 4", id="files"),
    ("compact_deleted = 0.25", MaintenancePolicy(compact_deleted=0.25), "compact_deleted = 0.25"),
    pytest.param("compact_deleted = 0", MaintenancePolicy(compact_deleted=0), "compact_deleted = 0", id="nothing"),
    pytest.param("reindex_missing = 1", MaintenancePolicy(reindex_missing=1), "reindex_missing = 1", id="all"),
    pytest.param("retain = '36h'", MaintenancePolicy(retain=1.5 * DAY), "retain = '36h'", id="hours"),
    pytest.param("retain = '30d'", MaintenancePolicy(retain=30 * DAY), "retain = '30d'", id="days"),
    pytest.param("retain = 7200", MaintenancePolicy(retain=7200), "retain = '2h'", id="seconds"),
    ("transactions = '6h'", MaintenancePolicy(transactions=DAY / 4), "transactions = '6h'"),
    pytest.param("maintenance = off", MaintenancePolicy(maintenance=False), "maintenance = off", id="off"),
    pytest.param("maintenance = 'OFF'", MaintenancePolicy(maintenance=False), "maintenance = off", id="off in quotes"),
    pytest.param(
        "retain = '1h30min', compact_files = 1",
        MaintenancePolicy(retain=5400, compact_files=1),
        "compact_files = 1, retain = '90min'",
        id="several",
    ),
]


@KINDS
@pytest.mark.parametrize(("options", "expected", "shown"), TAKEN)
def test_an_option_is_stored_and_shown(
    engine: Engine, partitioned: str, options: str, expected: MaintenancePolicy, shown: str
) -> None:
    engine.update(f"CREATE TABLE t {COLUMNS}{partitioned}")
    engine.update(f"ALTER TABLE t SET ({options})")
    assert policy(engine) == expected
    assert definition(engine).endswith(f"WITH ({shown})")
    engine.update(definition(engine).replace('"t"', '"again"', 1))
    assert policy(engine, "again") == expected
    assert definition(engine, "again") == definition(engine).replace('"t"', '"again"', 1)


@KINDS
def test_default_takes_an_option_back(engine: Engine, partitioned: str) -> None:
    engine.update(f"CREATE TABLE t {COLUMNS}{partitioned} WITH (compact_files = 2, maintenance = off)")
    engine.update("ALTER TABLE t SET (compact_files = DEFAULT)")
    assert policy(engine) == MaintenancePolicy(maintenance=False)
    engine.update("ALTER TABLE t SET (maintenance = DEFAULT)")
    assert "WITH" not in definition(engine)


def test_the_history_says_which_options_were_set(engine: Engine) -> None:
    engine.update(f"CREATE TABLE t {COLUMNS} PARTITIONED BY (p)")
    engine.update("ALTER TABLE t SET (compact_files = 2, retain = '8d')")
    (operation,) = engine.query("SELECT operation FROM t$snapshots ORDER BY version DESC LIMIT 1")["operation"]
    assert operation.as_py() == "set compact_files, retain"
