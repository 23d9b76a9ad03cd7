"""`lance-flight config`."""

from __future__ import annotations

import argparse

from lance_flight import config, config_sources
from lance_flight.cli.arguments import add_settings


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = "Print the configuration that `serve` uses with the same options, as a configuration file, with the source of each value."
    add_settings(command)


def run(options: argparse.Namespace) -> int:
    """Print the effective configuration, and fail where `serve` would refuse it."""
    given = {setting.name: getattr(options, setting.name) for setting in config.settings()}
    found = config_sources.sources(given, file=options.config)
    print(config_sources.as_toml(found), flush=True)
    config_sources.merged(found).checked()
    return 0
