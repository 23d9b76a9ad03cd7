"""The Flight SQL JDBC driver, run by programs in Java that say what came of each call; they are compiled once for a machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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


def classes(cache: Path) -> Path:
    """The compiled programs."""
    sources = sorted(PROGRAMS.glob("*.java"))
    made = cache / f"jdbc-{sha256(b''.join(source.read_bytes() for source in sources)).hexdigest()[:12]}"
    if not made.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as place:
            jar = driver(cache)
            subprocess.run(["javac", "-cp", jar, "-d", f"{place}/made", *sources], check=True, timeout=PATIENCE)
            with suppress(OSError):  # another worker has made them meanwhile
                (Path(place) / "made").replace(made)
    return made


@dataclass(frozen=True)
class Jdbc:
    """A JVM with the driver, which runs one program after another."""

    process: subprocess.Popen[str]

    def run(self, name: str, *arguments: str) -> list[str]:
        """Run a program; the lines that it prints."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\t".join([name, *arguments]) + "\n")
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line.removesuffix("\n"))
            if lines[-1] == "## ended":
                return lines[:-1]
            assert lines[-1] != "## failed", "\n".join(lines)
        raise AssertionError("\n".join(lines))

    def said_of(self, server: Server, name: str, *arguments: str) -> Mapping[str, str]:
        """What a program says of a server, by the name of each call: `= value` or `! error`."""
        url = f"jdbc:arrow-flight-sql://{server.uri.removeprefix('grpc://')}/?useEncryption=false"
        return said_in("\n".join(self.run(name, url, *arguments)))

    def conformance_of(self, server: Server, scratch: Path) -> Mapping[str, str]:
        """What `Conformance.java` says, which goes through the types of the table of types."""
        types = scratch / "types.tsv"
        types.write_text("".join(f"{sample.table}\t{sample.literal}\n" for sample in SAMPLES))
        return self.said_of(server, "Conformance", str(types))


@contextmanager
def running(cache: Path) -> Iterator[Jdbc]:
    """A JVM that ends with the block."""
    path = f"{driver(cache)}:{classes(cache)}"
    command = [*_JAVA, "-Duser.timezone=UTC", "-cp", path, "Programs"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Jdbc(process)
        process.terminate()
