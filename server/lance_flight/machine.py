"""CPU cores, memory and open files that this process may use: those of the machine, or less by control groups (v1, v2)."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import logging
import math
import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

PROCESS = Path("/proc/self")
MOST_FILES = 1 << 20
"""Most open files that are asked for: some systems allow more than a process can keep a list of."""
ARROW_OF_MEMORY = 2
"""Part of a server's memory limit, beside it, that pyarrow's buffers may take: what clients send, and what casts make of it."""
LEAST_ARROW_BYTES = 512 << 20

_MMAP_BYTES, _TRIM_BYTES = 4 << 20, 64 << 20
"""Bytes from which on glibc takes memory from the system for one allocation alone, and those that each of its heaps keeps free."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Numbers of glibc's parameters, by its malloc.h."""
_OF_MIMALLOC = {"MIMALLOC_PURGE_DELAY": "1000", "MIMALLOC_ALLOW_THP": "0"}
"""Milliseconds until mimalloc gives freed memory back, and that it asks for no pages of 2 MiB."""


@dataclass(frozen=True, slots=True)
class ControlGroupLimits:
    """Cores and bytes that the control groups of a process allow; infinite where they set no limit."""

    cores: float = math.inf
    memory: float = math.inf


def control_group_limits(process: Path = PROCESS) -> ControlGroupLimits:
    """The smallest limits of the groups of a process, those above them included; `process` is a directory like /proc/self."""
    cores, memory = [math.inf], [math.inf]
    for group in _groups(process):
        cores += [_quota_v2(group), _quota_v1(group), _cpus(group)]
        memory += [_number(group / name) for name in ("memory.max", "memory.high", "memory.limit_in_bytes")]
    return ControlGroupLimits(cores=min(cores), memory=min(memory))


@dataclass(slots=True)
class Sharing:
    """Number of like processes that share what a machine or its control groups allow, this one included."""

    processes: int = 1


sharing = Sharing()
"""Set before anything heavy is imported: libraries read the number of cores once."""


def cores() -> int:
    """Return the number of cores that this process may keep busy, at least one: a quota of 1.5 counts as two."""
    return max(1, math.ceil(_cores() / sharing.processes))


def memory() -> int:
    """Return the bytes of memory that this process may use."""
    return _memory() // sharing.processes


def raise_file_limit() -> None:
    """Allow this process, and those that it starts, as many open files as it may have.

    A shell's 1,024 are fewer than clients, temporary tables, and the partitions of one ingest take.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def keep_freed_memory() -> None:
    """Let the allocators of this process keep what is freed for the next batch, before anything heavy is imported.

    Queries take and free buffers of megabytes all the time. By default these go back to the system at once, which clears each
    page again before it gives it out: up to a third of the CPU of a query. Variables of the environment that are set win.
    """
    for name, value in _OF_MIMALLOC.items():
        os.environ.setdefault(name, value)
    if "MALLOC_TRIM_THRESHOLD_" in os.environ or "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return
    with contextlib.suppress(AttributeError, OSError):  # another C library than glibc
        set_parameter = ctypes.CDLL(None).mallopt
        set_parameter(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        set_parameter(_M_TRIM_THRESHOLD, _TRIM_BYTES)


def leave(status: int) -> NoReturn:
    """Exit the process at once, after flushing its output and logs.

    The threads of Lance, DataFusion and gRPC go on into the interpreter's own ending, and sometimes wait for it for ever.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def own_memory() -> int:
    """Return the bytes of memory of this process that are no files of the system's; 0 where it does not say."""
    resident, shared, *_ = [*map(int, _text(PROCESS / "statm").split()[1:3]), 0, 0]
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def arrow_memory(server_memory_limit: int) -> int:
    """Return the bytes that pyarrow's buffers may take in a server with such a setting."""
    return max((server_memory_limit or memory() // 2) // ARROW_OF_MEMORY, LEAST_ARROW_BYTES)


def import_bounded_arrow(server_memory_limit: int) -> None:
    """Import pyarrow with a bound on the memory of its buffers, beyond which it raises `pa.ArrowMemoryError`.

    pyarrow decompresses what clients send before our code sees its size. Its allocator, mimalloc, takes all memory from one
    reserved range of addresses, of which only the used part is memory. DataFusion has another mimalloc, which aborts the process
    where memory is refused: it must not see these variables.
    """
    size = f"{arrow_memory(server_memory_limit) >> 20}MiB"
    wanted = {
        "ARROW_DEFAULT_MEMORY_POOL": "mimalloc",
        "MIMALLOC_RESERVE_OS_MEMORY": size,
        "MIMALLOC_ARENA_MAX_OBJECT_SIZE": size,
        "MIMALLOC_DISALLOW_OS_ALLOC": "1",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    importlib.import_module("pyarrow")
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@functools.cache
def _cores() -> float:
    has_affinity = hasattr(os, "sched_getaffinity")
    here = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(here, control_group_limits().cores)


@functools.cache
def _memory() -> int:
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Version 1 says "unlimited" by a number beyond any memory.
    return int(min(here, control_group_limits().memory))


@dataclass(frozen=True, slots=True)
class _Mount:
    """Mounted control-group hierarchy: the group at its root, its directory, and its controllers (v2: none)."""

    group: str
    place: Path
    controllers: frozenset[str]


def _groups(process: Path) -> Iterator[Path]:
    """Yield the directories of the control groups of a process, and of their ancestors as far as they are mounted."""
    mounts = list(_mounts(process))
    for line in _lines(process / "cgroup"):
        _, controllers, group = line.split(":", 2)
        wanted = frozenset(filter(None, controllers.split(",")))
        for mount in mounts:
            if mount.controllers == wanted if not wanted else mount.controllers & wanted:
                yield from _upwards(mount, group)


def _upwards(mount: _Mount, group: str) -> Iterator[Path]:
    # A container may see its own group as the top of the mount, under a path that is the host's.
    inside = group.removeprefix(mount.group) if mount.group != "/" else group
    place = mount.place / inside.strip("/")
    if not place.resolve().is_relative_to(mount.place.resolve()) or not place.is_dir():
        place = mount.place
    yield place
    while place != mount.place:
        place = place.parent
        yield place


def _mounts(process: Path) -> Iterator[_Mount]:
    for line in _lines(process / "mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in {"cgroup", "cgroup2"}:
            group, place = (text.replace("\\040", " ") for text in before.split(" ")[3:5])
            controllers = options.split(",") if kind == "cgroup" else []
            yield _Mount(group=group, place=Path(place), controllers=frozenset(controllers) - {"rw", "ro"})


def _quota_v2(group: Path) -> float:
    """Return the cores that `cpu.max` allows (quota / period, in microseconds); infinite for `max`."""
    quota, *period = _text(group / "cpu.max").split() or ["max"]
    return math.inf if quota == "max" else _ratio(quota, period[0] if period else "100000")


def _quota_v1(group: Path) -> float:
    """Return the cores that `cpu.cfs_quota_us` allows (quota / period, in microseconds); infinite for −1."""
    return _ratio(_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float:
    is_limit = quota.isdigit() and period.isdigit() and int(period) > 0 and int(quota) > 0
    return int(quota) / int(period) if is_limit else math.inf


def _cpus(group: Path) -> float:
    """Return the number of cores in a CPU list like `0-3,8`; infinite if none can be read."""
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        with contextlib.suppress(ValueError):
            spans = [part.partition("-") for part in _text(group / name).split(",") if part]
            if spans:
                return sum(int(last or first) - int(first) + 1 for first, _, last in spans)
    return math.inf


def _number(file: Path) -> float:
    text = _text(file)
    return int(text) if text.isdigit() else math.inf


def _lines(file: Path) -> list[str]:
    return _text(file).splitlines()


def _text(file: Path) -> str:
    """Return the stripped text of a file; an empty string if it cannot be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
