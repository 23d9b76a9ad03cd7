"""The command that makes a release: what it makes, the same each time, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.selection import IS_FULL

TOP = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, str(TOP / "docker" / "release")]
VERSION = re.search(r'^version = "(.+)"$', (TOP / "pyproject.toml").read_text(), re.MULTILINE)[1]  # type: ignore[index]

pytestmark = pytest.mark.skipif(not (TOP / ".git").exists(), reason="a release is made from a checkout")


def git(path: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=path, check=True, capture_output=True, text=True
    ).stdout.strip()


def cloned(path: Path) -> Path:
    """A clean checkout of the newest commit."""
    git(TOP, "clone", "--quiet", "--no-tags", str(TOP), str(path))
    return path


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cloned(tmp_path_factory.mktemp("clone") / "checkout")


@pytest.fixture
def checkout(clone: Path) -> Iterator[Path]:
    """A clean checkout of the newest commit, which is made clean again after each test."""
    before = git(clone, "rev-parse", "HEAD")
    yield clone
    git(clone, "reset", "--quiet", "--hard", before)
    git(clone, "clean", "--quiet", "-fd")
    for tag in git(clone, "tag").split():
        git(clone, "tag", "--delete", tag)


def release(checkout: Path, out: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--checkout", str(checkout), "--out", str(out), "--no-image", *arguments],
        capture_output=True, text=True, timeout=280, check=False, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release, whose packages are built twice at different places; with `IS_FULL` of two checkouts."""
    places = [tmp_path_factory.mktemp("release") for _ in range(2 if IS_FULL else 1)]
    for place in places:
        ended = release(cloned(place / "checkout"), place / "out", "--candidate")
        assert ended.returncode == 0, ended.stderr
    first, *others = ({file.name: file.read_bytes() for file in (place / "out").iterdir()} for place in places)
    assert all(other == first for other in others)
    return places[0] / "out"


def test_a_release_has_its_files(made: Path) -> None:
    assert {file.name for file in made.iterdir()} == {
        f"lance_flight-{VERSION}-py3-none-any.whl", f"lance_flight-{VERSION}.tar.gz", "sbom.cdx.json", "LICENCES.txt",
        f"CHANGELOG-{VERSION}.md", "SHA256SUMS",
    }  # fmt: skip


def test_the_checksums_are_those_of_the_files(made: Path) -> None:
    sums = dict(reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines())
    files = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in made.iterdir() if file.name != "SHA256SUMS"
    }
    assert sums == files


def test_wheel_and_sdist_hold_what_the_commit_has(made: Path) -> None:
    listed = set(git(TOP, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    (wheel,), (sdist,) = (list(made.glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    with zipfile.ZipFile(wheel) as packed:
        modules = {name for name in packed.namelist() if ".dist-info/" not in name}
        assert f"Version: {VERSION}" in packed.read(f"lance_flight-{VERSION}.dist-info/METADATA").decode()
    assert modules == {
        re.sub("^(server|client)/", "", name)
        for name in listed
        if re.match("server/lance_flight/|client/(lance_flight_client|pyspark_lance_flight)/", name)
    }
    with tarfile.open(sdist) as packed_source:
        files = {name.partition("/")[2] for name in packed_source.getnames()}
        times = {about.mtime for about in packed_source.getmembers()}
    assert files - {"PKG-INFO", ".gitignore"} == {
        name for name in listed if re.match("server/|client/|tests/|README.md|pyproject.toml", name)
    }
    assert times == {int(git(TOP, "log", "-1", "--format=%ct"))}


def test_the_bill_of_materials_has_every_locked_dependency_with_its_licence(made: Path) -> None:
    bill = json.loads((made / "sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == (
        "lance-flight",
        VERSION,
    )
    assert int(datetime.fromisoformat(bill["metadata"]["timestamp"]).timestamp()) == int(
        git(TOP, "log", "-1", "--format=%ct")
    )
    names = {each["name"] for each in bill["components"]}
    assert names >= {"pylance", "datafusion", "pyarrow", "pyspark", "starlette", "opentelemetry-sdk", "sqlalchemy"}
    assert not names & {"pytest", "ruff", "moto"}, "what the tests need is no dependency"
    for each in bill["components"]:
        ((kind, licence),) = each["licenses"][0].items()
        said = licence if kind == "expression" else licence["name"]
        assert said, each["name"]
        assert f"{each['name']} {each['version']}" in (made / "LICENCES.txt").read_text()
    texts = (made / "LICENCES.txt").read_text()
    assert "Apache License" in texts
    assert "Permission is hereby granted" in texts


def test_the_changes_are_the_section_of_the_version(made: Path) -> None:
    text = (made / f"CHANGELOG-{VERSION}.md").read_text()
    assert text.startswith(f"## {VERSION}")
    assert text.count("\n## ") == 0
    assert text in (TOP / "server/CHANGELOG.md").read_text() or text.strip() in git(
        TOP, "show", "HEAD:server/CHANGELOG.md"
    )


def changed(checkout: Path) -> None:
    (checkout / "README.md").write_text("other")


def further(checkout: Path) -> None:
    (checkout / "server/lance_flight/left_over.py").write_text("")


def tagged(checkout: Path) -> None:
    git(checkout, "tag", f"v{VERSION}")
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "later")


def tagged_with_a_note(checkout: Path) -> None:
    git(checkout, "tag", "-a", f"v{VERSION}", "-m", "released")
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "later")


def without_a_section(checkout: Path) -> None:
    text = (checkout / "server/CHANGELOG.md").read_text().replace(f"## {VERSION}", f"## {VERSION}.1")
    (checkout / "server/CHANGELOG.md").write_text(text)
    git(checkout, "commit", "--quiet", "-am", "no section")


def another_lock(checkout: Path) -> None:
    text = (checkout / "pyproject.toml").read_text().replace(f'version = "{VERSION}"', 'version = "9.9.9"')
    (checkout / "pyproject.toml").write_text(text)
    log = (checkout / "server/CHANGELOG.md").read_text().replace(f"## {VERSION}", "## 9.9.9")
    (checkout / "server/CHANGELOG.md").write_text(log)
    git(checkout, "commit", "--quiet", "-am", "another version than in the lock file")


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a changed file": (changed, "the checkout is not clean: README.md; expected every change to be committed"),
    "a further file": (further, "the checkout is not clean: server/lance_flight/left_over.py"),
    "a version with a tag": (
        tagged,
        f"version {VERSION} was released before: tag v{VERSION} is here, at another commit",
    ),
    "a version with an annotated tag": (
        tagged_with_a_note,
        f"version {VERSION} was released before: tag v{VERSION} is here",
    ),
    "a changelog without the version": (without_a_section, f"server/CHANGELOG.md has no section '## {VERSION}'"),
    "a lock file of another version": (another_lock, "uv export failed: "),
}


@pytest.mark.parametrize(("spoil", "says"), REFUSED.values(), ids=REFUSED)
def test_what_must_not_be_released_is_refused(
    checkout: Path, tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    spoil(checkout)
    ended = release(checkout, tmp_path / "out", "--candidate", UV_OFFLINE="1")
    assert ended.returncode == 1, ended.stdout
    assert ended.stderr.startswith(f"release: {says}"), ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_tag_at_a_remote_is_refused_and_one_at_the_commit_is_none(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", "--no-tags", str(checkout), str(other))
    tagged(checkout)
    git(other, "commit", "--quiet", "--allow-empty", "-m", "mine")
    ended = release(other, tmp_path / "out", "--candidate", "--remote", "origin")
    assert f"tag v{VERSION} is at origin, at another commit" in ended.stderr


def test_a_section_that_says_not_released_yet_is_one_of_a_candidate_alone(checkout: Path, tmp_path: Path) -> None:
    text = (checkout / "server/CHANGELOG.md").read_text()
    (checkout / "server/CHANGELOG.md").write_text(
        re.sub(rf"(?m)^## {re.escape(VERSION)}.*$", f"## {VERSION}, not released yet", text)
    )
    if git(checkout, "status", "--porcelain"):
        git(checkout, "commit", "--quiet", "-am", "not yet")
    ended = release(checkout, tmp_path / "out")
    assert "server/CHANGELOG.md says" in ended.stderr
    assert "--candidate to try this out" in ended.stderr


def test_a_result_is_not_written_over(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    ended = release(checkout, tmp_path / "out", "--candidate")
    assert ended.returncode == 1
    assert "is there already" in ended.stderr
