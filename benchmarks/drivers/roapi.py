"""ROAPI over its Flight SQL port: a server in Rust that reads all rows into memory as it starts, and then only answers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.drivers.driver import run
from benchmarks.drivers.lance_flight import FlightSql
from benchmarks.drivers.question import TABLE
from benchmarks.servers import Server

ANY_PORT = "127.0.0.1:0"
LOG = {"RUST_LOG": "off,roapi::startup=info"}
LISTENS, FOR = "Listening on ", " for FlightSQL traffic"


class Roapi(FlightSql):
    def load(self, rows: Path) -> None:
        addresses = [part for port in ("http", "postgres", "flight-sql") for part in (f"--addr-{port}", ANY_PORT)]
        command = [str(self.environment / "bin" / "roapi"), *addresses, "--table", f"{TABLE}={rows}"]
        process = self.stack.enter_context(
            subprocess.Popen(command, env=os.environ | LOG, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        self.stack.callback(process.terminate)
        for line in process.stdout or ():
            if FOR in line:
                self.server = Server(f"grpc://{line.partition(LISTENS)[2].partition(FOR)[0]}", process.pid)
                return
        raise OSError(f"{command} ended before it listened")


if __name__ == "__main__":
    run(Roapi)
