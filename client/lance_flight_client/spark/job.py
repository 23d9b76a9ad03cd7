"""A job that ingests files, as one value, read from a job file and flags: each setting stands once, for files, flags and help.

A setting is a key in a section of a job file (`[source]`, `[target]`, `[write]`), and a flag of the command line.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from lance_flight.errors import InvalidInput

from lance_flight_client.spark.options import STORAGE

ENDINGS: Mapping[str, str] = MappingProxyType(
    {
        ".parquet": "parquet",
        ".csv": "csv",
        ".json": "json",
        ".jsonl": "json",
        ".ndjson": "json",
    }
)
"""The endings of files, and the format that each of them stands for."""

COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate"})
FORMATS = tuple(dict.fromkeys(ENDINGS.values()))
MODES = (APPEND, OVERWRITE, OVERWRITE_TABLE, MERGE) = ("append", "overwrite", "overwrite table", "merge")


@dataclass(frozen=True, slots=True)
class SettingType:
    """Values of a setting: `read` gives them as a job has them, and None for anything else."""

    metavar: str
    expected: str
    read: Callable[[Any], Any]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _texts(value: Any) -> tuple[str, ...] | None:
    listed = [value] if isinstance(value, str) else value
    return tuple(listed) if isinstance(listed, list) and listed and all(map(_text, listed)) else None


def _switch(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def _pairs(value: Any) -> dict[str, str] | None:
    """Pairs as Spark takes them: texts, and names with dots, which TOML reads as tables in tables."""
    if not isinstance(value, dict):
        return None
    flat: dict[str, str] = {}
    for name, item in value.items():
        inner = _pairs(item)
        if inner is not None:
            flat |= {f"{name}.{rest}": text for rest, text in inner.items()}
        elif isinstance(item, str | int | float):
            flat[name] = str(item).lower() if isinstance(item, bool) else str(item)
        else:
            return None
    return flat


def _one_of(words: tuple[str, ...]) -> SettingType:
    return SettingType("|".join(words), f"one of {', '.join(words)}", lambda value: value if value in words else None)


TEXT = SettingType("TEXT", "a text", _text)
SQL = SettingType("SQL", "SQL as a text", _text)
NAMES = SettingType("COLUMN", "the name of a column, or a list of them", _texts)
PATHS = SettingType("PATH", "a path, or a list of them", _texts)
EXPRESSIONS = SettingType("SQL", "an SQL expression, or a list of them", _texts)
COUNT = SettingType("N", "a whole number from 1 on", _count)
SWITCH = SettingType("", "true or false", _switch)
PAIRS = SettingType("KEY=VALUE", "names, each with a text, a number, true or false", _pairs)


def _setting(kind: SettingType, flag: str, means: str, *, is_secret: bool = False, **default: Any) -> Any:
    metadata = {"kind": kind, "flag": flag, "means": means, "is_secret": is_secret}
    return field(repr=not is_secret, metadata=metadata, **default)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSource:
    """The rows of a job: files that Spark reads, and what becomes of their columns."""

    paths: tuple[str, ...] = _setting(PATHS, "--source", "files, directories or globs that Spark reads")
    format: str | None = _setting(
        _one_of(FORMATS), "--format", "format of the files (default: by their extension)", default=None
    )
    schema: str | None = _setting(
        SQL, "--schema", "the columns of the files, as in Spark's SQL (id BIGINT, day DATE)", default=None
    )
    options: Mapping[str, str] = _setting(
        PAIRS,
        "--option",
        "an option of Spark's reader (header=true); rows that cannot be read fail",
        default_factory=dict,
    )
    where: str | None = _setting(
        SQL, "--where", "the condition that rows must fulfil, over the files' columns", default=None
    )
    columns: tuple[str, ...] = _setting(
        EXPRESSIONS,
        "--column",
        "what is stored: a column, or an expression with a name (*, year(at) AS y)",
        default=("*",),
    )

    @property
    def kind(self) -> str | None:
        """The format of the files; None where it is not given, and their endings do not tell.

        >>> JobSource(paths=("in/*.csv.gz",)).kind, JobSource(paths=("a.csv", "b.json")).kind
        ('csv', None)
        """
        told = {ENDINGS.get(_ending(path)) for path in self.paths}
        return self.format or (told.pop() if len(told) == 1 else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTarget:
    """The table that the rows of a job go to."""

    root: str = _setting(TEXT, "--root", "the directory or object-store URI of the tables")
    table: str = _setting(TEXT, "--table", "table to read: name or schema.name, quoted if a part contains a dot")
    partition_by: str | None = _setting(
        SQL, "--partition-by", "how it is partitioned if it has to be made (month(at), bucket(16, id))", default=None
    )
    stable_row_ids: bool = _setting(
        SWITCH, "--stable-row-ids", "whether the rows of a table that has to be made keep their ids", default=False
    )
    file_version: str | None = _setting(
        TEXT, "--file-version", "the version of Lance's file format if it has to be made: 2.0, 2.1 or 2.2", default=None
    )
    storage: Mapping[str, str] = _setting(
        PAIRS, "--storage", "how the object store is reached (aws_region=…)", is_secret=True, default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Settings of how a job writes its rows."""

    mode: str = _setting(
        _one_of(MODES),
        "--mode",
        "append, overwrite (the partitions that get rows), overwrite table (all rows), or merge (the rows of equal keys)",
        default=APPEND,
    )
    commit_id: str | None = _setting(
        TEXT, "--commit-id", "a name for this job: it is committed once, however often it is run", default=None
    )
    cluster: bool = _setting(
        SWITCH, "--cluster", "bring the rows of a partition together first: fewer files, for a shuffle", default=False
    )
    spread: int | None = _setting(
        COUNT, "--spread", "with cluster: how many tasks share the rows of one partition", default=None
    )
    keys: tuple[str, ...] = _setting(
        NAMES, "--key", "with mode merge: a column by whose values a row takes the place of another one", default=()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Description of an ingestion: its sources, its target and how it writes; `spark` are settings of the session."""

    source: JobSource
    target: JobTarget
    write: Write = field(default_factory=Write)
    spark: Mapping[str, str] = _setting(
        PAIRS, "--conf", "a setting of Spark's (spark.master=local[4])", is_secret=True, default_factory=dict
    )

    @property
    def write_mode(self) -> str:
        """The mode as Spark has it."""
        return OVERWRITE if self.write.mode in {OVERWRITE, OVERWRITE_TABLE} else APPEND

    @property
    def source_digest(self) -> str:
        """Digest of the rows of a job: of its files, and of what becomes of their columns."""
        given = dataclasses.asdict(self.source) | {"options": dict(self.source.options)}
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def write_options(self) -> dict[str, str]:
        """The options of `df.write.format("lance_flight")`."""
        options = {
            "root": self.target.root,
            "table": self.target.table,
            "partition_by": self.target.partition_by,
            "stable_row_ids": "true" if self.target.stable_row_ids else None,
            "file_version": self.target.file_version,
            "overwrite": "table" if self.write.mode == OVERWRITE_TABLE else None,
            "commit_id": self.write.commit_id,
            "commit_source": None if self.write.commit_id is None else self.source_digest,
        }
        storage = {f"{STORAGE}{name}": text for name, text in self.target.storage.items()}
        return {name: text for name, text in options.items() if text is not None} | storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting as job files and the command line have it: `section` is empty for one that is a section itself."""

    section: str
    name: str
    kind: SettingType
    flag: str
    means: str
    is_secret: bool
    is_required: bool

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name


SECTIONS: Mapping[str, type[Any]] = MappingProxyType({"source": JobSource, "target": JobTarget, "write": Write})


def _settings(section: str, kind: type[Any]) -> list[Setting]:
    return [
        Setting(
            section=section,
            name=field.name,
            is_required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            **field.metadata,
        )
        for field in dataclasses.fields(kind)
        if field.metadata
    ]


SETTINGS = (
    *(setting for section, kind in SECTIONS.items() for setting in _settings(section, kind)),
    *_settings("", Job),
)
"""Every setting, in the order of a job file."""


def _ending(path: str) -> str:
    suffixes = PurePosixPath(path.lower()).suffixes
    return next((ending for ending in reversed(suffixes) if ending not in COMPRESSED), "")


STEPS = "steps"
"""Key of a job file with several jobs, `[[steps]]`, each of which has what stands outside of them and its own."""


def read_job(file: str | None, flags: Mapping[str, Any]) -> Job:
    """Return the one job that a file describes, if there is one, and flags; errors as of `read_jobs`.

    >>> read_job(None, {"source.paths": ["a.csv"], "target.root": "lake", "target.table": "t"}).source.kind
    'csv'
    """
    job, *others = read_jobs(file, flags)
    if others:
        raise InvalidInput(f"job file {file!r} has {len(others) + 1} steps; expected one job")
    return job


def read_jobs(file: str | None, flags: Mapping[str, Any]) -> list[Job]:
    """Return the jobs that a file describes, if there is one, and flags by the keys that they stand for.

    None is a flag not given.

    `InvalidInput` names every key that is unknown, missing, or has a value that it cannot have.
    """
    document = {} if file is None else _document(Path(file))
    given = {key: value for key, value in flags.items() if value is not None}
    what = "this job" if file is None else f"job file {file!r}"
    steps = document.pop(STEPS, [{}])
    if not (isinstance(steps, list) and steps and all(isinstance(step, dict) for step in steps)):
        raise InvalidInput(f"{what}: {STEPS} is no list of steps; expected [[{STEPS}]], and [{STEPS}.source] below it")
    if any("spark" in step for step in steps):
        raise InvalidInput(f"{what}: [{STEPS}.spark]; expected one [spark], as all steps run in one session")
    return [
        _read(_overlaid(document, step), given, what if len(steps) == 1 else f"{what}: step {number}")
        for number, step in enumerate(steps, start=1)
    ]


def _overlaid(document: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a step: keys of its sections go before those outside.

    >>> _overlaid({"write": {"mode": "append"}, "target": {"root": "lake"}}, {"target": {"table": "t"}})
    {'write': {'mode': 'append'}, 'target': {'root': 'lake', 'table': 't'}}
    """
    both = {
        name: {**document[name], **step[name]}
        for name in document.keys() & step.keys()
        if _are_sections(document[name], step[name])
    }
    return {**document, **step, **both}


def _are_sections(*contents: object) -> bool:
    return all(isinstance(content, dict) for content in contents)


def _read(document: Mapping[str, Any], given: Mapping[str, Any], what: str) -> Job:
    reading = _Reading(document, given, list(_unknown(document)))
    values = {setting.key: reading.value(setting) for setting in SETTINGS}
    parts = {
        section: {s.name: values[s.key] for s in SETTINGS if s.section == section and values[s.key] is not None}
        for section in ("", *SECTIONS)
    }
    if not reading.problems:
        job = Job(**{name: SECTIONS[name](**parts[name]) for name in SECTIONS}, **parts[""])
        reading.problems.extend(_together(job))
    if reading.problems:
        raise InvalidInput(f"{what}: " + "; ".join(reading.problems))
    return job


@dataclass(frozen=True, slots=True)
class _Reading:
    """A document and flags, and what was wrong with their values."""

    document: Mapping[str, Any]
    flags: Mapping[str, Any]
    problems: list[str] = field(default_factory=list)

    def value(self, setting: Setting) -> Any:
        """Return the value of a setting, or None if it is not given or has a problem."""
        section = self.document.get(setting.section, {}) if setting.section else self.document
        said = section.get(setting.name) if isinstance(section, dict) else None
        written = None if said is None else self._read(setting, setting.key, said)
        flag = self.flags.get(setting.key)
        asked = None if flag is None else self._read(setting, setting.flag, flag)
        if setting.is_required and said is None and flag is None:
            self.problems.append(f"expected {setting.key} ({setting.flag}): {setting.means}")
        if setting.kind == PAIRS and asked is not None:
            return {**(written or {}), **asked}
        return written if asked is None else asked

    def _read(self, setting: Setting, place: str, value: Any) -> Any:
        found = setting.kind.read(value)
        if found is None:
            said = "holds what cannot be shown here" if setting.is_secret else f"is {value!r}"
            self.problems.append(f"{place} {said}; expected {setting.kind.expected}")
        return found


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as exc:
        raise InvalidInput(
            f"job file {str(path)!r} cannot be read: {exc}; expected TOML, as [source] and paths = 'in/*.csv' below it"
        ) from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidInput(f"job file {str(path)!r} cannot be read: {exc}") from exc


def _unknown(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield sections and keys that no job has."""
    known = [*SECTIONS, *(setting.name for setting in SETTINGS if not setting.section)]
    for section, content in document.items():
        if section not in known:
            yield f"no section [{section}]; {_near(section, known)}"
        elif section in SECTIONS and not isinstance(content, dict):
            yield f"{section} is {content!r}; expected the section [{section}]"
        elif section in SECTIONS:
            names = [setting.name for setting in SETTINGS if setting.section == section]
            yield from (f"no key {section}.{name}; {_near(name, names)}" for name in content if name not in names)


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else f"expected {', '.join(known)}"


_MASTER = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?|local-cluster\[[\d,\s]+\]|yarn|(spark|k8s)://\S+")
_MASTERS = "local, local[4], local[*], spark://host:7077, k8s://https://host:443 or yarn"


def _together(job: Job) -> Iterator[str]:
    """Return what is wrong with settings together."""
    if job.source.kind is None:
        yield f"the endings of source.paths do not tell their format; expected source.format: {', '.join(FORMATS)}"
    master = job.spark.get("spark.master", "local")
    if _MASTER.fullmatch(master) is None:
        # Spark would say so with a hundred lines of its own, and end.
        yield f"spark.master is {master!r}; expected {_MASTERS}"
    if (job.write.mode == MERGE) != bool(job.write.keys):
        yield "write.keys goes with write.mode = 'merge', and that with it"
    if job.write.mode == MERGE and (job.write.commit_id is not None or job.write.cluster):
        # A merge that runs again finds its own rows.
        yield "write.mode = 'merge' goes without write.commit_id and write.cluster"
    if job.write.spread is not None and not job.write.cluster:
        yield "write.spread goes with write.cluster, and that is not on"
