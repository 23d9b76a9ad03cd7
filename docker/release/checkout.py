"""The checkout that is released: its version, its commit, and what has to be true of it."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

CHANGELOG = "server/CHANGELOG.md"
UNRELEASED = "not released yet"
_FEW = 5
"""Names of files that a message lists."""


class ReleaseError(Exception):
    """A release that cannot be made; the text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """One checkout: its directory, the version in pyproject.toml, and its newest commit with its time in seconds since 1970."""

    path: Path
    version: str
    commit: str
    epoch: int

    @classmethod
    def of(cls, path: Path) -> Checkout:
        """Read a checkout; `ReleaseError` where there is none."""
        commit, epoch = git(path, "log", "-1", "--format=%H %ct").split()
        version = tomllib.loads((path / "pyproject.toml").read_text())["project"]["version"]
        return cls(path=path, version=version, commit=commit, epoch=int(epoch))

    def check(self, *, is_candidate: bool, remote: str | None = None) -> None:
        """Raise `ReleaseError` for changed files, a version that was released before, or a changelog that does not say what is new."""
        changed = [line[3:] for line in git(self.path, "status", "--porcelain", strip=False).splitlines()]
        if changed:
            names = ", ".join(changed[:_FEW]) + (", …" if len(changed) > _FEW else "")
            raise ReleaseError(f"the checkout is not clean: {names}; expected every change to be committed, or gone")
        self._check_tag(
            git(self.path, "for-each-ref", f"refs/tags/{self.tag}", "--format=%(objectname) %(*objectname)"), "here"
        )
        if remote is not None:
            self._check_tag(
                git(self.path, "ls-remote", "--tags", remote, f"{self.tag}", f"{self.tag}^{{}}"), f"at {remote}"
            )
        heading = self._heading()
        if UNRELEASED in heading and not is_candidate:
            raise ReleaseError(
                f"{CHANGELOG} says {heading!r}; expected '## {self.version}' and a date, or --candidate to try this out"
            )

    @property
    def tag(self) -> str:
        """The tag that a released version has."""
        return f"v{self.version}"

    def changes(self) -> str:
        """Return the section of the changelog for the version."""
        text = self._changelog()
        begin = text.index(self._heading())
        end = text.find("\n## ", begin)
        return text[begin : end if end >= 0 else len(text)].strip() + "\n"

    def export(self, directory: Path) -> Path:
        """Write the files of the commit, and nothing else, to a new directory, all with the time of the commit; return it."""
        archive = subprocess.run(
            ["git", "-c", "tar.umask=0022", "archive", "--format=tar", self.commit],
            cwd=self.path,
            check=True,
            capture_output=True,
        )
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(directory, filter="tar")
        return directory

    def _check_tag(self, found: str, where: str) -> None:
        if found and self.commit not in found:
            raise ReleaseError(
                f"version {self.version} was released before: tag {self.tag} is {where}, at another commit; expected a new version"
            )

    def _changelog(self) -> str:
        return (self.path / CHANGELOG).read_text()

    def _heading(self) -> str:
        heading = re.search(rf"^## {re.escape(self.version)}(?![\w.]).*$", self._changelog(), re.MULTILINE)
        if heading is None:
            raise ReleaseError(f"{CHANGELOG} has no section '## {self.version}'; expected what is new in the version")
        return heading[0]


def git(path: Path, *arguments: str, strip: bool = True) -> str:
    """Return what git prints; `ReleaseError` where it fails."""
    ended = subprocess.run(["git", *arguments], cwd=path, check=False, capture_output=True, text=True)
    if ended.returncode:
        raise ReleaseError(f"git {arguments[0]} failed in {path}: {ended.stderr.strip()}")
    return ended.stdout.strip() if strip else ended.stdout
