"""Options of a command that are given as NAME=VALUE, several times."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class Pairs(argparse.Action):
    """Collects pairs in a dictionary; the last one of a name counts.

    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--option", action=Pairs, default={}, metavar="NAME=VALUE")
    >>> parser.parse_args(["--option", "metric=cosine", "--option", "num_bits=4"]).option
    {'metric': 'cosine', 'num_bits': '4'}
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Read one more pair."""
        name, sign, value = str(values).partition("=")
        if not (name and sign and value):
            raise argparse.ArgumentError(self, f"{values!r} is no option; expected NAME=VALUE")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), name: value})
