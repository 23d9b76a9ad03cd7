"""The dependencies of a release, extras included, with their licences: as an SBOM (CycloneDX 1.5) and as a text.

Which they are is in uv.lock; licences are in what is installed. What is not installed here (for another platform, or in a second
version) is fetched by itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

from checkout import Checkout, ReleaseError

_OF_LICENCES = re.compile(r"(?i)(?:^|/)(?:licen[cs]es?|copying|notice|authors)(?:[-.][\w.-]+)?(?:/[^/]+)?$")
"""Matches the files of a package that hold its licence."""
_LONGEST_NAME = 60
"""Characters of a licence's name: some packages have the whole text in its place."""
_ELSEWHERE = ((), ("--python-version", "3.13"), ("--python-platform", "windows"))
"""Where a package is for that the lock file has and that cannot be installed here: the newest Python, another system."""
_CLASSIFIER = "License :: "
_UNTOLD = frozenset({"", "UNKNOWN", "Dual License", "OSI Approved"})
"""What some packages say of their licence that says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """Licence of a package: an SPDX expression or a name, and the texts in the package."""

    name: str
    is_expression: bool
    texts: tuple[str, ...]

    @classmethod
    def of(cls, found: Distribution) -> Licence | None:
        """Return what a package says of its licence; None where it says nothing."""
        said: Message = found.metadata  # type: ignore[assignment]
        expression = said.get("License-Expression", "")
        own = said.get("License", "").strip()
        classified = [
            line.removeprefix(_CLASSIFIER).removeprefix("OSI Approved :: ")
            for line in said.get_all("Classifier", [])
            if line.startswith(_CLASSIFIER)
        ]
        named = [own] if len(own) <= _LONGEST_NAME and "\n" not in own else []
        name = expression or next(
            (each for each in [*named, " or ".join(c for c in classified if c not in _UNTOLD)] if each not in _UNTOLD),
            "",
        )
        return cls(name=name, is_expression=bool(expression), texts=tuple(_texts(found))) if name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What a release depends on: the SBOM that uv makes of the lock file, and the licence of each component by its reference."""

    checkout: Checkout
    bill: Mapping[str, Any]
    found: Mapping[str, Licence]

    @classmethod
    def of(cls, checkout: Checkout, work: Path) -> Dependencies:
        """Read the lock file and the licences; `ReleaseError` names packages that say nothing of theirs."""
        ended = subprocess.run(
            ["uv", "export", "--locked", "--format", "cyclonedx1.5", "--no-default-groups", "--all-extras",
             "--preview-features", "sbom-export", "--quiet"],
            cwd=checkout.path, check=False, capture_output=True, text=True,
        )  # fmt: skip
        if ended.returncode:
            raise ReleaseError(f"uv export failed: {ended.stderr.strip()}")
        bill = json.loads(ended.stdout)
        found = {each["bom-ref"]: Licence.of(_installed(each, work)) for each in bill["components"]}
        silent = [reference for reference, licence in found.items() if licence is None]
        if silent:
            raise ReleaseError(
                f"{', '.join(silent)}: the packages do not say what their licence is; expected it, or another package"
            )
        return cls(
            checkout=checkout, bill=bill, found={ref: licence for ref, licence in found.items() if licence is not None}
        )

    @property
    def components(self) -> list[Mapping[str, Any]]:
        """The packages, as the lock file has them."""
        return list(self.bill["components"])

    def sbom(self) -> bytes:
        """Return the bill of materials, with licences, of the time and the number that follow from the commit."""
        components = [{**each, "licenses": [_as_choice(self.found[each["bom-ref"]])]} for each in self.components]
        made = {
            **self.bill,
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'lance-flight@{self.checkout.commit}')}",
            "metadata": {
                **self.bill["metadata"],
                "timestamp": datetime.fromtimestamp(self.checkout.epoch, UTC).isoformat(),
            },
            "components": components,
        }
        return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()

    def licences(self) -> str:
        """Return a table of all licences, and the texts that the packages have."""
        packages = [(f"{each['name']} {each['version']}", self.found[each["bom-ref"]]) for each in self.components]
        widest = max(len(name) for name, _ in packages)
        table = "\n".join(f"{name:<{widest}}  {licence.name}" for name, licence in packages)
        texts = "\n".join(f"{'=' * 80}\n{name}: {licence.name}\n\n{_all(licence)}\n" for name, licence in packages)
        return f"Licences of what lance-flight {self.checkout.version} depends on, all extras included.\n\n{table}\n\n{texts}"


def _installed(component: Mapping[str, Any], work: Path) -> Distribution:
    """Return a package that is installed in this version, or fetch it."""
    name, version = component["name"], component["version"]
    try:
        found = distribution(name)
    except PackageNotFoundError:
        found = None
    return (
        found
        if found is not None and found.version == version
        else _fetched(f"{name}=={version}", work / "fetched" / f"{name}-{version}")
    )


def _fetched(requirement: str, place: Path) -> Distribution:
    for elsewhere in _ELSEWHERE:
        command = [
            "uv",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--target",
            str(place),
            *elsewhere,
            requirement,
        ]
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            return next(iter(distributions(path=[str(place)])))
    raise ReleaseError(
        f"{requirement} is neither installed nor to be had; expected `uv sync --group dev` in the checkout"
    )


def _texts(found: Distribution) -> Iterator[str]:
    for file in sorted(found.files or [], key=str):
        inside = str(file).partition(".dist-info/")[2]
        if inside and _OF_LICENCES.search(inside):
            yield Path(str(file.locate())).read_text(errors="replace").strip()


def _all(licence: Licence) -> str:
    return "\n\n".join(licence.texts) or "(The package has no text of it.)"


def _as_choice(licence: Licence) -> Mapping[str, Any]:
    return {"expression": licence.name} if licence.is_expression else {"license": {"name": licence.name}}
