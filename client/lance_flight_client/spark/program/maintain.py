"""`compact`, `rewrite`, `verify`, `backfill` and `create-index` of `python -m lance_flight_client.spark`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lance_flight.catalog.maintenance.verification import VerificationReport
from lance_flight.model.operations import OPERATIONS

from lance_flight_client.dataset.portions import store_of
from lance_flight_client.spark import maintenance
from lance_flight_client.spark.ingesting import PROGRESS, plain_errors, session
from lance_flight_client.spark.job import SETTINGS
from lance_flight_client.spark.program import given
from lance_flight_client.terminal import progress

WORK: Mapping[str, tuple[Callable[..., Any], tuple[str, ...], tuple[str, ...]]] = MappingProxyType(
    {
        **{
            name: (
                getattr(maintenance, name),
                (),
                tuple(each.name for each in OPERATIONS[name].arguments if each.of_jobs),
            )
            for name in ("compact", "rewrite", "verify")
        },
        "backfill": (maintenance.backfill, ("column", "expression"), ("data_type",)),
        "create-index": (maintenance.create_index, ("column",), ("kind", "name", "options", "min_rows")),
    }
)
"""Function of each command on a table, with the arguments that it takes by position and by name."""


def run(options: argparse.Namespace) -> int:
    """Maintain a table; the status is 1 where it was looked at and is not sound."""
    flags = {setting.key: given(options, setting) or {} for setting in SETTINGS if hasattr(options, setting.key)}
    storage = flags["target.storage"]
    store_of(options.root, storage)
    # How far the work is, is said in partition tables.
    settings = {PROGRESS: "false", **flags["spark"]}
    work, by_place, by_name = WORK[options.command]
    arguments = [getattr(options, name) for name in by_place]
    named = {name: getattr(options, name) for name in by_name}
    shown = progress(f"{options.command} {options.table}")
    with plain_errors(), session(f"lance-flight {options.command} {options.table}", settings) as spark:
        report = work(spark, options.root, options.table, *arguments, **named, storage=storage, progress=shown)
    unsound = report.unsound if isinstance(report, VerificationReport) else ()
    for table in unsound:
        print(table)
    print(f"{options.table}: {report}")
    return 1 if unsound else 0
