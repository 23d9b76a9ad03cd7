"""The Flight SQL JDBC driver, run by programs in Java that say what came of each call; they are compiled once for a machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conformance.transcripts import said_in
from tests.conformance.types import SAMPLES
from tests.service.server_process import Server

DRIVER = "org.apache.arrow:flight-sql-jdbc-driver:18.3.0"
PROGRAMS = Path(__file__).parent / "jdbc"
PATIENCE = 300.0
_JAVA = (
    "java",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx512m",
)
"""A program of seconds, which compilers that optimise would take longer over than it runs, and which holds no large result."""


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


def class_path(cache: Path) -> str:
    """The driver, and the classes of the programs."""
    sources = sorted(PROGRAMS.glob("*.java"))
    classes = cache / f"jdbc-{sha256(b''.join(source.read_bytes() for source in sources)).hexdigest()[:12]}"
    if not classes.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as place:
            subprocess.run(["javac", "-d", f"{place}/made", *sources], check=True, timeout=PATIENCE)
            with suppress(OSError):  # another worker has made them meanwhile
                (Path(place) / "made").replace(classes)
    return f"{driver(cache)}:{classes}"


def command(jdbc: str, name: str) -> list[str]:
    """The command that runs a program, up to its arguments."""
    return [*_JAVA, "-Duser.timezone=UTC", "-cp", jdbc, name]


def program(server: Server, jdbc: str, name: str) -> list[str]:
    """The command that runs a program against a server, up to its further arguments."""
    return [*command(jdbc, name), f"jdbc:arrow-flight-sql://{server.uri.removeprefix('grpc://')}/?useEncryption=false"]


def conformance_of(server: Server, jdbc: str, scratch: Path) -> Mapping[str, str]:
    """What `Conformance.java` says, which goes through the types of the table of types."""
    types = scratch / "types.tsv"
    types.write_text("".join(f"{sample.table}\t{sample.literal}\n" for sample in SAMPLES))
    return said_of(server, jdbc, "Conformance", str(types))


def said_of(server: Server, jdbc: str, name: str, *arguments: str) -> Mapping[str, str]:
    """What a program says, by the name of each call: `= value` or `! error`."""
    ran = subprocess.run(
        [*program(server, jdbc, name), *arguments], check=False, timeout=PATIENCE, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return said_in(ran.stdout)
