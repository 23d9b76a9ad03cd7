"""Packages of npm, installed once for a machine by their lock, and the program that calls them."""

from __future__ import annotations

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.service.server_process import Server

PROGRAM = Path(__file__).parent / "node"
LOCK = "package-lock.json"
PATIENCE = 300.0
INSTALL = ("npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund")
"""`npm ci` refuses a package that names another one for a platform, which nobody has published."""


def is_installed() -> bool:
    """Whether there are Node and npm."""
    return all(shutil.which(command) for command in ("node", "npm"))


def packages(cache: Path, program: Path = PROGRAM) -> Path:
    """The directory of the packages that the lock of a program names."""
    installed = cache / f"node-{sha256((program / LOCK).read_bytes()).hexdigest()[:12]}"
    if not installed.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as place:
            for name in ("package.json", LOCK):
                shutil.copy(program / name, place)
            subprocess.run(INSTALL, check=True, timeout=PATIENCE, cwd=place)
            (Path(place) / "node_modules").replace(installed)
    return installed


def said_of(server: Server, modules: Path) -> str:
    """What the program prints."""
    command = ["node", str(PROGRAM / "clients.js"), server.uri.rpartition(":")[2]]
    environment = {**os.environ, "NODE_PATH": str(modules)}
    ran = subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True, text=True, env=environment)
    return ran.stdout
