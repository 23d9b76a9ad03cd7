"""Damaged and lost files: every reader says so by name, and `repair` says what it gives up before it does."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.maintenance.diagnosis import Level, diagnose
from lance_flight.catalog.maintenance.verification import RepairFinding, repair, verify
from lance_flight.catalog.storage.whole_files import recorded_checksum
from lance_flight.catalog.table import Table
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Corrupt
from lance_flight.model.index_kinds import KINDS, Family
from lance_flight.model.naming import PUBLIC, TableName
from lance_flight_client.cli import main

from tests.engine.database import Database
from tests.selection import IS_FULL

COMMITS = 4
"""Of each table: one row into each of its partitions."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a partitioned and a plain table."""
    asked = Database(tmp_path_factory.mktemp("made") / "root")
    asked.run("CREATE TABLE parts (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    asked.run("CREATE TABLE plain (id BIGINT, p VARCHAR)")
    for number in range(COMMITS):
        for table in ("parts", "plain"):
            asked.run(f"INSERT INTO {table} VALUES ({number}, 'a'), ({number}, 'b')")
    return asked.root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "root"))


def newest(place: Path) -> Path:
    return min((place / "_versions").glob("*.manifest"))


def partition(root: Path) -> Path:
    return min((root / "parts").glob("*$dataset"))


def cut(path: Path, size: int = 100) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def empty_out(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def of_data(damage: Callable[[Path], None], place: Path) -> None:
    for path in (place / "data").iterdir():
        damage(path)


def of_versions(damage: Callable[[Path], None], place: Path) -> None:
    for path in (place / "_versions").iterdir():
        damage(path)


@dataclass(frozen=True)
class Damage:
    """One kind of damage: what it does to a root, the table that it is to, and words of the error."""

    name: str
    do: Callable[[Path], object]
    table: str
    says: str

    def __str__(self) -> str:
        return self.name


MANIFEST, LOST = "__manifest/_versions/1844", "its __manifest is lost"
DAMAGES = [
    Damage("a short version", lambda root: cut(newest(root / "parts/__manifest")), "parts", MANIFEST),
    Damage("an empty version", lambda root: cut(newest(root / "parts/__manifest"), 0), "parts", MANIFEST),
    Damage("a version of zeros", lambda root: empty_out(newest(root / "parts/__manifest")), "parts", MANIFEST),
    Damage("no manifest", lambda root: shutil.rmtree(root / "parts/__manifest"), "parts", LOST),
    Damage("no versions", lambda root: shutil.rmtree(root / "parts/__manifest/_versions"), "parts", LOST),
    Damage(
        "short manifest data", lambda root: of_data(cut, root / "parts/__manifest"), "parts", "__manifest that cannot"
    ),
    Damage(
        "no manifest data", lambda root: of_data(Path.unlink, root / "parts/__manifest"), "parts", "__manifest/data"
    ),
    Damage("no partition", lambda root: shutil.rmtree(partition(root)), "parts", "$dataset"),
    Damage("no partition versions", lambda root: shutil.rmtree(partition(root) / "_versions"), "parts", "$dataset"),
    Damage("no partition version", lambda root: newest(partition(root)).unlink(), "parts", "$dataset"),
    Damage("a short partition version", lambda root: cut(newest(partition(root))), "parts", "$dataset/_versions/1844"),
    Damage("zeros in a partition version", lambda root: empty_out(newest(partition(root))), "parts", "$dataset/_ver"),
    Damage("no partition data", lambda root: of_data(Path.unlink, partition(root)), "parts", "$dataset/data"),
    Damage("short partition data", lambda root: of_data(cut, partition(root)), "parts", "parts"),
    Damage(
        "a short plain version", lambda root: cut(newest(root / "plain.lance")), "plain", "plain.lance/_versions/1844"
    ),
    Damage(
        "zeros in a plain version", lambda root: empty_out(newest(root / "plain.lance")), "plain", "plain.lance/_ver"
    ),
    Damage("no plain versions", lambda root: shutil.rmtree(root / "plain.lance/_versions"), "plain", "its _versions"),
    Damage(
        "no version left", lambda root: of_versions(Path.unlink, root / "plain.lance"), "plain", "plain.lance/_versions"
    ),
    Damage("no plain data", lambda root: of_data(Path.unlink, root / "plain.lance"), "plain", "data/"),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_every_reader_says_what_is_damaged(root: Path, damage: Damage) -> None:
    damage.do(root)
    asked = Database(root)
    for sql in (f"SELECT sum(id) FROM {damage.table}", f"UPDATE {damage.table} SET id = id + 1"):
        said = asked.refuses(sql)
        assert "[corrupt]" in said
        assert damage.says in said
    assert {name for _, name, *_ in asked.rows("SHOW TABLES")} == {"parts", "plain"}
    assert unsound(asked, damage.table)
    other = "plain" if damage.table == "parts" else "parts"
    assert not unsound(asked, other)
    assert asked.run(f"INSERT INTO {other} VALUES (9, 'a')") == 1


def unsound(asked: Database, table: str) -> list[str]:
    """What verification says that is wrong with a table."""
    try:
        report = verify(asked.engine.root.table(TableName(PUBLIC, table)), evaluate)
    except Corrupt as exc:
        return [str(exc)]
    return [str(each) for each in report.unsound]


# What only reading all data shows is not looked for by the doctor.
@pytest.mark.parametrize(
    "damage", [each for each in DAMAGES if "data" not in each.name or "manifest" in each.name], ids=str
)
def test_the_doctor_finds_damage(root: Path, damage: Damage) -> None:
    damage.do(root)
    found = [each for each in diagnose(Database(root).engine.root) if each.level is Level.ERROR]
    assert [each.subject for each in found] == [damage.table]
    assert damage.says in found[0].text


@pytest.mark.parametrize("damage", [cut, lambda path: cut(path, 0), empty_out], ids=["short", "empty", "zeros"])
@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("table", ["parts", "plain"])
def test_repair_goes_back_to_the_newest_version_that_can_be_read(
    root: Path, damage: Callable[[Path], None], lost: int, table: str
) -> None:
    place = root / ("parts/__manifest" if table == "parts" else "plain.lance")
    for path in sorted((place / "_versions").glob("*.manifest"))[:lost]:
        damage(path)
    asked = Database(root)
    (finding,) = repair(opened(asked, table)).findings
    check_names(finding, table, lost)
    assert "[corrupt]" in asked.refuses(f"SELECT id FROM {table}")
    assert not repair(opened(asked, table), dry_run=False).is_sound
    assert "[corrupt]" in asked.refuses(f"SELECT id FROM {table}")
    report = repair(opened(asked, table), dry_run=False, go_back=True)
    assert report.is_sound
    kept = sorted(number for number in range(COMMITS - lost) for _ in "ab")
    assert asked.rows(f"SELECT id FROM {table} ORDER BY id") == [(number,) for number in kept]
    assert asked.run(f"INSERT INTO {table} VALUES (9, 'a'), (9, 'c')") == 2
    assert asked.value(f"SELECT count(*) FROM {table}") == len(kept) + 2
    assert not unsound(Database(root), table)
    assert len(list((place / ".lance-flight/damaged").iterdir())) == lost


def opened(asked: Database, table: str) -> Table:
    return asked.engine.root.table(TableName(PUBLIC, table))


def check_names(finding: RepairFinding, table: str, lost: int) -> None:
    """A finding names the commits that are given up, and how many rows were in them."""
    assert finding.kind == "damaged versions"
    assert finding.gives_up
    assert finding.mended is None
    operation = "append 2 rows into 2 partitions" if table == "parts" else "append 2 rows into 1 partitions"
    assert finding.what.count(operation) == lost
    assert table != "parts" or f"up to {2 * lost} rows" in finding.what


def test_a_table_without_a_version_that_can_be_read_is_corrupt(root: Path) -> None:
    for path in (root / "parts/__manifest/_versions").glob("*.manifest"):
        cut(path)
    with pytest.raises(Corrupt, match="cannot be read"):
        repair(opened(Database(root), "parts"), dry_run=False, go_back=True)


def test_the_command_asks_before_it_gives_rows_up(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(newest(root / "parts/__manifest"))
    shutil.rmtree(partition(root))
    assert main(["repair", str(root), "parts", "--apply"]) == 1
    said = capsys.readouterr().out
    assert "append 2 rows" in said
    assert "--yes" in said
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert main(["repair", str(root), "parts", "--apply"]) == 1
    assert "nothing was changed" in capsys.readouterr().out
    assert "[corrupt]" in Database(root).refuses("SELECT id FROM parts")
    assert main(["repair", str(root), "parts", "--apply", "--yes"]) == 0
    said = capsys.readouterr().out
    assert "back at version" in said
    assert "nothing says how many" in said
    assert Database(root).value("SELECT count(*) FROM parts") == COMMITS - 1


@pytest.fixture(scope="module", params=["p", "bucket(2, id)", "year(at), p", "truncate(1, p)"])
def changed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A root with a table of several commits, and how it is partitioned."""
    asked = Database(tmp_path_factory.mktemp("changed") / "root")
    asked.run(f"CREATE TABLE t (id BIGINT NOT NULL, p VARCHAR, at TIMESTAMP) PARTITIONED BY ({request.param})")
    for number, p in enumerate(["NULL", "'x1'", "'x0'", "NULL", "'x0'", "'x1'"]):
        asked.run(f"INSERT INTO t VALUES ({number}, {p}, '202{number}-05-05')")
    asked.run("UPDATE t SET at = NULL WHERE id = 3")
    asked.run("DELETE FROM t WHERE id = 4")
    return asked.root, request.param


@pytest.mark.parametrize("lose", ["__manifest", "__manifest/_versions"])
def test_a_lost_manifest_is_made_anew(
    tmp_path: Path, changed: tuple[Path, str], lose: str, capsys: pytest.CaptureFixture[str]
) -> None:
    template, layout = changed
    asked = Database(Path(shutil.copytree(template, tmp_path / "root")))
    rows = asked.rows("SELECT * FROM t ORDER BY id")
    shutil.rmtree(asked.root / "t" / lose)
    command = ["repair", str(asked.root), "t", "--partition-by", layout]
    assert main(command) == 1
    assert "5 rows" in capsys.readouterr().out
    assert "[corrupt]" in Database(asked.root).refuses("SELECT id FROM t")
    assert main([*command, "--apply"]) == 1
    assert main([*command, "--apply", "--yes"]) == 0
    found = Database(asked.root)
    assert found.rows("SELECT * FROM t ORDER BY id") == rows
    assert not unsound(found, "t")
    assert found.run("INSERT INTO t VALUES (9, 'x1', '2021-05-05')") == 1
    assert found.run("UPDATE t SET p = 'y' WHERE id = 9") == 1
    assert found.value("SELECT count(*) FROM t") == len(rows) + 1
    assert main(["repair", str(asked.root), "t", "--partition-by", layout, "--apply", "--yes"]) != 0


def test_a_lost_manifest_is_not_made_anew_with_other_partitions(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(root / "parts/__manifest")
    assert main(["repair", str(root), "parts", "--partition-by", "id", "--apply", "--yes"]) != 0
    assert "is of the partition" in capsys.readouterr().err
    assert main(["repair", str(root), "parts", "--partition-by", "p", "--apply", "--yes"]) == 0
    assert Database(root).value("SELECT count(*) FROM parts") == 2 * COMMITS


def damaged_files(root: Path) -> list[Path]:
    """Data files of the newest snapshot, of each partition table and of the plain one."""
    return [*(root / "parts").glob("*$dataset/data/*.lance"), *(root / "plain.lance/data").glob("*.lance")]


@pytest.mark.parametrize("seed", range(200 if IS_FULL else 20))
def test_a_bit_that_flips_in_a_data_file_is_found(root: Path, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(seed)  # noqa: S311
    path = chance.choice(sorted(damaged_files(root)))
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    table = path.relative_to(root).parts[0].removesuffix(".lance")
    assert main(["verify", str(root), table, "--data"]) == 1
    said = capsys.readouterr().out
    assert "[corrupt]" in said
    assert path.name in said
    assert unsound(Database(root), table)
    other = "plain" if table == "parts" else "parts"
    assert main(["verify", str(root), other, "--data"]) == 0


@pytest.mark.parametrize("table", ["parts", "plain"])
@pytest.mark.parametrize("gone", ["id % 7 = 0", "id % 2 = 0"], ids=["a list", "bits"])
def test_a_bit_that_flips_in_a_deletion_file_is_found(
    tmp_path: Path, table: str, gone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Database(tmp_path / "root")
    asked.ingest(table, pa.table({"id": range(50_000)}), partition_by="bucket(1, id)" if table == "parts" else None)
    asked.run(f"DELETE FROM {table} WHERE {gone}")
    assert main(["verify", str(asked.root), "--data"]) == 0
    (path,) = [path for path in asked.root.rglob("_deletions/*") if "__manifest" not in path.parts]
    content = path.read_bytes()
    for place in range(0, len(content), len(content) // 8):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        capsys.readouterr()
        assert main(["verify", str(asked.root), table, "--data"]) == 1
        assert path.name in capsys.readouterr().out


COLUMNS = {Family.TEXT: "body", Family.VECTOR: "v"}
OTHER_COLUMNS = {"label_list": "tags", "ngram": "body", "fm": "body"}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a partitioned and a plain table, which have an index of every kind."""
    asked = Database(tmp_path_factory.mktemp("indexed") / "root")
    chance = random.Random(1)  # noqa: S311
    count = 600
    vectors = pa.array([[chance.random() for _ in range(8)] for _ in range(count)], pa.list_(pa.float32(), 8))
    columns = {
        "p": ["a", "b"] * (count // 2),
        "id": list(range(count)),
        "body": [f"word{number % 7} lance {number}" for number in range(count)],
        "tags": [[f"t{number % 5}"] for number in range(count)],
        "v": vectors,
    }
    for table, partition_by in (("parts", "p"), ("plain", None)):
        asked.ingest(table, pa.table(columns), partition_by=partition_by)
        for kind in KINDS.values():
            column = OTHER_COLUMNS.get(kind.name) or COLUMNS.get(kind.family, "id")
            options = ", num_partitions = 2" * (
                kind.family is Family.VECTOR
            ) + ", num_sub_vectors = 2" * kind.name.endswith("pq")
            asked.run(
                f"CREATE INDEX of_{kind.name} ON {table} ({column}) USING {kind.name} WITH (min_rows = 0{options})"
            )
    return asked.root


def test_indices_of_every_kind_are_sound_and_have_checksums(indexed: Path) -> None:
    assert main(["verify", str(indexed), "--data"]) == 0
    asked = Database(indexed)
    for table in ("parts", "plain"):
        assert asked.value(f"SELECT count(*) FROM {table}$indexes WHERE indexed_rows = 600") == len(KINDS)
        assert asked.rows(f"SELECT id FROM {table} WHERE id = 77") == [(77,)]
        assert asked.value(f"SELECT count(*) FROM full_text_search('{table}', 'body', 'word3', k => 600)") == 86
        assert asked.value(f"SELECT count(*) FROM {table} WHERE array_has(tags, 't1')") == 120
        assert (
            asked.value(
                f"SELECT count(*) FROM vector_search('{table}', 'v', arrow_cast(make_array(0,0,0,0,0,0,0,0), 'List(Float32)'), k => 9)"
            )
            == 9
        )
    places = [path for path in indexed.rglob("_indices/*") if "__manifest" not in path.parts]
    assert len(places) == 3 * len(KINDS)
    for path in places:
        recorded, turned = struct.unpack(">II", UUID(path.name).bytes[8:])
        assert recorded ^ turned == 0x4C464352


@pytest.mark.parametrize("seed", range(200 if IS_FULL else 20))
def test_a_bit_that_flips_in_an_index_file_is_found(
    indexed: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)  # noqa: S311
    files = (path for path in indexed.rglob("_indices/**/*") if path.is_file() and "__manifest" not in path.parts)
    path = chance.choice(sorted(files))
    content = path.read_bytes()
    place = chance.randrange(len(content))
    path.write_bytes(content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :])
    try:
        table = path.relative_to(indexed).parts[0].removesuffix(".lance")
        assert main(["verify", str(indexed), table, "--data"]) == 1
        said = capsys.readouterr().out
        assert "[corrupt] index segment" in said
        assert path.relative_to(indexed).parts[path.relative_to(indexed).parts.index("_indices") + 1] in said
        assert unsound(Database(indexed), table)
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {t} SET id = id + 1 WHERE id > 1",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} COMPACT",
        "ALTER TABLE {t} ADD COLUMN n BIGINT DEFAULT 3",
        "INSERT INTO {t} SELECT id + 10, 'z' FROM {t}",
        "CREATE TABLE made AS SELECT * FROM {t}",
    ],
)
@pytest.mark.parametrize("table", ["parts", "plain"])
def test_files_of_every_write_are_sound_and_have_checksums(root: Path, statement: str, table: str) -> None:
    asked = Database(root)
    asked.run(statement.format(t=table))
    assert not unsound(asked, table)
    assert main(["verify", str(root), table, "--data"]) == 0
    new = [path.name for path in [*damaged_files(root), *(root / "made.lance").glob("data/*.lance")]]
    assert all(recorded_checksum(name) is not None for name in new)
    manifest = lance.dataset(str(root / "parts/__manifest"))
    files = [file.path for fragment in manifest.get_fragments() for file in fragment.metadata.files]
    assert all(recorded_checksum(name) is not None for name in files)


def test_a_backup_tells_which_files_are_damaged(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", str(root), str(tmp_path / "backups")]) == 0
    assert main(["verify", str(root), "--against", str(tmp_path / "backups")]) == 0
    flipped = newest(partition(root))
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    capsys.readouterr()
    assert main(["verify", str(root), "parts", "--data", "--against", str(tmp_path / "backups")]) == 1
    said = capsys.readouterr().out
    assert "[corrupt]" in said
    assert flipped.name in said
    assert "holds: another SHA-256" in said
