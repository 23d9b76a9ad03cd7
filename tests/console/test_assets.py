"""The scripts that the wheel has are those of the lock file, and small."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import lance_flight_client.console

STATIC = Path(lance_flight_client.console.__file__).parent / "static"
SOURCES = Path(__file__).parents[2] / "client" / "console_assets"
MOST_COMPRESSED = 250_000


def test_they_are_small() -> None:
    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in STATIC.glob("*.js")) <= MOST_COMPRESSED


def test_they_are_what_their_sources_make(tmp_path: Path) -> None:
    sources = tmp_path / "client" / "console_assets"
    shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("node_modules"))
    target = tmp_path / "client" / "lance_flight_client" / "console" / "static"
    target.mkdir(parents=True)
    for command in (["npm", "ci", "--silent", "--no-audit", "--no-fund"], ["npm", "run", "build", "--silent"]):
        subprocess.run(command, cwd=sources, check=True, capture_output=True, text=True, timeout=240)
    built = {file.name: file.read_bytes() for file in target.iterdir()}
    assert built.keys() == {"editor.js", "htmx.js", "licences.txt"}
    assert [name for name, content in built.items() if (STATIC / name).read_bytes() != content] == []


def test_every_library_has_its_licence() -> None:
    text = (STATIC / "licences.txt").read_text()
    for name in ("htmx.org ", "@codemirror/view ", "@codemirror/lang-sql ", "style-mod "):
        assert f"\n{name}" in f"\n{text}"
