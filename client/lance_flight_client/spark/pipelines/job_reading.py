"""Job files and flags on their way into a job: whatever is wrong with them is named at once."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lance_flight.errors import InvalidInput

from lance_flight_client.spark.pipelines.job import FORMATS, PAIRS, SECTIONS, SETTINGS, Job, Setting


def read_job(file: str | None, flags: Mapping[str, Any]) -> Job:
    """Return the job that a file describes, if there is one, and flags by the keys that they stand for.

    None is a flag not given.

    `InvalidInput` names every key that is unknown, missing, or has a value that it cannot have.

    >>> read_job(None, {"source.paths": ["a.csv"], "target.root": "lake", "target.table": "t"}).source.kind
    'csv'
    """
    document = {} if file is None else _document(Path(file))
    given = {key: value for key, value in flags.items() if value is not None}
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
        what = "this job" if file is None else f"job file {file!r}"
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
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
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


def _together(job: Job) -> Iterator[str]:
    """Return what is wrong with settings together."""
    if job.source.kind is None:
        yield f"the endings of source.paths do not tell their format; expected source.format: {', '.join(FORMATS)}"
    if job.write.spread is not None and not job.write.cluster:
        yield "write.spread goes with write.cluster, and that is not on"
