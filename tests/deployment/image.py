"""Builds the image of docker/Dockerfile, and runs it as a container engine would: read-only, as its user, without rights.

    uv run python -m tests.deployment.image [--spark] [--registry] [--archive FILE --timestamp SECONDS]

For root on Debian with `buildah` and `debootstrap`; no container engine need run. Unless a registry is to be asked, the base image
is made by debootstrap of the same release of Debian, with its Python of the same version and the machine's settings of pip and uv.
The server is process 1 of namespaces of its own, on the machine's network.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import yaml
from adbc_driver_flightsql import dbapi
from grpc_health.v1 import health_pb2, health_pb2_grpc

TOP = Path(__file__).parent.parent.parent
DOCKERFILE = TOP / "docker" / "Dockerfile"
COMPOSE = TOP / "docker" / "compose.yaml"
BASE = re.compile(r"^FROM (python:(3\.\d+)-slim-(\w+))", re.MULTILINE)
TAG = "localhost/lance-flight-check"
ENVIRONMENT = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
PATIENCE = 120.0
FEW = 10
"""Files that a message names."""
PORTS = ("LANCE_FLIGHT_PORT", "LANCE_FLIGHT_ADMIN_PORT", "LANCE_FLIGHT_HEALTH_PORT")

# Process 1 of a mount namespace: the image, read-only, with the file systems that an engine mounts.
ENTER = """
set -eu
mount --make-rprivate /
mount --bind "$IMAGE" "$IMAGE"
mount -o remount,bind,ro "$IMAGE"
mount -t proc proc "$IMAGE/proc"
mount --rbind /dev "$IMAGE/dev"
mount -t tmpfs tmpfs "$IMAGE/tmp"
for bound in $BINDS; do mount --bind "${bound%%:*}" "$IMAGE${bound#*:}"; done
exec chroot "$IMAGE" setpriv --reuid "$OWNER" --regid "$OWNER" --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all -- env -i "$@"
"""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def check(*, truth: bool, what: str) -> None:
    """Say what was found, and end if it is not so."""
    say(f"  {'ok' if truth else 'FAILED'}  {what}")
    if not truth:
        sys.exit(1)


def output(*command: str | Path, timeout: float = 1800) -> str:
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=ENVIRONMENT, timeout=timeout)
    if ended.returncode:
        sys.exit(
            f"{shlex.join(map(str, command))} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"[-4000:]
        )
    return ended.stdout.strip()


def make_base(work: Path) -> None:
    """Make the base image that the Dockerfile names, from Debian's packages."""
    ((name, version, release),) = set(BASE.findall(DOCKERFILE.read_text()))
    base = work / "base"
    output("debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, base)
    (base / "usr/bin/python").symlink_to("python3")
    found = output("chroot", base, "python", "-c", "import sys; print('{}.{}'.format(*sys.version_info))")
    check(truth=found == version, what=f"Debian {release} has Python {version}")
    for managed in base.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        managed.unlink()
    # How this machine reaches registries of packages.
    shutil.copy(CERTIFICATES, base / CERTIFICATES.relative_to("/"))
    (base / "etc/uv").mkdir()
    (base / "etc/uv/uv.toml").write_text("native-tls = true\n")
    for settings in (Path("/etc/pip.conf"), Path("/etc/uv/uv.toml")):
        if settings.exists():
            shutil.copy(settings, base / settings.relative_to("/"))
    container = output("buildah", "from", "scratch")
    output("buildah", "copy", "-q", container, base, "/")
    output("buildah", "commit", "-q", container, f"docker.io/library/{name}")
    output("buildah", "rm", container)
    shutil.rmtree(base)


def build_twice(archive: Path, timestamp: int) -> None:
    """Keep the image as an OCI archive, once a second build without any layer of the first has made the same files, or say which differ."""
    again = f"{TAG}-again"
    build(again, ["--no-cache", f"--timestamp={timestamp}"], is_pulled=False)
    found = [dict(listed(tag)) for tag in (TAG, again)]
    different = sorted({file for one, other in (found, found[::-1]) for file in one if one[file] != other.get(file)})
    shown = ", ".join(different[:FEW]) + (", …" if len(different) > FEW else "")
    say(
        f"  {len(found[0]):,} files, {'the same twice' if not different else f'{len(different):,} of which differ in a second build: {shown}'}"
    )
    name = archive.name.removesuffix(".oci.tar")
    with tempfile.TemporaryDirectory(prefix="lance-flight-again-") as place:
        second = Path(place) / archive.name
        for tag, file in ((TAG, archive), (again, second)):
            pack(tag, name, file, timestamp)
        digests = [hashlib.file_digest(file.open("rb"), "sha256").hexdigest() for file in (archive, second)]
    say(
        f"  archive {digests[0]}, {'the same twice' if digests[0] == digests[1] else f'and {digests[1]} of a second build'}"
    )
    output("buildah", "rmi", again)


def pack(tag: str, name: str, archive: Path, timestamp: int) -> None:
    """Keep an image as an OCI archive whose bytes depend on its content, and not on when and where it is written."""
    with tempfile.TemporaryDirectory(prefix="lance-flight-layout-") as place:
        output("buildah", "push", "-q", tag, f"oci:{place}/layout:{name}")
        plain = (
            f"--mtime=@{timestamp}",
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--mode=go=rX,u+rw",
        )
        output("tar", *plain, "-cf", archive, "-C", f"{place}/layout", "blobs", "index.json", "oci-layout")


def listed(tag: str) -> Iterator[tuple[str, str]]:
    """Yield every file of an image with its mode, its owner and a digest of its content, or where a link leads."""
    container = output("buildah", "from", "--pull-never", tag)
    try:
        top = Path(output("buildah", "mount", container))
        for file in sorted(top.rglob("*")):
            state = file.lstat()
            is_file = file.is_file() and not file.is_symlink()
            content = str(file.readlink()).encode() if file.is_symlink() else file.read_bytes() if is_file else b""
            yield str(file.relative_to(top)), f"{state.st_mode:o} {state.st_uid} {hashlib.sha256(content).hexdigest()}"
    finally:
        output("buildah", "rm", container)


def build(tag: str, arguments: Sequence[str], *, is_pulled: bool) -> None:
    pulled = [] if is_pulled else ["--pull-never"]
    command = ["buildah", "bud", "--format", "docker", *pulled, *arguments, "-f", str(DOCKERFILE), "-t", tag, str(TOP)]
    begun = time.monotonic()
    output(*command)
    say(f"  {tag} in {time.monotonic() - begun:.0f} s")


@dataclass(frozen=True)
class Image:
    """A built image: where its files are mounted, and its configuration."""

    path: Path
    configuration: Mapping[str, Any]

    @property
    def command(self) -> list[str]:
        return [*self.configuration["Entrypoint"], *self.configuration["Cmd"]]

    @cached_property
    def owner(self) -> str:
        """The number of the image's user."""
        users = dict(re.findall(r"^([\w-]+):[^:]*:(\d+):", (self.path / "etc/passwd").read_text(), re.MULTILINE))
        return users[self.configuration["User"]]

    def start(
        self, command: Sequence[str], binds: Mapping[Path, str], variables: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command as process 1 of a read-only container."""
        environment = dict(pair.split("=", 1) for pair in self.configuration["Env"]) | dict(variables)
        for target in binds.values():
            (self.path / target.lstrip("/")).mkdir(exist_ok=True)
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh",
             *(f"{name}={value}" for name, value in environment.items()), *command],
            env={**os.environ, "IMAGE": str(self.path), "OWNER": self.owner,
                 "BINDS": " ".join(f"{source}:{target}" for source, target in binds.items())},
            text=True, stderr=subprocess.PIPE, **options,
        )  # fmt: skip

    def run(self, command: Sequence[str], binds: Mapping[Path, str], variables: Mapping[str, str]) -> tuple[int, str]:
        """Run a command to its end; its status, and what it prints."""
        with self.start(command, binds, variables, stdout=subprocess.PIPE) as process:
            said, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, said + errors


@contextmanager
def mounted(tag: str) -> Iterator[Image]:
    container = output("buildah", "from", "--pull-never", tag)
    try:
        described = json.loads(output("buildah", "inspect", "--type", "image", tag))
        path = Path(output("buildah", "mount", container))
        # An engine writes the name of the container there, which Java looks up.
        (path / "etc/hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
        yield Image(path, described["Docker"]["config"])
    finally:
        output("buildah", "rm", container)


@dataclass(frozen=True)
class Running:
    """A running container: its process 1, by its number outside, and its ports by their variables."""

    process: int
    ports: Mapping[str, str]

    def connect(self) -> dbapi.Connection:
        return dbapi.connect(f"grpc://127.0.0.1:{self.ports['LANCE_FLIGHT_PORT']}", autocommit=True)

    def value(self, sql: str) -> Any:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()[0]

    def health(self) -> Any:
        with grpc.insecure_channel(f"127.0.0.1:{self.ports['LANCE_FLIGHT_HEALTH_PORT']}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            return stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE).status


def free_ports() -> dict[str, str]:
    """Ports of this machine, whose network the containers share."""
    with ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
        return {name: str(each.getsockname()[1]) for name, each in zip(PORTS, listening, strict=True)}


@contextmanager
def serving(image: Image, data: Path) -> Iterator[Running]:
    """The image's own command, from when it is ready; it is stopped as an engine does it, and must end with 0."""
    ports = free_ports()
    probe = [
        word.replace("9090", ports["LANCE_FLIGHT_ADMIN_PORT"]) for word in image.configuration["Healthcheck"]["Test"]
    ]
    variables = {**ports, "LANCE_FLIGHT_ALLOW_ANONYMOUS": "true"}
    with image.start(image.command, {data: "/data"}, variables, stdout=subprocess.DEVNULL) as process:
        until = time.monotonic() + PATIENCE
        while image.run(probe[1:], {}, {})[0] != 0:
            if process.poll() is not None or time.monotonic() > until:
                assert process.stderr is not None
                sys.exit(f"the server did not become ready: {process.stderr.read()}")
        (inner,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield Running(int(inner), ports)
        os.kill(int(inner), signal.Signals[image.configuration["StopSignal"]])
        status = process.wait(PATIENCE)
        check(truth=status == 0, what=f"{image.configuration['StopSignal']} ends process 1 with status {status}")


def check_confinement(image: Image, process: int) -> None:
    status = dict(re.findall(r"^(\w+):\s+(.*)$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE))
    check(truth=set(status["Uid"].split()) == {image.owner} != {"0"}, what=f"process 1 runs as user {image.owner}")
    check(truth=int(status["CapEff"], 16) == 0, what="without capabilities")
    written, said = image.run(["sh", "-c", "touch /x /app/x /home/lance/x"], {}, {})
    check(truth=written != 0 and "touch" in said, what="the image cannot be written to")


def check_server(image: Image, data: Path) -> None:
    refused, said = image.run(image.command, {data: "/data"}, free_ports())
    check(truth=refused != 0 and "no authentication" in said, what="without authentication it does not start")
    with serving(image, data) as running:
        check(truth=True, what="the health check finds it ready")
        check_confinement(image, running.process)
        check(truth=running.health() == health_pb2.HealthCheckResponse.SERVING, what="the gRPC health service says so")
        rows = pa.table({"id": list(range(1000)), "site": [f"s{number % 4}" for number in range(1000)]})
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE items (id BIGINT, site VARCHAR) PARTITIONED BY (site)")
            stored = cursor.adbc_ingest("items", rows, mode="append")
        check(truth=stored == len(rows), what=f"{stored} rows are stored over ADBC")
        found = running.value("SELECT count(*) FROM items WHERE site = 's1'")
        check(truth=found == len(rows) // 4, what=f"a query over ADBC counts {found}")
    with serving(image, data) as running:
        check(truth=running.value("SELECT count(*) FROM items") == len(rows), what="the next server has them")


def check_spark(image: Image, data: Path) -> None:
    """Run the job of the compose file, twice."""
    service = yaml.safe_load(COMPOSE.read_text())["services"]["spark-job"]
    command = [*service["entrypoint"], *service["command"]]
    for said in ("4 rows in 3 partitions", "nothing was written"):
        status, printed = image.run(command, {data: "/data", TOP / "docker/spark": "/jobs"}, {})
        lines = printed.strip().splitlines()
        check(truth=status == 0 and said in printed, what=next((line for line in lines if said in line), lines[-1]))
    with serving(image, data) as running:
        check(
            truth=running.value("SELECT count(*) FROM readings WHERE site = 'Lima'") == 2,
            what="a server shows its rows",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--spark", action="store_true", help="also build the image with Spark, and run the job of compose.yaml"
    )
    parser.add_argument("--registry", action="store_true", help="pull the base image instead of making it")
    parser.add_argument(
        "--archive",
        type=Path,
        help="keep the image as an OCI archive in this file, and build it a second time to compare",
    )
    parser.add_argument(
        "--timestamp", type=int, default=0, help="time of all files of a kept image, in seconds since 1970"
    )
    options = parser.parse_args()
    dated = [] if options.archive is None else [f"--timestamp={options.timestamp}"]
    with tempfile.TemporaryDirectory(prefix="lance-flight-image-") as name:
        work = Path(name)
        work.chmod(0o755)
        if not options.registry:
            say("base")
            make_base(work)
        say("build")
        build(TAG, dated, is_pulled=options.registry)
        with mounted(TAG) as image:
            data = volume(work / "data", image)
            say(f"run {shlex.join(image.command)}")
            check_server(image, data)
        if options.archive is not None:
            say("build again")
            build_twice(options.archive, options.timestamp)
        if options.spark:
            say("spark")
            arguments = yaml.safe_load(COMPOSE.read_text())["services"]["spark-job"]["build"]["args"]
            build(f"{TAG}-spark", [f"--build-arg={n}={v}" for n, v in arguments.items()], is_pulled=options.registry)
            with mounted(f"{TAG}-spark") as image:
                check_spark(image, data)


def volume(path: Path, image: Image) -> Path:
    """A directory of the image's user, as an engine makes one of the image's own."""
    path.mkdir()
    os.chown(path, int(image.owner), int(image.owner))
    return path


if __name__ == "__main__":
    main()
