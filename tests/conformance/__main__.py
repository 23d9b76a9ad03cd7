"""Serve one of Arrow's integration scenarios: `python -m tests.conformance --port 31337 --scenario flight_sql`."""

from __future__ import annotations

import argparse

from tests.conformance.server import BACKENDS, ConformanceServer

parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.partition(":")[0])
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, default=31337, help="the port of Arrow's clients by default")
parser.add_argument("--scenario", choices=sorted(BACKENDS), required=True)
arguments = parser.parse_args()
with ConformanceServer(arguments.scenario, host=arguments.host, port=arguments.port) as server:
    print(server.uri, flush=True)
    server.wait()
