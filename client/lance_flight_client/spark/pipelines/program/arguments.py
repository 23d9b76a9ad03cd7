"""Flags as the values of settings."""

from __future__ import annotations

import argparse
from typing import Any

from lance_flight.errors import InvalidInput

from lance_flight_client.spark.pipelines.job import PAIRS, Setting


def given(options: argparse.Namespace, setting: Setting) -> Any:
    """Return what a flag says of a setting; None if it was not given.

    >>> from lance_flight_client.spark.pipelines.job import SETTINGS
    >>> conf = next(setting for setting in SETTINGS if setting.flag == "--conf")
    >>> given(argparse.Namespace(spark=["spark.master=local[2]"]), conf)
    {'spark.master': 'local[2]'}
    """
    value = getattr(options, setting.key)
    return value if value is None or setting.kind != PAIRS else dict(pair(setting.flag, text) for text in value)


def pair(flag: str, text: str) -> tuple[str, str]:
    """Return the name and the value of a flag `KEY=VALUE`; `InvalidInput` for anything else."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        # What is given may be a secret.
        raise InvalidInput(f"{flag} has no name and value; expected KEY=VALUE")
    return name.strip(), value
