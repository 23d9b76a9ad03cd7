"""`lance-flight rewrite`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.progress import progress

from lance_flight.catalog.maintenance.rewriting import RewritingRules, rewrite
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.cli.maintenance import each_table
from lance_flight.engine.sql.functions import evaluate
from lance_flight.engine.writes.maintenance import tables_where


def run(options: argparse.Namespace) -> int:
    """Rewrite one table, or all."""
    rules = RewritingRules(tables=options.tables_per_commit, rows=options.rows_per_commit).checked()
    return each_table(options, partial(_rewrite, rules, options.where))


def _rewrite(rules: RewritingRules, where: str | None, name: str, namespace: PartitionedNamespace) -> bool:
    choose = None if where is None else tables_where(namespace, where)
    report = rewrite(namespace, evaluate, choose, rules, progress(f"rewriting {name}"))
    print(f"{name}: {report}")
    return True
