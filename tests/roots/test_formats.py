"""Formats of newer releases: refused by name, for that thing alone, whatever is done with it; and migrations that are killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import lance
import pytest
from lance_flight.catalog.maintenance.diagnosis import Level, diagnose
from lance_flight.catalog.maintenance.rewriting import STEPS
from lance_flight.catalog.manifests.snapshot import DERIVED_VALUES
from lance_flight.catalog.storage import formats
from lance_flight.catalog.storage.formats import (
    CHECK_SECONDS,
    FORMAT_KEY,
    FORMATS,
    LEASE,
    RECORD,
    TABLE,
    RootFormats,
    StoredFormat,
)
from lance_flight.catalog.storage.store import Store, shared_session
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.engine.engine import Engine
from lance_flight.errors import Corrupt, InvalidInput, LanceFlightError, NewerFormat, Unsupported
from lance_flight.faults import MIGRATION_POINTS, VARIABLE
from lance_flight_client.cli import main

from tests.backup.roots import engine_of
from tests.documents import rows_of
from tests.faults.failpoints import copy_files, left_behind
from tests.service.forked import forked
from tests.service.server_process import files

pytestmark = pytest.mark.slow  # processes of the command line

REFUSED = "table 't' of root 'root' has table format 3, which a newer release wrote; this one reads 1 to 2"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the root of each test lies: Lance knows branches by where they lie."""
    root = tmp_path_factory.mktemp("formats") / "root"
    root.mkdir()
    engine = engine_of(root)
    for statement in (
        "CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "ALTER TABLE t CREATE TAG old",
        "ALTER TABLE t CREATE BRANCH b",
        """INSERT INTO "t@b" VALUES (3, 'c')""",
        "CREATE TABLE other (id BIGINT, p VARCHAR) PARTITIONED BY (p)",
        "INSERT INTO other VALUES (1, 'a')",
        "CREATE TABLE flat AS SELECT 1 AS id",
        "CREATE TABLE flat2 AS SELECT 1 AS id",
        "CREATE VIEW v AS SELECT id FROM other",
    ):
        engine.update(statement)
    copy_files(root, root.with_name("made"))
    return root


@pytest.fixture
def root(place: Path) -> Path:
    put(place.with_name("made"), place)
    return place


def put(made: Path, root: Path) -> None:
    """Put a copy of a root where it was made, as a process finds it that has read none before."""
    shutil.rmtree(root)
    copy_files(made, root)
    shared_session.cache_clear()


def in_table_metadata(root: Path, version: str = "3") -> None:
    lance.dataset(root / "t" / "__manifest").update_metadata({FORMAT_KEY: version})


def in_the_guard_row(root: Path) -> None:
    """A migration by a newer release that was committed, and died before the table metadata said so."""
    manifest = lance.dataset(root / "t" / "__manifest")
    note = json.dumps({"lance_flight:pending": json.dumps({FORMAT_KEY: {"was": "", "now": "3"}})})
    quoted = note.replace("'", "''")
    manifest.update({"metadata": f"'{quoted}'"}, where="object_id = 'v1'")


NEWER = {"table metadata": in_table_metadata, "guard row": in_the_guard_row}

USES = [
    "SELECT * FROM t", "SELECT count(*) FROM t", 'SELECT * FROM "t$snapshots"', "EXPLAIN SELECT * FROM t", "SHOW PARTITIONS t",
    "INSERT INTO t VALUES (4, 'a')", "UPDATE t SET id = 5", "DELETE FROM t", "TRUNCATE TABLE t", "DROP TABLE t",
    "ALTER TABLE t RENAME TO u", "ALTER TABLE t ADD COLUMN c BIGINT", "ALTER TABLE t SET (compact_files = 3)",
    "ALTER TABLE t CREATE TAG x", "ALTER TABLE t CREATE BRANCH y", "ALTER TABLE t PUBLISH BRANCH b", "VACUUM t",
    "ALTER TABLE t COMPACT", "ALTER TABLE t REWRITE PARTITIONS", "REPAIR TABLE t", "VERIFY TABLE t", "MIGRATE TABLE t",
    "SELECT * FROM other JOIN t USING (id)", "CREATE OR REPLACE TABLE t (id BIGINT) PARTITIONED BY (id)", "CREATE INDEX i ON t (id)",
]  # fmt: skip


def said_of(engine: Engine, sql: str) -> str:
    """What an engine says that must refuse a statement."""
    word = sql.split(maxsplit=1)[0]
    with pytest.raises(NewerFormat) as raised:
        engine.query(sql) if word in {"SELECT", "EXPLAIN", "SHOW", "VERIFY"} else engine.update(sql)
    return str(raised.value)


@pytest.mark.parametrize("newer", NEWER.values(), ids=NEWER)
def test_a_newer_table_is_refused_whatever_is_done_with_it_and_left_as_it_is(
    root: Path, newer: Callable[[Path], None]
) -> None:
    running = engine_of(root)
    assert running.query("SELECT count(*) FROM t").to_pylist()
    newer(root)
    before = files(root)
    for engine in (running, engine_of(root)):
        for sql in USES:
            try:
                said = said_of(engine, sql)
            except LanceFlightError as exc:
                pytest.fail(f"{sql}: {exc!r}")
            assert said.startswith(REFUSED), sql
            assert "expected a server of that release" in said
    assert files(root) == before


@pytest.mark.parametrize("newer", NEWER.values(), ids=NEWER)
def test_the_other_tables_of_the_root_go_on(root: Path, newer: Callable[[Path], None]) -> None:
    newer(root)
    engine = engine_of(root)
    engine.update("INSERT INTO other VALUES (2, 'b')")
    assert engine.query("SELECT count(*) AS n FROM other").to_pylist() == [{"n": 2}]
    assert engine.query("SELECT * FROM v").num_rows == 2
    assert "t" in engine.query("SHOW TABLES")["table_name"].to_pylist()
    columns = engine.query("SELECT table_name FROM information_schema.columns WHERE table_schema = 'public'")
    assert set(columns["table_name"].to_pylist()) >= {"other", "flat", "v"}
    engine.update("CREATE TABLE more AS SELECT 1 AS a")
    engine.update("DROP TABLE other")


def test_older_versions_of_a_newer_table_are_read(root: Path) -> None:
    in_table_metadata(root)
    assert engine_of(root).query('SELECT count(*) AS n FROM "t@old"').to_pylist() == [{"n": 2}]


@pytest.mark.parametrize("version", ["0", "-1", "x", "", "1.5", "99999999999"])
def test_what_is_no_version_is_corrupt(root: Path, version: str) -> None:
    in_table_metadata(root, version)
    with pytest.raises(Corrupt, match=r"table 't' of root 'root' has table format '.*'; expected a number, 1 to 2"):
        engine_of(root).query("SELECT * FROM t")


def test_a_newer_plain_table_is_refused(root: Path) -> None:
    running = engine_of(root)
    assert running.query("SELECT * FROM flat").num_rows == 1
    lance.dataset(root / "flat.lance").update_metadata({FORMAT_KEY: "2"})
    for engine in (running, engine_of(root)):
        for sql in (
            "SELECT * FROM flat",
            "INSERT INTO flat VALUES (1)",
            "DELETE FROM flat",
            "DROP TABLE flat",
            "VACUUM flat",
        ):
            assert said_of(engine, sql).startswith(
                "table 'flat' of root 'root' has plain table format 2, which a newer"
            )
        assert engine.query("SELECT * FROM flat2").num_rows == 1
    assert lance.dataset(root / "flat.lance").count_rows() == 1


def test_a_newer_view_is_refused_and_no_other(root: Path) -> None:
    (file,) = (root / PRIVATE).glob("view-*.json")
    engine = engine_of(root)
    engine.update("CREATE VIEW w AS SELECT 1 AS one")
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 2}))
    for sql in ("SELECT * FROM v", "DROP VIEW v"):
        assert "of root 'root' has view format 2, which a newer release wrote; this one reads 1" in said_of(engine, sql)
    assert engine.query("SELECT * FROM w").num_rows == 1
    tables = engine.query("SELECT table_name FROM information_schema.tables")["table_name"].to_pylist()
    assert "w" in tables
    assert "v" not in tables
    engine.update("CREATE SCHEMA s")
    with pytest.raises(NewerFormat):
        engine.update("DROP SCHEMA s")
    assert file.exists()


def record(place: Path, **versions: object) -> None:
    (place / PRIVATE).mkdir(exist_ok=True)
    (place / PRIVATE / RECORD).write_text(json.dumps(versions))


def test_a_newer_root_is_refused_as_a_whole(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = engine_of(root)
    running.query("SELECT * FROM other")
    record(root, root=2)
    said = "root 'root' has root format 2, which a newer release wrote; this one reads 1"
    for sql in (
        "SELECT * FROM other",
        "SHOW TABLES",
        "CREATE TABLE n AS SELECT 1 AS a",
        "DROP TABLE other",
        "CREATE SCHEMA s",
    ):
        assert said_of(engine_of(root), sql).startswith(said), sql
    for sql in (
        "CREATE TABLE n AS SELECT 1 AS a",
        "DROP TABLE other",
        "ALTER TABLE other RENAME TO o",
        "CREATE VIEW x AS SELECT 1 AS a",
    ):
        assert said_of(running, sql).startswith(said), f"{sql}: a running server changes nothing from this moment on"
    for command in ("migrate", "inspect", "vacuum", "verify"):
        assert main([command, str(root)]) == 1
        assert said in capsys.readouterr().err
    log = root.with_name("log")
    with forked(["serve", str(root), "--port", "0"], log=log) as served:
        assert served.wait(60) == 1
    assert said in log.read_text()
    assert (root / "other").is_dir()


def test_a_running_server_finds_a_newer_root_before_it_reads(root: Path) -> None:
    now = [0.0]
    found = RootFormats(Store(str(root)), now=lambda: now[0])
    found.check()
    record(root, root=2)
    now[0] = CHECK_SECONDS - 1
    found.check()
    now[0] = CHECK_SECONDS
    with pytest.raises(NewerFormat):
        found.check()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"root":"x"}', '{"root":0}', '{"root":true}'])
def test_a_broken_record_is_corrupt(root: Path, content: str) -> None:
    (root / PRIVATE / RECORD).write_text(content)
    with pytest.raises(Corrupt):
        engine_of(root).query("SELECT * FROM other")


def test_a_record_does_not_lead_out_of_the_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"root":1}')
    (root / PRIVATE / RECORD).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Corrupt):
        engine_of(root).query("SELECT * FROM other")


def test_new_tables_have_what_the_record_says_as_far_as_it_is_known(root: Path) -> None:
    for recorded, expected in ((None, None), (2, "2"), (3, "2")):
        if recorded is not None:
            record(root, table=recorded)
        engine_of(root).update(f"CREATE TABLE new_{recorded or 1} (id BIGINT) PARTITIONED BY (id)")
        assert lance.dataset(root / f"new_{recorded or 1}" / "__manifest").metadata.get(FORMAT_KEY) == expected


def test_a_vacuum_takes_the_lease_of_a_newer_server_for_none(root: Path) -> None:
    engine = engine_of(root)
    place = root / "t" / PRIVATE / "leases"
    place.mkdir(parents=True, exist_ok=True)
    (place / "newer.json").write_text('{"lance_flight_format":2,"held":[{"branch":"","from":1}]}')
    before = files(root)
    with pytest.raises(NewerFormat, match="the lease of another server has lease format 2"):
        engine.update("VACUUM t RETAIN 0 HOURS FORCE")
    assert {file for file in before if "_versions" in file or file.endswith(".lance")} <= files(root)


def test_a_branch_of_an_older_format_is_published_once_it_is_migrated(root: Path) -> None:
    engine = engine_of(root)
    in_table_metadata(root, "2")
    with pytest.raises(
        Unsupported, match="branch 'b' has table format 1 and the main branch 2; expected `lance-flight migrate"
    ):
        engine.update("ALTER TABLE t PUBLISH BRANCH b")
    assert main(["migrate", str(root)]) == 0
    engine.update("ALTER TABLE t PUBLISH BRANCH b")
    assert engine.query("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 3}]


def test_the_doctor_says_what_is_newer_and_what_can_be_migrated(root: Path) -> None:
    def findings() -> dict[str, tuple[Level, str, str]]:
        return {each.subject: (each.level, each.text, each.advice) for each in diagnose(engine_of(root).root)}

    assert findings()["t"][1].endswith("table format 1")
    lance.dataset(root / "t" / "__manifest").update_metadata({DERIVED_VALUES: None})
    assert findings()["t"][1].endswith("table format 1; lance-flight migrate makes it 2")
    in_table_metadata(root)
    level, text, advice = findings()["t"]
    assert (level, "table format 3" in text, "newer release" in advice) == (Level.ERROR, True, True)
    assert findings()["other"][0] is Level.OK
    (file,) = (root / PRIVATE).glob("view-*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 2}))
    assert findings()["views"][0] is Level.ERROR
    record(root, root=2)
    assert findings()["root"][0] is Level.ERROR
    assert "other" not in findings()


def test_a_failed_table_leaves_the_record_and_the_others_are_migrated(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_table_metadata(root)
    assert main(["migrate", str(root)]) == 1
    said = capsys.readouterr()
    assert "other: migrated: table format 1 to 2" in said.out
    assert REFUSED in said.err
    assert not (root / PRIVATE / RECORD).exists()


def test_sql_migrates_a_table_and_its_branches_as_the_command_does(root: Path) -> None:
    engine = engine_of(root)
    steps = [
        {"key": FORMAT_KEY, "found_in": place, "value": "2"}
        for place in ("branch 'b', format 1", "the table, format 1")
    ]
    assert engine.query("MIGRATE TABLE t DRY RUN").to_pylist() == steps
    assert engine.query("MIGRATE TABLE t").to_pylist() == steps
    assert engine.query("MIGRATE TABLE t").to_pylist() == []
    engine.update("ALTER TABLE t PUBLISH BRANCH b")
    assert not (root / PRIVATE / RECORD).exists(), "which is of all tables"


STOPS = [
    *(f"{point}:{number}" for point in ("format_rows_moved", "format_raised") for number in (1, 2, 3)),
    "formats_drafted", "formats_recorded", "manifest_written:1", "manifest_written:3", "committed:1", "committed:3", "evolved:1", "evolved:2",
]  # fmt: skip


@pytest.fixture(scope="module")
def stopped(place: Path) -> Mapping[str, Path]:
    """What a migration leaves that is killed on its way past each stop."""
    put(place.with_name("made"), place)
    with left_behind(place, place.with_name("stopped")) as left:
        assert main(["migrate", str(place)]) == 0
    return {name: root for (point, number), root in left.items() for name in (f"{point}:{number}", point)}


@pytest.mark.parametrize("stop", STOPS)
def test_a_killed_migration_loses_nothing_and_goes_on(root: Path, stopped: Mapping[str, Path], stop: str) -> None:
    put(stopped[stop], root)
    _check_stopped(root, stop)


def test_a_process_that_is_killed_leaves_the_same(root: Path) -> None:
    with forked(["migrate", str(root)], environment=os.environ | {VARIABLE: "format_raised:2"}) as process:
        assert process.wait(120) == -signal.SIGKILL
    shared_session.cache_clear()
    _check_stopped(root, "format_raised:2")


def _check_stopped(root: Path, stop: str) -> None:
    engine = engine_of(root)
    rows = {"t": 2, "other": 1, '"t@b"': 3, '"t@old"': 2}
    assert {name: engine.query(f"SELECT * FROM {name}").num_rows for name in rows} == rows
    engine.update("INSERT INTO t VALUES (9, 'a')")
    assert main(["migrate", str(root)]) == 0
    assert (root / PRIVATE / RECORD).exists()
    for place in (root / "t" / "__manifest", root / "other" / "__manifest"):
        assert lance.dataset(place).metadata[FORMAT_KEY] == str(TABLE.newest)
    engine.update("ALTER TABLE t PUBLISH BRANCH b")
    assert engine.query("SELECT * FROM t").num_rows == 4
    assert not [file for file in (root / PRIVATE).iterdir() if file.name.startswith(f".{RECORD}")] or "drafted" in stop


def test_every_step_of_a_migration_is_stopped_at() -> None:
    assert {stop.partition(":")[0] for stop in STOPS} >= MIGRATION_POINTS.keys()


def test_a_lease_is_of_the_first_format() -> None:
    assert LEASE.newest == 1


def test_there_is_a_step_to_every_version() -> None:
    assert [step.to for step in STEPS] == list(range(2, TABLE.newest + 1))


def test_a_format_that_is_no_longer_read_says_who_migrates_it() -> None:
    kept = StoredFormat(name="x", what="x format", oldest=2, newest=3)
    with pytest.raises(
        Unsupported, match="x format 1; this release reads 2 to 3; expected `lance-flight migrate` of an earlier"
    ):
        kept.check("1", "it")
    assert not isinstance(InvalidInput("x"), NewerFormat)


def test_the_documented_formats_are_those_of_the_code() -> None:
    documented = {row[0].strip("`"): row[1] for row in rows_of("server/docs/stored-formats.md", "Versions")[2:]}
    assert documented == {name: kind.known for name, kind in FORMATS.items()}
    assert formats.FIRST == 1
