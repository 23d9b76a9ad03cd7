"""`python -m lance_flight_client.spark.connector.build`: builds the connector's jar against the jars of the installed PySpark.

The same sources and the same javac give the same bytes. A jar says which sources it was built from.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from lance_flight.errors import InvalidInput, NotFound

from lance_flight_client.spark.connector.sessions import JARS, jar_name

SOURCES = Path(__file__).parent
COMMON = "java"
"""Directory of the sources for every version of Spark; those from a version on are in one with its number, `java-4.2`."""
RELEASE = "17"
"""The Java that Spark 4 asks for."""
SOURCES_KEY = "Sources"
_MANIFEST = "META-INF/MANIFEST.MF"
_EARLIEST = (1980, 1, 1, 0, 0, 0)


def sources(version: str | None = None) -> list[Path]:
    """Return the connector's Java sources: those that a version of Spark is built from, or all of them."""
    if version is None:
        return sorted(SOURCES.rglob("*.java"))
    known = {_number(path.name): path for path in SOURCES.glob(f"{COMMON}-*")}
    newest = known[max(number for number in known if number <= _number(version))]
    return [source for place in (SOURCES / COMMON, newest) for source in sorted(place.rglob("*.java"))]


def _number(name: str) -> tuple[int, ...]:
    """Return the minor version that a name ends with.

    >>> _number("java-4.2"), _number("4.10.1")
    ((4, 2), (4, 10))
    """
    return tuple(map(int, name.rpartition("-")[2].split(".")[:2]))


def digest() -> str:
    """Return the beginning of the SHA-256 of the sources with their names."""
    found = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        found.update(f"{path.relative_to(SOURCES).as_posix()} {len(content)}\n".encode())
        found.update(content)
    # A line of a manifest has at most 72 bytes.
    return found.hexdigest()[:40]


def built_from(jar: Path) -> str:
    """Return the digest of the sources that a jar says it was built from."""
    with zipfile.ZipFile(jar) as archive:
        lines = archive.read(_MANIFEST).decode().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith(SOURCES_KEY)), "")


def build(directory: Path, pyspark_home: Path | None = None) -> Path:
    """Build the jar for a PySpark (the installed one) into a directory, and return its path."""
    home = pyspark_home or Path(pyspark.__file__).parent
    version = _version(home)
    javac = shutil.which("javac")
    if javac is None:
        raise NotFound("no javac on PATH; expected that of a JDK, 17 or newer")
    with TemporaryDirectory() as classes:
        command = [javac, "--release", RELEASE, "-nowarn", "-proc:none", "-cp", str(home / "jars" / "*"), "-d", classes]
        done = subprocess.run([*command, *map(str, sources(version))], capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise InvalidInput(f"javac refuses the connector against {home}: {done.stderr}")
        jar = directory / jar_name(version)
        directory.mkdir(parents=True, exist_ok=True)
        _pack(jar, Path(classes))
    return jar


def _version(home: Path) -> str:
    path = next((home / "jars").glob("spark-core_*.jar"), None)
    if path is None:
        raise NotFound(f"{home} holds no jars of Spark; expected the directory of an installed pyspark")
    return path.stem.rpartition("-")[2]


def _pack(jar: Path, classes: Path) -> None:
    with zipfile.ZipFile(jar, "w") as archive:
        for name, content in [(_MANIFEST, _manifest()), *_classes(classes)]:
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


def _manifest() -> bytes:
    return f"Manifest-Version: 1.0\r\n{SOURCES_KEY}: {digest()}\r\n\r\n".encode()


def _classes(classes: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(classes.rglob("*.class")):
        yield path.relative_to(classes).as_posix(), path.read_bytes()


def main(arguments: Sequence[str] | None = None) -> int:
    """Build one jar, and print its path."""
    parser = argparse.ArgumentParser(
        prog="python -m lance_flight_client.spark.connector.build",
        description="Build the Spark connector's jar with javac against the jars of an installed PySpark.",
    )
    parser.add_argument("--into", type=Path, default=JARS, help="directory of the jar (default: beside this module)")
    parser.add_argument("--pyspark", type=Path, help="directory of another pyspark than the installed one")
    given = parser.parse_args(arguments)
    print(build(given.into, given.pyspark), file=sys.stdout)  # noqa: T201 - what a command does
    return 0


if __name__ == "__main__":
    sys.exit(main())
