"""`lance-flight rewrite`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.terminal import progress

from lance_flight.catalog.maintenance.rewriting import RewritingRules, rewrite
from lance_flight.catalog.namespace import partitioned
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_number, add_tables
from lance_flight.cli.maintenance import each_table
from lance_flight.engine.query.scan_planning import tables_where
from lance_flight.engine.sql.functions import evaluate


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Move rows from partition tables of older partition specs to the current spec, in several commits. Readers and writers"
        " continue. After an interruption the same command resumes."
    )
    add_tables(command)
    command.add_argument(
        "--where",
        metavar="CONDITION",
        help="move partition tables that may hold rows with this condition, over the columns",
    )
    add_number(command, "--tables-per-commit", 256, "maximum number of partition tables that one commit moves")
    add_number(
        command, "--rows-per-commit", 4 << 20, "maximum number of rows that one commit moves, unless one table has more"
    )


def run(options: argparse.Namespace) -> int:
    """Rewrite partitions of one table, or all."""
    rules = RewritingRules(tables=options.tables_per_commit, rows=options.rows_per_commit).checked()
    return each_table(options, partial(_rewrite, rules, options.where), only_partitioned=True)


def _rewrite(rules: RewritingRules, where: str | None, name: str, table: Table) -> bool:
    namespace = partitioned(table)
    choose = None if where is None else tables_where(namespace, where)
    report = rewrite(namespace, evaluate, choose, rules, progress(f"rewriting {name}"))
    print(f"{name}: {report}")
    return True
