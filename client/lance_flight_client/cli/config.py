"""`lance-flight config`."""

from __future__ import annotations

import argparse
import importlib

from lance_flight import config

from lance_flight_client.cli.arguments import add_settings


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Print the configuration that `serve` uses with the same options, as a configuration file, with the source of each value; or"
        " check what it names before a start or a reload. The exit status of a check is 1 if anything cannot be used."
    )
    command.add_argument(
        "--check",
        action="store_true",
        help="check instead of printing: users, tokens, keys, policies, certificates, directories, and the root if one is given",
    )
    command.add_argument(
        "--root", metavar="ROOT", default="", help="directory or object store that --check is to look at"
    )
    command.epilog = "Examples: lance-flight config --port 4000; lance-flight config --check --config server.toml --root s3://bucket/lake"
    add_settings(command)


def run(options: argparse.Namespace) -> int:
    """Print the effective configuration or check what it names, and fail where `serve` would refuse it."""
    given = {setting.name: getattr(options, setting.name) for setting in config.settings()}
    sources = config.sources(given, file=options.config)
    if not options.check:
        print(config.as_toml(sources), flush=True)
    settings = config.merge_sources(sources).check()
    return _check(settings, options.root) if options.check else 0


def _check(settings: config.ServerConfig, root: str) -> int:
    checks = importlib.import_module("lance_flight.serving.service")
    doctor = importlib.import_module("lance_flight_client.cli.inspecting")
    has_errors = False
    for finding in checks.checks(settings, root):
        doctor.show(finding)
        has_errors |= finding.level is checks.Level.ERROR
    if not has_errors:
        print("the configuration can be used", flush=True)
    return int(has_errors)
