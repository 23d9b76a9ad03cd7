"""Maintenance while serving: as SQL, from the command line, and what both say."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.catalog.aging import age, file_names
from tests.service.commands import run
from tests.service.server_process import Server, serving
from tests.stock import stored_tables

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "p": list("ababab")})
SUM = "SELECT p, count(*) AS n, sum(id) AS s FROM {} GROUP BY p ORDER BY p"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("maintenance") / "root") as running:
        yield running


@pytest.fixture
def many(server: Server, table: str) -> str:
    """A table of two partitions of three files each."""
    server.ingest(table, ROWS.slice(0, 2), partition_by="p")
    for start in (2, 4):
        server.ingest(table, ROWS.slice(start, 2), "append")
    return table


def left_behind(place: Path) -> Path:
    """A data file of a partition that is part of no version, as a writer leaves it that was killed."""
    data = place / stored_tables(place)[0].row["location"] / "data"
    return Path(shutil.copy(next(data.iterdir()), data / f"{'0' * 40}.lance"))


def files_of(server: Server, table: str) -> int:
    return server.query(f'SELECT * FROM "{table}$files"').num_rows


def test_alter_table_compact_returns_what_it_did(server: Server, many: str) -> None:
    before = server.rows(SUM.format(many))
    report = server.query(f"ALTER TABLE {many} COMPACT")
    assert report["files_before"].to_pylist() == [3, 3]
    assert report["files_after"].to_pylist() == [1, 1]
    assert report["is_lost"].to_pylist() == [False, False]
    assert files_of(server, many) == 2
    assert server.rows(SUM.format(many)) == before
    assert server.query(f"ALTER TABLE public.{many} COMPACT;").num_rows == 0


def test_vacuum_says_what_goes_and_then_lets_it_go(server: Server, many: str) -> None:
    server.query(f"ALTER TABLE {many} COMPACT")
    age(server.root / many, hours=200)
    before = file_names(server.root / many)
    planned = server.query(f"VACUUM {many} DRY RUN")
    assert file_names(server.root / many) == before
    done = server.query(f"VACUUM {many}")
    assert done.to_pylist() == planned.to_pylist()
    assert sum(done["files"].to_pylist()) == len(before) - len(file_names(server.root / many))
    assert server.value(f'SELECT count(*) FROM "{many}$snapshots"') == 1
    assert server.value(f"SELECT sum(id) FROM {many}") == 15


def test_less_than_the_floor_has_to_be_forced(server: Server, many: str) -> None:
    assert "[refused]" in server.refuses(f"VACUUM {many} RETAIN 1 HOUR")
    # The statements before may be fetched again for some time: their snapshots stay.
    assert server.query(f"VACUUM {many} RETAIN 0 HOURS DRY RUN FORCE").num_rows == 0


def test_what_was_never_committed_goes_at_the_age_that_the_statement_names(server: Server, many: str) -> None:
    loose = left_behind(server.root / many)
    age(server.root / many, hours=3)
    server.query(f"VACUUM {many}")
    assert loose.exists(), "a transaction may take a day"
    server.query(f"VACUUM {many} TRANSACTIONS 4 HOURS")
    assert loose.exists()
    planned = server.query(f"VACUUM {many} TRANSACTIONS 2 HOURS DRY RUN")
    assert loose.exists()
    assert server.query(f"VACUUM {many} DRY RUN TRANSACTIONS 2 HOURS").to_pylist() == planned.to_pylist() != []
    assert server.query(f"VACUUM {many} TRANSACTIONS 2 HOURS").to_pylist() == planned.to_pylist()
    assert not loose.exists()
    assert server.rows(SUM.format(many)) == [("a", 3, 6), ("b", 3, 9)]


def test_less_than_a_transaction_may_take_has_to_be_forced(server: Server, many: str) -> None:
    loose = left_behind(server.root / many)
    age(server.root / many, hours=1.5)
    said = server.refuses(f"VACUUM {many} TRANSACTIONS 1 HOUR")
    assert "[refused] what is not committed is kept for 2 hours, got 1" in said
    assert loose.exists()
    server.query(f"VACUUM {many} TRANSACTIONS 1 HOUR FORCE")
    assert not loose.exists()
    assert server.rows(SUM.format(many)) == [("a", 3, 6), ("b", 3, 9)]


def test_repair_table_mends_and_says_how(server: Server, many: str) -> None:
    assert server.query(f"REPAIR TABLE {many}").num_rows == 0
    (gone,) = [table for table in stored_tables(server.root / many) if table.values["p"] == "b"]
    shutil.rmtree(server.root / many / gone.row["location"])
    assert server.query(f"REPAIR TABLE {many} DRY RUN").to_pylist() == [
        {
            "kind": "missing directory",
            "name": gone.object_id,
            "what": f"there is no table in {gone.row['location']!r}",
            "mended": None,
        }
    ]
    assert server.query(f"REPAIR TABLE {many}")["mended"].to_pylist() == ["row removed"]
    assert server.rows(SUM.format(many)) == [("a", 3, 6)]


REFUSED = {
    "ALTER TABLE nothing_here COMPACT": "not_found",
    "VACUUM nothing_here": "not_found",
    "REPAIR TABLE nothing_here": "not_found",
    "ALTER TABLE plain REWRITE PARTITIONS": "unsupported",
    "REPAIR TABLE plain DRY RUN": "unsupported",
    "ALTER TABLE t": "invalid_sql",
    "ALTER VIEW t COMPACT": "invalid_sql",
    "ALTER TABLE t COMPACT NOW": "invalid_sql",
    "VACUUM t RETAIN": "invalid_sql",
    "VACUUM t RETAIN -1 HOURS": "invalid_sql",
    "VACUUM t RETAIN 1 DAYS": "invalid_sql",
    "VACUUM t SOON": "invalid_sql",
    "VACUUM t TRANSACTIONS": "invalid_sql",
    "VACUUM t TRANSACTIONS 24": "invalid_sql",
    "VACUUM t TRANSACTIONS -1 HOURS": "invalid_sql",
    "VACUUM t TRANSACTIONS 1 DAYS": "invalid_sql",
    "REPAIR t": "invalid_sql",
    "REPAIR TABLE t WET RUN": "invalid_sql",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_such_statement_is_refused(server: Server, sql: str) -> None:
    if "plain" in sql and not (server.root / "plain.lance").exists():
        server.ingest("plain", ROWS)
    assert f"[{REFUSED[sql]}]" in server.refuses(sql)


def test_a_stream_goes_on_while_its_table_is_compacted_and_vacuumed(server: Server, table: str) -> None:
    data = pa.table({"id": pa.array(range(400_000), pa.int64()), "p": [f"p{n % 40}" for n in range(400_000)]})
    server.ingest(table, data, partition_by="p")
    server.run(f"DELETE FROM {table} WHERE id < 400")
    with server.connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {table}")
        batches = cursor.fetch_record_batch()
        ids = batches.read_next_batch()["id"].to_pylist()
        server.ingest(table, data, "append")
        assert run("compact", str(server.root), table).returncode == 0
        age(server.root / table / "__manifest", hours=200)
        server.query(f"VACUUM {table}")
        ids += batches.read_all()["id"].to_pylist()
    assert sorted(ids) == list(range(400, 400_000))


def test_the_commands_do_the_same_from_outside(server: Server, many: str) -> None:
    before = server.rows(SUM.format(many))
    done = run("compact", str(server.root), many)
    assert done.stdout.decode() == f"{many}: 2 of 2 partition tables compacted, 6 files into 2\n"
    age(server.root / many, hours=200)
    planned = run("vacuum", str(server.root), many, "--dry-run").stdout.decode().splitlines()
    assert "would go" in planned[0]
    assert sorted(line.split()[0] for line in planned[1:]) == ["snapshots", "versions", "versions"]
    age(server.root / many, hours=1)  # the leases of the statements before are over
    removed = run("vacuum", str(server.root), many)
    assert removed.returncode == 0
    assert "removed" in removed.stdout.decode()
    assert run("repair", str(server.root), many).stdout.decode() == f"{many}: nothing is wrong\n"
    assert server.rows(SUM.format(many)) == before


def test_a_command_without_a_table_takes_them_all(tmp_path: Path) -> None:
    with serving(tmp_path / "root") as server:
        for table in ("one", "two"):
            server.ingest(table, ROWS, partition_by="p")
            server.ingest(table, ROWS, "append")
        server.ingest("plain", ROWS)
    done = run("compact", str(tmp_path / "root"))
    assert [line.split(":")[0] for line in done.stdout.decode().splitlines()] == ["one", "plain", "two"]
    manifest = lance.dataset(str(tmp_path / "root" / "one" / "__manifest"))
    manifest.drop_columns(["partition_field_p"])
    looked = run("repair", str(tmp_path / "root"))
    assert looked.returncode == 1, "something is wrong and stays so"
    assert "one: lost columns" in looked.stdout.decode()
    assert "two: nothing is wrong" in looked.stdout.decode()
    failed = run("vacuum", str(tmp_path / "root"))
    assert failed.returncode == 1
    assert "[corrupt]" in failed.stderr.decode()
    assert "two:" in failed.stdout.decode(), "one that fails does not keep the others from it"
    assert run("repair", str(tmp_path / "root"), "--apply").returncode == 0
    assert run("repair", str(tmp_path / "root")).returncode == 0


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
def test_the_commands_say_in_one_line_what_is_wrong(tmp_path: Path, arguments: list[str], says: str) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "root" / "plain.lance"))
    done = run(*[str(tmp_path / part) if part in {"root", "nowhere"} else part for part in arguments])
    assert done.returncode == 1
    assert says in done.stderr.decode()
    assert len(done.stderr.decode().splitlines()) == 1
