"""A standalone Spark of several processes on loopback: a master and workers, each of which can be killed with all it has started."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tests.spark.processes import kill_session, wait_until

_HOME = Path(pyspark.__path__[0])
_CLASS = "org.apache.spark.deploy"
_SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": _SMALL,
}
"""An executor for each worker."""


@dataclass
class Cluster:
    """A running master, and the workers that live."""

    place: Path
    master: str
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: int = 0

    def have_workers(self, count: int) -> None:
        """Start workers until there are so many, each at an address of its own: Spark tries no task twice on one host."""
        while len(self.workers) < count:
            self.started += 1
            host = f"127.0.0.{1 + self.started}"
            work = str(self.place / f"work-{self.started}")
            arguments = ["--cores", "1", "--memory", "600m", "--work-dir", work, self.master]
            process = _start("worker.Worker", host, self.place / f"worker-{self.started}.log", *arguments)
            self.workers[process.pid] = process

    def kill(self, session: int) -> None:
        """Kill a worker with its executors and their Python, as if its machine had lost its power."""
        process = self.workers.pop(session)
        kill_session(session)
        process.wait()


@contextmanager
def cluster(place: Path) -> Iterator[Cluster]:
    """A master without workers; everything ends with the block."""
    log = place / "master.log"
    process = _start("master.Master", "127.0.0.1", log)
    running = Cluster(place, "")
    try:
        wait_until(lambda: "Starting Spark master at" in log.read_text(), process)
        running.master = re.findall(r"Starting Spark master at (\S+)", log.read_text())[0]
        yield running
    finally:
        for each in [process, *running.workers.values()]:
            kill_session(each.pid)
            each.wait()


def _start(name: str, host: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A daemon of Spark's in a session of its own, which whatever it starts belongs to."""
    small = {"SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": _SMALL}
    environment = {**os.environ, **small, "SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": host}
    command = [
        str(_HOME / "bin" / "spark-class"),
        f"{_CLASS}.{name}",
        "--host",
        host,
        "--port",
        "0",
        "--webui-port",
        "0",
    ]
    with log.open("wb") as out:
        return subprocess.Popen([*command, *arguments], env=environment, stderr=out, start_new_session=True)
