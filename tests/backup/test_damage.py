"""Damaged backups and hostile manifests: found by their verification and by a restore, which then shows nothing and writes nowhere else."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from lance_flight.catalog.backup.backup_format import StoredBackup, backup_at
from lance_flight.catalog.backup.restoring import check_backup, restore, with_base_paths
from lance_flight.catalog.backup.saving import BackupRules, backup
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import Corrupt, LanceFlightError, NotFound, Unsupported

from tests.backup.roots import content, make

pytestmark = pytest.mark.slow  # every harm to every kind of file

KINDS = {
    "a data file": "t/*dataset/data/*.lance",
    "a deletion file": "t/*dataset/_deletions/*.arrow",
    "a version of a partition table": "t/*dataset/_versions/*.manifest",
    "a version of __manifest": "t/__manifest/_versions/*.manifest",
    "a transaction": "t/__manifest/_transactions/*.txn",
    "a branch": "t/*dataset/tree/*/_versions/*.manifest",
    "the record of a branch": "t/*dataset/_refs/branches/*.json",
}


def flipped(content: bytes) -> bytes:
    """The same bytes but for one bit in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def linked(path: Path) -> None:
    """The same file somewhere else, and a link to it in its place."""
    away = path.with_name("away")
    path.rename(away)
    path.symlink_to(away)


HARMS: dict[str, Callable[[Path], object]] = {
    "has a flipped bit": lambda path: path.write_bytes(flipped(path.read_bytes())),
    "is cut short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "is gone": lambda path: path.unlink(),
    "is a link": linked,
}


Saved = Callable[..., tuple[dict[str, Any], Path]]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[dict[str, Any], Path]]:
    """Backs up a root of a kind once; returns its content, and the target."""

    @cache
    def made(name: str) -> tuple[dict[str, Any], Path]:
        place = tmp_path_factory.mktemp("saved")
        root = make(place / "root", name)
        backup(Root(Store(str(root))), Store(str(place / "target")), BackupRules())
        return content(root), place / "target"

    return made


@pytest.fixture
def saved(first: Callable[[str], tuple[dict[str, Any], Path]], tmp_path: Path) -> Saved:
    """Returns the content of a root, and the directory of a backup of it."""

    def copied(name: str = "a published branch, and one that is not") -> tuple[dict[str, Any], Path]:
        before, target = first(name)
        (place,) = Path(shutil.copytree(target, tmp_path / "target")).iterdir()
        return before, place

    return copied


def stored(tmp_path: Path) -> StoredBackup:
    """The backup, read."""
    return backup_at(Store(str(tmp_path / "target")))


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_found_and_nothing_of_it_restored(saved: Saved, tmp_path: Path, kind: str, harm: str) -> None:
    before, place = saved()
    path = min((place / "files").glob(KINDS[kind]))
    whole, name = path.read_bytes(), str(path.relative_to(place / "files"))
    HARMS[harm](path)
    report = check_backup(stored(tmp_path))
    assert len(report.damaged) == 1
    assert path.name in report.damaged[0]
    with pytest.raises(Corrupt) as raised:
        restore(stored(tmp_path), Store(str(tmp_path / "new")))
    assert name in str(raised.value) or "symbolic link" in str(raised.value)
    assert not (tmp_path / "new").exists()
    path.unlink(missing_ok=True)
    path.write_bytes(whole)
    assert restore(stored(tmp_path), Store(str(tmp_path / "new"))).resumed
    assert content(tmp_path / "new") == before


@pytest.mark.parametrize("position", [0.0, 0.3, 0.6, 0.999])
def test_a_manifest_that_was_altered_is_refused(saved: Saved, tmp_path: Path, position: float) -> None:
    _, place = saved("partitions")
    path = place / "backup.jsonl"
    text = bytearray(path.read_bytes())
    text[int(len(text) * position)] ^= 1
    path.write_bytes(text)
    with pytest.raises((Corrupt, Unsupported)):
        stored(tmp_path)


def test_a_directory_without_a_manifest_is_no_backup(saved: Saved, tmp_path: Path) -> None:
    _, place = saved("partitions")
    (place / "backup.jsonl").unlink()
    with pytest.raises(NotFound):
        stored(tmp_path)
    with pytest.raises(NotFound, match="not finished"):
        backup_at(Store(str(tmp_path / "target")), place.name)


def rewritten(place: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the lines of a manifest, and make its checksum fit again."""
    path = place / "backup.jsonl"
    *lines, end = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    before = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    end |= {"files": len(lines) - 1, "sha256": hashlib.sha256(before).hexdigest()}
    path.write_bytes(before + json.dumps(end).encode() + b"\n")


def path_of(path: str) -> Callable[[list[dict[str, Any]]], object]:
    """List the first file by another path."""
    return lambda lines: lines[1].update(path=path)


def header(**values: Any) -> Callable[[list[dict[str, Any]]], object]:
    """Change the header."""
    return lambda lines: lines[0].update(values)


HOSTILE: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "a path up": path_of("t/../../evil"),
    "a path up at once": path_of("../evil"),
    "an absolute path": path_of("/tmp/evil"),
    "an address": path_of("s3://bucket/evil"),
    "an empty part": path_of("t//evil"),
    "a dot": path_of("t/./evil"),
    "an empty path": path_of(""),
    "a backslash": path_of("t\\..\\evil"),
    "a line end": path_of("t/a\nb"),
    "a NUL": path_of("t/a\0b"),
    "a long name": path_of("t/" + "x" * 300),
    "a number": lambda lines: lines[1].update(path=7),
    "a file of no table": path_of("other/data/x"),
    "the key of tickets": path_of(".lance-flight/ticket.key"),
    "a staging area": path_of(".lance-flight/0123456789abcdef/new/x"),
    "a lease of a table": path_of("t/.lance-flight/leases/x.json"),
    "a path twice": lambda lines: lines.append(lines[1]),
    "a file below a file": lambda lines: lines.append(lines[1] | {"path": lines[1]["path"] + "/x"}),
    "a negative size": lambda lines: lines[1].update(size=-1),
    "a digest that is none": lambda lines: lines[1].update(sha256="../../x"),
    "another key": lambda lines: lines[1].update(mode="0777"),
    "a backup outside of the target": lambda lines: lines[1].update(backup="../../etc"),
    "the id of another place": header(id="../evil"),
    "the id of another backup": header(id="20200101T000000.000000Z-0000"),
    "a table outside of the root": lambda lines: lines[0]["tables"][0].update(location="../t"),
    "a table without a snapshot": lambda lines: lines[0]["tables"][0].pop("snapshot"),
    "a schema outside of the root": header(schemas=["../evil"]),
    "a base path outside of the root": header(base_paths={"/x": "../evil"}),
    "no header": lambda lines: lines.pop(0),
    "a list as header": lambda lines: lines.__setitem__(0, []),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_manifest_is_refused_before_anything_is_written(saved: Saved, tmp_path: Path, name: str) -> None:
    _, place = saved("partitions")
    rewritten(place, HOSTILE[name])
    before = {path for path in tmp_path.rglob("*") if "target" not in path.parts}
    with pytest.raises(Corrupt):
        restore(stored(tmp_path), Store(str(tmp_path / "new")))
    assert {path for path in tmp_path.rglob("*") if "target" not in path.parts} == before


def test_a_manifest_that_is_nested_too_deeply_is_refused(saved: Saved, tmp_path: Path) -> None:
    _, place = saved("partitions")
    (place / "backup.jsonl").write_bytes(b"[" * 99_999 + b"\n{}\n")
    with pytest.raises(Corrupt, match="cannot be read"):
        stored(tmp_path)


def test_a_newer_format_is_refused_by_its_number(saved: Saved, tmp_path: Path) -> None:
    _, place = saved("partitions")
    rewritten(place, header(lance_flight_backup=2))
    with pytest.raises(Unsupported, match="format 2"):
        stored(tmp_path)


@pytest.mark.parametrize("base", ["another table", "unknown"])
def test_a_version_that_reads_from_elsewhere_is_not_restored(saved: Saved, tmp_path: Path, base: str) -> None:
    _, place = saved()
    rewritten(
        place,
        header(base_paths={})
        if base == "unknown"
        else lambda lines: lines[0].update(base_paths=dict.fromkeys(lines[0]["base_paths"], "t/other$dataset")),
    )
    with pytest.raises(Corrupt, match="no directory of its table"):
        restore(stored(tmp_path), Store(str(tmp_path / "new")))
    assert not (tmp_path / "new").exists()


def test_links_in_the_place_of_an_earlier_restore_are_not_followed(saved: Saved, tmp_path: Path) -> None:
    _, place = saved("partitions")
    (data, *_) = (place / "files").glob(KINDS["a data file"])
    whole = data.read_bytes()
    data.unlink()
    with pytest.raises(Corrupt):
        restore(stored(tmp_path), Store(str(tmp_path / "new")))
    data.write_bytes(whole)
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = tmp_path / ".new.restoring" / data.relative_to(place / "files").parent
    if inside.exists():
        for path in inside.iterdir():
            path.unlink()
        inside.rmdir()
    inside.parent.mkdir(parents=True, exist_ok=True)
    inside.symlink_to(outside)
    with pytest.raises(LanceFlightError, match="symbolic link"):
        restore(stored(tmp_path), Store(str(tmp_path / "new")))
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"", b"LANC", b"\xff" * 64, b"\0" * 12 + b"LANC", b"\xff" * 40 + b"\0" * 12 + b"LANC"]
)
def test_what_is_no_version_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(Corrupt, match="no version"):
        with_base_paths(content, "x.manifest", str)
