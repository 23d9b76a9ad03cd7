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
from lance_flight.errors import InvalidInput

from lance_flight_client.spark.connector.sessions import settings
from lance_flight_client.spark.machine import prepare
from lance_flight_client.spark.program import pair

PASSWORD_VARIABLE, TOKEN_VARIABLE = "LANCE_FLIGHT_PASSWORD", "LANCE_FLIGHT_TOKEN"
"""Variables that `lance-flight sql` reads as well."""
DEFAULTS: Mapping[str, str] = {
    # Otherwise the shell makes a metastore of Hive's in the working directory.
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of the shell beside those of the connector."""


def run(options: argparse.Namespace) -> int:
    """Print the settings of a session, or start Spark's SQL shell with them; the status is that of the shell."""
    lake = options.lake if "://" in options.lake else str(Path(options.lake).absolute())
    found = settings(lake, catalog=options.catalog, **catalog_options(options, os.environ))
    if options.command == "settings":
        print(properties(found), end="")
        return 0
    prepare()
    with tempfile.TemporaryDirectory(prefix="lance-flight-spark-") as place:
        # In a file, options of the catalog that are secrets are in no list of processes.
        file = Path(place, "spark.conf")
        file.write_text(properties({**DEFAULTS, **found}), encoding="utf-8")
        return _shell(["--properties-file", str(file), "--load-spark-defaults", *options.arguments])


def catalog_options(options: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the catalog: those of flags, of a file, and what the environment has to log in at a server with."""
    found = dict(pair("--option", text) for text in options.option)
    if options.options_file is not None:
        try:
            lines = Path(options.options_file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as exc:
            raise InvalidInput(f"file {options.options_file!r} of --options-file cannot be read: {exc}") from exc
        for line in filter(None, map(str.strip, lines)):
            name, sign, value = line.partition("=")
            if not sign:
                raise InvalidInput(f"file {options.options_file!r} has a line without a value; expected KEY=VALUE")
            found[name.strip()] = value.strip()
    if options.lake.startswith("grpc") and not {"token", "password"} & found.keys():
        password, token = environment.get(PASSWORD_VARIABLE), environment.get(TOKEN_VARIABLE)
        if "username" in found and password:
            found["password"] = password
        elif "username" not in found and token:
            found["token"] = token.strip()
    return found


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
