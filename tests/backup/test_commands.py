"""The commands of backups: what they print, what they exit with, and that a dry run writes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lance_flight.catalog.backup.saving import last_backup
from lance_flight.catalog.storage.store import Store
from lance_flight_client.cli import main

from tests.backup.roots import content, make, run


def printed(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    """Run a command, and return what it prints."""
    capsys.readouterr()
    found = main(list(map(str, arguments)))
    captured = capsys.readouterr()
    assert found == status, captured.out + captured.err
    return captured.out + captured.err


def test_backups_are_made_listed_verified_and_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, target = make(tmp_path / "root", "schemas"), tmp_path / "target"
    said = printed(capsys, "backup", root, target)
    assert "s.t, snapshot 7: " in said
    assert "not kept: s.t: 6 other snapshots" in said
    run(root, "INSERT INTO s.t VALUES (2, 'a')")
    printed(capsys, "backup", root, target, "--incremental")
    first, second = sorted(path.name for path in target.iterdir())
    (target / "20990101T000000.000000Z-abcd").mkdir()
    listed = printed(capsys, "list-backups", target).splitlines()
    assert [line.split()[0] for line in listed] == ["backup", first, second, "20990101T000000.000000Z-abcd"]
    assert (first in listed[2].split()[1:], "unfinished" in listed[3]) == (True, True)
    assert "sound" in printed(capsys, "verify-backup", target)
    assert f"from backup {first}" in printed(capsys, "restore", target, tmp_path / "one", "--backup", first)
    assert f"from backup {second}" in printed(capsys, "restore", target / second, tmp_path / "two", "--table", "s.t")
    assert content(tmp_path / "two")["s.t"] == content(root)["s.t"] != content(tmp_path / "one")["s.t"]


def test_a_damaged_backup_is_an_exit_status_of_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, target = make(tmp_path / "root", "partitions"), tmp_path / "target"
    printed(capsys, "backup", root, target)
    printed(capsys, "backup", root, target)
    data = min(target.glob("*/files/t/*dataset/data/*.lance"))
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    assert "sound" in printed(capsys, "verify-backup", target)
    said = printed(capsys, "verify-backup", target, "--all", status=1)
    assert (data.name in said, "1 of them damaged" in said, "sound" in said) == (True, True, True)
    first = data.relative_to(target).parts[0]
    assert "[corrupt]" in printed(capsys, "restore", target, tmp_path / "new", "--backup", first, status=1)
    (target / first / "backup.jsonl").write_text("{}\n")
    assert "(damaged)" in printed(capsys, "list-backups", target, status=1)


def test_a_backup_of_the_whole_root_is_noted_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, target = make(tmp_path / "root", "partitions"), tmp_path / "target"
    printed(capsys, "backup", root, target, "--table", "t")
    printed(capsys, "backup", root, target, "--dry-run")
    assert last_backup(Store(str(root))) is None
    before = datetime.now(UTC)
    printed(capsys, "backup", root, target, "--keep", "1d")
    assert before <= (last_backup(Store(str(root))) or before - timedelta(1)) <= datetime.now(UTC)
    (root / ".lance-flight" / "backup.json").write_text("damaged")
    assert last_backup(Store(str(root))) is None
    with pytest.raises(SystemExit):
        printed(capsys, "backup", root, target, "--keep", "a while")
    assert "expected an hour or more" in printed(capsys, "backup", root, target, "--keep", "5min", status=1)


@pytest.mark.parametrize("has_backup", [False, True])
def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], *, has_backup: bool) -> None:
    root, target = make(tmp_path / "root", "partitions"), tmp_path / "target"
    if has_backup:
        printed(capsys, "backup", root, target)
    before = {path for path in tmp_path.rglob("*") if ".lance-flight" not in path.parts}
    said = printed(capsys, "backup", root, target, "--dry-run", "--incremental")
    assert ("would copy 0" in said) is has_backup
    if has_backup:
        assert "would be restored" in printed(capsys, "restore", target, tmp_path / "new", "--dry-run")
    assert {path for path in tmp_path.rglob("*") if ".lance-flight" not in path.parts} == before


MISTAKES = {
    "no root": (("backup", "{}/nowhere", "{}/target"), "is not a directory"),
    "no backup": (("restore", "{}/root", "{}/new"), "there is no backup"),
    "no target": (("verify-backup", "{}/nowhere"), "there is no backup"),
    "a snapshot of all tables": (("backup", "{}/root", "{}/target", "--snapshot", "1"), "expected --table"),
    "no such backup": (("restore", "{}/root", "{}/new", "--backup", "x"), "no backup 'x'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    make(tmp_path / "root", "partitions")
    arguments, says = MISTAKES[name]
    said = printed(capsys, *(each.format(tmp_path) for each in arguments), status=1)
    assert says in said
    assert len(said.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"root"}


@pytest.mark.parametrize("harm", ["is missing", "has"])
def test_a_root_that_lost_a_file_is_no_backup(tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: str) -> None:
    root = make(tmp_path / "root", "partitions")
    data = min(root.glob("t/*dataset/data/*.lance"))
    if harm == "is missing":
        data.unlink()
    else:
        data.write_bytes(data.read_bytes()[:-1])
    said = printed(capsys, "backup", root, tmp_path / "target", status=1)
    assert (data.name in said, harm in said) == (True, True)
    assert not (tmp_path / "target").exists()
