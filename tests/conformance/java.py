"""The Flight SQL JDBC driver, run once by a program in Java that says what came of each call."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conformance.transcripts import said_in
from tests.conformance.types import SAMPLES
from tests.service.server_process import Server

DRIVER = "org.apache.arrow:flight-sql-jdbc-driver:18.3.0"
PROGRAM = Path(__file__).parent / "jdbc" / "Conformance.java"
PATIENCE = 300.0
JAVA = ("java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A program of seconds, which compilers that optimise would take longer over than it runs."""


def is_installed() -> bool:
    """Whether there are a Java compiler and Maven."""
    return all(shutil.which(command) for command in ("javac", "mvn"))


def driver(cache: Path) -> Path:
    """The driver, which Maven gets once."""
    _, name, version = DRIVER.split(":")
    jar = cache / f"{name}-{version}.jar"
    if not jar.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as place:  # another worker may be getting it as well
            copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={DRIVER}", f"-DoutputDirectory={place}"]
            subprocess.run(copy, check=True, timeout=PATIENCE)
            (Path(place) / jar.name).replace(jar)
    return jar


def program(server: Server, jar: Path, name: str) -> list[str]:
    """The command that runs a program in Java against a server, up to the program's further arguments."""
    url = f"jdbc:arrow-flight-sql://{server.uri.removeprefix('grpc://')}/?useEncryption=false"
    return [*JAVA, "-Duser.timezone=UTC", "-cp", str(jar), str(PROGRAM.with_name(name)), url]


def said_of(server: Server, jar: Path, scratch: Path) -> Mapping[str, str]:
    """What the program says, by the name of each call: `= value` or `! error`."""
    types = scratch / "types.tsv"
    types.write_text("".join(f"{sample.table}\t{sample.literal}\n" for sample in SAMPLES))
    command = [*program(server, jar, PROGRAM.name), str(types)]
    ran = subprocess.run(command, check=False, timeout=PATIENCE, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return said_in(ran.stdout)
