"""The commands of the program that maintain a table: what they do, print, and exit with. No JVM runs here."""

from __future__ import annotations

from contextlib import nullcontext

import lance
import pytest
from lance_flight_client.spark.program import main, maintain

from tests.engine.database import Database
from tests.stock import stored_tables


@pytest.fixture(autouse=True)
def one_session(in_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program begins no session."""
    del in_threads
    monkeypatch.setattr(maintain, "session", lambda *_: nullcontext(None))


@pytest.fixture
def held(database: Database, table: str) -> str:
    """A table with two files in each of its three partitions."""
    database.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT, v FLOAT[2]) PARTITIONED BY (p)")
    for start in (0, 3):
        database.run(
            f"INSERT INTO {table} VALUES ({start}, 0, [1, 0]), ({start + 1}, 1, [1, 1]), ({start + 2}, 2, [0, 1])"
        )
    return table


COMMANDS = [
    pytest.param(["compact"], "3 of 3 partition tables compacted, 6 files into 3", id="compact"),
    pytest.param(["rewrite", "--where", "p = 1"], "0 rows of 0 partition tables under older specs", id="rewrite"),
    pytest.param(["verify"], "6 rows in 3 partition tables, checksum ", id="verify"),
    pytest.param(["verify", "--snapshot", "BEFORE"], " 3 rows in 3 partition tables", id="verify, as it was before"),
    pytest.param(["backfill", "twice", "id * 2", "--type", "INT"], "column twice added, snapshot ", id="backfill"),
    pytest.param(
        ["create-index", "id", "--kind", "BITMAP", "--name", "ids", "--min-rows", "1"],
        "index ids: 3 of 3 ",
        id="create-index",
    ),
    pytest.param(
        ["create-index", "v", "--kind", "ivf_flat", "--option", "metric=cosine", "--min-rows", "1"],
        "index v_idx: 3 of 3 ",
        id="create-index, of vectors",
    ),
    pytest.param(["reindex"], "there is no index", id="reindex"),
]


@pytest.mark.parametrize(("command", "says"), COMMANDS)
def test_a_command_maintains_a_table(
    database: Database, held: str, capsys: pytest.CaptureFixture[str], *, command: list[str], says: str
) -> None:
    before = int(database.value(f"SELECT max(version) FROM {held}$snapshots")) - 1
    name, *arguments = [text.replace("BEFORE", str(before)) for text in command]
    assert main([name, str(database.root), held, *arguments]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{held}: ")
    assert says in line
    assert database.value(f"SELECT sum(id) FROM {held}") == sum(range(6))
    if name == "backfill":
        assert database.rows(f"SELECT twice FROM {held} ORDER BY id") == [(2 * number,) for number in range(6)]


def test_a_table_that_is_not_sound(database: Database, held: str, capsys: pytest.CaptureFixture[str]) -> None:
    broken = stored_tables(database.root / held)[0]
    # The row that a partition table is pinned by stays; its values become those of another partition.
    manifest = lance.dataset(str(database.root / held / "__manifest"))
    manifest.update({"partition_field_p": "7"}, where=f"object_id = '{broken.object_id}'")
    assert main(["verify", str(database.root), held]) == 1
    found, closing = capsys.readouterr().out.splitlines()
    assert found.startswith(f"{held}: {broken.object_id}: 2 rows belong elsewhere")
    assert closing.endswith("1 not sound")


def test_a_root_that_is_not_there_is_refused_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compact", "/no/where", "t"]) == 1
    assert capsys.readouterr().err == (
        "lance-flight: [invalid_input] root '/no/where' is no directory here; expected one, or an object-store URI\n"
    )
