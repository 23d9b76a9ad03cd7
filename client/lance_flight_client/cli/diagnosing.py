"""Findings about a root, printed as they are made."""

from __future__ import annotations

import argparse
import sys

from lance_flight.catalog.maintenance.diagnosis import Level, RootFinding, diagnose
from lance_flight.catalog.roots.directory import Root

from lance_flight_client.cli.inspecting import existing_root
from lance_flight_client.terminal import draw

_MARKS = {Level.OK: "✓", Level.WARNING: "!", Level.ERROR: "✗"}
_COLOURS = {Level.OK: "\033[32m", Level.WARNING: "\033[33m", Level.ERROR: "\033[31m"}
_PLAIN = "\033[0m"


def diagnose_root(options: argparse.Namespace) -> int:
    """Print the findings about a root as they are made."""
    levels = set()
    for finding in diagnose(Root(existing_root(options.root))):
        levels.add(finding.level)
        show(finding)
    return 1 if Level.ERROR in levels else 0


def show(finding: RootFinding) -> None:
    """Print a finding with a mark for its level, and what to do."""
    mark = _MARKS[finding.level]
    if sys.stdout.isatty():
        draw(f"{_COLOURS[finding.level]}{mark}{_PLAIN}", sys.stdout)
        mark = ""
    advice = f"\n    {finding.advice}" if finding.advice else ""
    print(f"{mark} {finding.subject}: {finding.text}{advice}", flush=True)
