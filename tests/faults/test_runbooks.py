"""Faults of a machine, and the steps of the page for operators that end them, as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from lance_flight.catalog.storage import durability

from tests.catalog.aging import age
from tests.documents import blocks, text_of
from tests.engine.database import Database
from tests.faults.clocks import skewed
from tests.faults.disks import Disk
from tests.faults.power import Cutting, power
from tests.service import commands
from tests.service.server_process import COMMAND, serving

PAGE = "server/docs/runbooks.md"
ROWS = [(number, "north" if number % 2 else "south") for number in range(8)]
NAME_OF_CLOCK = "timedatectl set-ntp true"


@dataclass
class Runbook:
    """A section of the page, with what its words in capitals stand for, and how commands are run at a step.

    A step that is a key of `replaced` is not run: nothing but the function there.
    """

    section: str
    names: dict[str, str]
    prefix: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    replaced: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)

    @property
    def symptom(self) -> str:
        """The code of the error that a section begins with."""
        return re.findall(r"`(\[\w+\])`", text_of(PAGE, self.section))[0]

    def follow(self, *statuses: int) -> str:
        """Take the steps, which end with these statuses, and return what they print."""
        (block,) = blocks(PAGE, "sh", self.section)
        steps = block.splitlines()
        assert len(steps) == len(statuses)
        for step, status in zip(steps, statuses, strict=True):
            if step in self.replaced:
                self.replaced[step]()
                continue
            words = [re.sub(r"[A-Z]{4,}", lambda word: self.names[word[0]], word) for word in shlex.split(step)]
            words = [COMMAND if word == "lance-flight" else word for word in words]
            done = subprocess.run(
                [*self.prefix, *words], capture_output=True, text=True, check=False, env=dict(self.environment)
            )
            assert done.returncode == status, f"{step}\n{done.stdout}{done.stderr}"
            self.shown.append(done.stdout + done.stderr)
            if damaged := re.search(r"'(events/[^']*)' is not the file", done.stdout):
                self.names["FILE"] = damaged[1]
        return "".join(self.shown)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a table of two partitions."""
    asked = Database(tmp_path / "root")
    asked.run("CREATE TABLE events (id BIGINT, region VARCHAR) PARTITIONED BY (region)")
    asked.run(f"INSERT INTO events VALUES {', '.join(map(str, ROWS))}")
    return asked.root


def rows(root: Path) -> list[tuple[object, ...]]:
    """What a process that begins now reads."""
    return Database(root).rows("SELECT id, region FROM events ORDER BY id")


@pytest.fixture
def book(root: Path, tmp_path: Path) -> Callable[..., Runbook]:
    names = {"ROOT": str(root), "BACKUPS": str(tmp_path / "backups"), "RESTORED": str(tmp_path / "restored")}
    return lambda section, **more: Runbook(section, names, **more)


def test_power_loss(root: Path, tmp_path: Path, book: Callable[..., Runbook], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability.durability, "mode", durability.Durability.COMMIT)
    asked = Database(root)
    with power(root) as watched:
        asked.run("INSERT INTO events VALUES (8, 'south')")
        watched.reach("acknowledged", is_acknowledged=True)
    for cut in watched.cuts[-2:]:
        left = tmp_path / str(cut).replace(" ", "_") / "root"
        cut.left(Cutting(None)).put(left)
        runbook = book("Power loss")
        runbook.names["ROOT"] = str(left)
        assert "all sound" in runbook.follow(0, 0)
        assert rows(left) in ([*ROWS, (8, "south")], *([] if cut.is_acknowledged else [ROWS]))


def test_full_disk(device: Disk, book: Callable[..., Runbook]) -> None:
    place = device.place / "full"
    with serving(place) as server:
        server.run("CREATE TABLE old_events AS SELECT value AS id FROM range(1000)")
        server.run("CREATE TABLE events (id BIGINT, region VARCHAR) PARTITIONED BY (region)")
        server.run("INSERT INTO events VALUES (1, 'north')")
        server.run("UPDATE events SET id = 2")
        age(place / "events", hours=24 * 30)
        with device.with_room(files=0, pages=0):
            assert book("Full disk").symptom in server.refuses("INSERT INTO events VALUES (3, 'south')")
            for statement in filter(None, map(str.strip, blocks(PAGE, "sql", "Full disk")[0].split(";"))):
                server.run(statement)
            assert server.run("INSERT INTO events VALUES (3, 'south')") == 1
        assert server.rows("SELECT id FROM events ORDER BY id") == [(2,), (3,)]
        assert not list(place.glob("old_events*")), "what nobody needs went"
        assert len(list(place.glob("events/*$dataset/data/*"))) == 2, "so did what was replaced"


def test_lost_manifest(root: Path, book: Callable[..., Runbook]) -> None:
    shutil.rmtree(root / "events" / "__manifest")
    runbook = book("Lost manifest")
    assert runbook.symptom in Database(root).refuses("SELECT id FROM events")
    assert f"made anew with {len(ROWS)} rows" in runbook.follow(1, 0, 0)
    assert rows(root) == ROWS


def test_damaged_file(root: Path, tmp_path: Path, book: Callable[..., Runbook]) -> None:
    assert commands.run("backup", str(root), str(tmp_path / "backups")).returncode == 0
    damaged = min((root / "events").glob("*$dataset/data/*"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    runbook = book("Damaged file")
    assert runbook.symptom in Database(root).refuses("SELECT id, region FROM events")
    shown = runbook.follow(1, 0, 0, 0)
    assert damaged.name in shown
    assert rows(root) == ROWS


# Whoever runs the tests as root may do everything; a process without these capabilities may do what its user may.
POWERLESS = () if os.geteuid() else ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")


@pytest.fixture
def locked(root: Path) -> Iterator[None]:
    if POWERLESS and shutil.which(POWERLESS[0]) is None:
        pytest.skip(f"there is no {POWERLESS[0]}")
    places = [root, *root.rglob("*")]
    for place in places:
        place.chmod(place.stat().st_mode & ~0o222)
    yield
    for place in places:
        if place.exists():
            place.chmod(place.stat().st_mode | 0o700)


@pytest.mark.full
@pytest.mark.usefixtures("locked")
def test_lost_rights(root: Path, tmp_path: Path, book: Callable[..., Runbook]) -> None:
    (tmp_path / "more.csv").write_text("id,region\n8,south\n")
    write = [
        *POWERLESS,
        COMMAND,
        "ingest",
        str(tmp_path / "more.csv"),
        "--table",
        "events",
        "--mode",
        "append",
        "--root",
        str(root),
    ]
    run = partial(subprocess.run, write, capture_output=True, text=True, check=False)
    runbook = book("Lost rights", prefix=POWERLESS)
    refused = run()
    assert refused.returncode == 1
    assert runbook.symptom in refused.stderr
    assert "root: cannot be written" in runbook.follow(1, 0, 0)
    assert run().returncode == 0
    assert rows(root) == [*ROWS, (8, "south")]


@pytest.mark.full
@pytest.mark.parametrize("hours", [-1.0, 1.0])
def test_wrong_clock(root: Path, book: Callable[..., Runbook], hours: float) -> None:
    runbook = book("Wrong clock", environment=skewed(hours))

    def set_clock() -> None:
        runbook.environment = os.environ

    runbook.replaced = {NAME_OF_CLOCK: set_clock}
    runbook.follow(1, 0, 0, 0)
    wrong, right, verified = runbook.shown
    assert re.search(r"clock: differs from that of the storage by -?3[56]\d\d s", wrong)
    assert "set both by NTP" in wrong
    assert "set both by NTP" not in right
    assert "all sound" in verified
