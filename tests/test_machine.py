"""Limits of control groups, read from trees like those that kernels and containers show."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from lance_flight import machine
from lance_flight.config import ServerConfig
from lance_flight.machine import MOST_FILES, ControlGroupLimits, control_group_limits
from lance_flight.serving import service
from lance_flight_client.cli import main

GIB = 1 << 30
UNLIMITED_V1 = "9223372036854771712"
V2 = "31 23 0:28 {group} {place}/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate"
V1 = "3{n} 23 0:2{n} {group} {place}/{name} rw,relatime - cgroup cgroup rw,{controllers}"


def v1(n: int, name: str, group: str = "/", controllers: str | None = None) -> str:
    return V1.format(n=n, name=name, group=group, controllers=controllers or name, place="{place}")


def tree(place: Path, groups: str, mounts: str, files: Mapping[str, str]) -> Path:
    """A directory like /proc/self, and the hierarchies that it names."""
    process = place / "proc"
    process.mkdir()
    (process / "cgroup").write_text(groups)
    other = "22 1 0:1 / / rw - ext4 /dev/root rw\n"
    (process / "mountinfo").write_text(other + mounts.replace("{place}", str(place).replace(" ", "\\040")))
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text + "\n")
    return process


CASES = [
    pytest.param("", "", {}, ControlGroupLimits(), id="no control groups"),
    pytest.param("0::/\n", "", {}, ControlGroupLimits(), id="none mounted"),
    pytest.param(
        "0::/\n", V2.format(group="/", place="{place}"),
        {"cgroup/memory.max": str(4 * GIB), "cgroup/cpu.max": "200000 100000"},
        ControlGroupLimits(cores=2.0, memory=4 * GIB), id="v2, a container",
    ),
    pytest.param(
        "0::/a/b\n", V2.format(group="/", place="{place}"),
        {"cgroup/a/memory.max": str(2 * GIB), "cgroup/a/b/memory.max": str(8 * GIB),
         "cgroup/a/cpu.max": "max 100000", "cgroup/a/b/cpu.max": "150000 100000"},
        ControlGroupLimits(cores=1.5, memory=2 * GIB), id="v2, nested, the outer one smaller",
    ),
    pytest.param(
        "0::/a/b\n", V2.format(group="/", place="{place}"),
        {"cgroup/a/memory.max": str(8 * GIB), "cgroup/a/b/memory.max": str(2 * GIB), "cgroup/a/cpu.max": "100000 100000",
         "cgroup/a/b/cpu.max": "max 100000"},
        ControlGroupLimits(cores=1.0, memory=2 * GIB), id="v2, nested, the inner one smaller",
    ),
    pytest.param(
        "0::/a\n", V2.format(group="/", place="{place}"),
        {"cgroup/a/memory.max": "max", "cgroup/a/cpu.max": "max 100000", "cgroup/a/cpuset.cpus.effective": ""},
        ControlGroupLimits(), id="v2, max",
    ),
    pytest.param(
        "0::/a\n", V2.format(group="/", place="{place}"), {"cgroup/a/memory.high": str(GIB), "cgroup/a/memory.max": "max"},
        ControlGroupLimits(memory=GIB), id="v2, throttled before its limit",
    ),
    pytest.param(
        "0::/a\n", V2.format(group="/", place="{place}"), {"cgroup/a/cpuset.cpus.effective": "0-2,5,8-9"},
        ControlGroupLimits(cores=6), id="v2, a set of cores",
    ),
    pytest.param(
        "0::/docker/abc\n", V2.format(group="/", place="{place}"), {"cgroup/memory.max": str(GIB)},
        ControlGroupLimits(memory=GIB), id="v2, a path of the host's",
    ),
    pytest.param(
        "0::/../../other\n", V2.format(group="/", place="{place}"),
        {"cgroup/memory.max": str(GIB), "other/memory.max": "1"}, ControlGroupLimits(memory=GIB), id="v2, a path above the mount",
    ),
    pytest.param(
        "0::/pod/one\n", V2.format(group="/pod", place="{place}"), {"cgroup/one/memory.max": str(GIB)},
        ControlGroupLimits(memory=GIB), id="v2, a mount of a group",
    ),
    pytest.param(
        "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n",
        "\n".join([v1(1, "memory"), v1(2, "cpu", controllers="cpu,cpuacct")]),
        {"memory/docker/memory.limit_in_bytes": UNLIMITED_V1, "memory/docker/abc/memory.limit_in_bytes": str(4 * GIB),
         "cpu/docker/abc/cpu.cfs_quota_us": "50000", "cpu/docker/abc/cpu.cfs_period_us": "100000"},
        ControlGroupLimits(cores=0.5, memory=4 * GIB), id="v1",
    ),
    pytest.param(
        "4:memory:/docker/abc\n3:cpu:/docker/abc\n", "\n".join([v1(1, "memory", "/docker/abc"), v1(2, "cpu", "/docker/abc")]),
        {"memory/memory.limit_in_bytes": str(GIB), "cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"},
        ControlGroupLimits(cores=3.0, memory=GIB), id="v1, in a container",
    ),
    pytest.param(
        "4:memory:/\n3:cpu:/\n2:cpuset:/\n", "\n".join([v1(1, "memory"), v1(2, "cpu"), v1(3, "cpuset")]),
        {"memory/memory.limit_in_bytes": UNLIMITED_V1, "cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000",
         "cpuset/cpuset.cpus": "0-63"},
        ControlGroupLimits(cores=64, memory=int(UNLIMITED_V1)), id="v1, unlimited",
    ),
    pytest.param(
        "4:memory:/a\n0::/b\n", "\n".join([v1(1, "memory"), V2.format(group="/", place="{place}")]),
        {"memory/a/memory.limit_in_bytes": str(2 * GIB), "cgroup/b/cpu.max": "400000 100000", "cgroup/a/cpu.max": "1 1000"},
        ControlGroupLimits(cores=4.0, memory=2 * GIB), id="both versions",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("groups", "mounts", "files", "limits"), CASES)
def test_the_smallest_limit_counts(
    tmp_path: Path, groups: str, mounts: str, files: Mapping[str, str], limits: ControlGroupLimits
) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    assert control_group_limits(tree(place, groups, mounts, files)) == limits


def test_a_server_takes_its_defaults_from_what_it_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"cgroup/memory.max": str(4 * GIB), "cgroup/cpu.max": "50000 100000"}
    process = tree(tmp_path, "0::/\n", V2.format(group="/", place="{place}"), files)
    limits = control_group_limits(process)
    monkeypatch.setattr(machine, "control_group_limits", lambda: limits)
    machine._cores.cache_clear()
    machine._memory.cache_clear()
    try:
        assert machine.cores() == 1
        assert machine.memory() <= 4 * GIB
        given = service.limits_of(ServerConfig())
        assert given.server_memory == machine.memory() // 2 <= 2 * GIB
        assert given.write_memory == given.server_memory // 8
        assert service.limits_of(ServerConfig(server_memory_limit=64 << 20)).write_memory == 0
        assert given.running_statements == service.LEAST_RUNNING
        sizes = service.caches_of(ServerConfig())
        assert (sizes.indices, sizes.metadata) == (machine.memory() // 16, min(512 << 20, machine.memory() // 32))
        set_by_hand = service.caches_of(ServerConfig(index_cache=1 << 20, metadata_cache=2 << 20))
        assert (set_by_hand.indices, set_by_hand.metadata) == (1 << 20, 2 << 20)
    finally:
        machine._cores.cache_clear()
        machine._memory.cache_clear()


def test_this_machine_has_limits_that_can_be() -> None:
    assert machine.cores() >= 1
    assert 1 << 26 < machine.memory() < math.inf


def test_a_command_may_open_as_many_files_as_its_user_may() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        assert main(["config"]) == 0
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, MOST_FILES), hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


FAULTS = """
import ctypes, resource, sys
from lance_flight.machine import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    places = [libc.malloc(3 << 20) for _ in range(8)]
    for place in places:
        libc.memset(place, 1, 3 << 20)
    for place in places:
        libc.free(place)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize("given", ["2", "many"])
def test_a_number_of_workers_that_was_set_for_other_programs_holds_up_no_query(given: str) -> None:
    """With fewer workers than lanes wait for, each partition-wise query waits until that is given up."""
    code = "import os, lance_flight.engine as engine; print(os.environ['TOKIO_WORKER_THREADS'] == str(engine.WORKERS))"
    environment = {**os.environ, "TOKIO_WORKER_THREADS": given}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout == "True\n"


def test_freed_memory_is_used_again() -> None:
    """A page that was given back to the system is a fault when it is written anew."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    kept, given_back = (
        int(
            subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True, env=environment).stdout
        )
        for how in ("kept", "given back")
    )
    of_a_round = 8 * (3 << 20) // os.sysconf("SC_PAGE_SIZE")
    assert kept < 2 * of_a_round < 10 * of_a_round < given_back
