"""Arguments of the commands that create an index, here and on Spark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def add_index_arguments(command: argparse.ArgumentParser, kinds: str) -> None:
    """Add the column, `kind`, `name`, `options` and `min_rows`; `kinds` says which kinds there are.

    >>> parser = argparse.ArgumentParser()
    >>> add_index_arguments(parser, "those of CREATE INDEX")
    >>> given = parser.parse_args(["v", "--kind", "ivf_pq", "--option", "metric=cosine", "--option", "num_bits=4"])
    >>> given.column, given.kind, given.options
    ('v', 'ivf_pq', {'metric': 'cosine', 'num_bits': '4'})
    """
    command.add_argument("column", metavar="COLUMN", help="the column that is indexed")
    command.add_argument("--kind", default="btree", metavar="KIND", help=f"{kinds} (default: %(default)s)")
    command.add_argument("--name", metavar="NAME", help="what the index is called (default: COLUMN_idx)")
    command.add_argument(
        "--option",
        dest="options",
        action=_Pairs,
        default={},
        metavar="NAME=VALUE",
        help="one of those in WITH (…), as metric=cosine; may be given several times",
    )
    command.add_argument(
        "--min-rows", type=int, metavar="N", help="tables with fewer rows do without (default: as is good for the kind)"
    )


class _Pairs(argparse.Action):
    """Collects pairs in a dictionary; the last one of a name counts."""

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
