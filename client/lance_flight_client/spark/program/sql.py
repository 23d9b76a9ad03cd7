"""`settings` and `sql` of `python -m lance_flight_client.spark`: the catalog of a root or a server in Spark's own programs."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from lance_flight_client.spark.connector.sessions import settings
from lance_flight_client.spark.machine import prepare
from lance_flight_client.spark.program import pair

DEFAULTS: Mapping[str, str] = {
    # Otherwise the shell makes a metastore of Hive's in the working directory.
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of the shell beside those of the connector."""


def run(options: argparse.Namespace) -> int:
    """Print the settings of a session, or start Spark's SQL shell with them; the status is that of the shell."""
    lake = options.lake if "://" in options.lake else str(Path(options.lake).absolute())
    found = settings(lake, catalog=options.catalog, **dict(pair("--option", text) for text in options.option))
    if options.command == "settings":
        print(properties(found), end="")
        return 0
    prepare()
    with tempfile.TemporaryDirectory(prefix="lance-flight-spark-") as place:
        # In a file, options of the catalog that are secrets are in no list of processes.
        file = Path(place, "spark.conf")
        file.write_text(properties({**DEFAULTS, **found}), encoding="utf-8")
        return _shell(["--properties-file", str(file), "--load-spark-defaults", *options.arguments])


def properties(found: Mapping[str, str]) -> str:
    r"""Return settings as a properties file of Spark's has them.

    >>> properties({"spark.a": "b", "spark.c": "d\\e"})
    'spark.a b\nspark.c d\\\\e\n'
    """
    return "".join("{} {}\n".format(name, value.replace("\\", "\\\\")) for name, value in found.items())


def _shell(arguments: Sequence[str]) -> int:
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    # An interrupt ends the statement that the shell runs; this process waits for the end of the shell.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(  # noqa: S603 - Spark's own program
            [home / "bin" / "spark-sql", *arguments], env={**os.environ, "SPARK_HOME": str(home)}, check=False
        ).returncode
    finally:
        signal.signal(signal.SIGINT, before)
