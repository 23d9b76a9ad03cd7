"""The command-line client of the Rust crate `arrow-flight`, built once for a machine by the lock that the crate ships."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.service.server_process import Server

VERSION, CLIENT = "59.3.2", "flight_sql_client"
PATIENCE = 3600.0
"""Seconds that a build may take; it takes about six minutes on two cores."""


def is_installed() -> bool:
    """Whether there is a Cargo to build it with."""
    return shutil.which("cargo") is not None


def program(cache: Path) -> Path:
    """Where the client is as soon as it is built."""
    return cache / f"arrow-flight-{VERSION}" / "bin" / CLIENT


def build(cache: Path) -> None:
    """Build the client from the registry."""
    crate = ("arrow-flight", "--version", VERSION, "--locked", "--features", "cli,flight-sql,tls-ring", "--bin", CLIENT)
    root = program(cache).parents[1]
    subprocess.run(["cargo", "install", "--quiet", *crate, "--root", root], check=True, timeout=PATIENCE)


def called(client: Path, server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One call of the client."""
    host, _, port = server.uri.removeprefix("grpc://").rpartition(":")
    command = [str(client), "--host", host, "--port", port, *arguments]
    return subprocess.run(command, check=False, timeout=PATIENCE, capture_output=True, text=True)
