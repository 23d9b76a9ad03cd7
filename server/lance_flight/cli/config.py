"""`lance-flight config`."""

from __future__ import annotations

import argparse

from lance_flight import config


def run(options: argparse.Namespace) -> int:
    """Print the effective configuration."""
    given = {setting.name: getattr(options, setting.name) for setting in config.settings()}
    print(config.as_toml(config.sources(given, file=options.config)))
    return 0
