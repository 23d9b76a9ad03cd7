"""The operations of Spark, and `backfill`, of `python -m lance_flight_client.spark`."""

from __future__ import annotations

import argparse

from lance_flight.model.operations import OPERATIONS, given_arguments

from lance_flight_client.dataset.portions import store_of
from lance_flight_client.spark import maintenance
from lance_flight_client.spark.ingesting import PROGRESS, plain_errors, session
from lance_flight_client.spark.job import SETTINGS
from lance_flight_client.spark.program import value_of_flag
from lance_flight_client.terminal import TableMeter


def run(options: argparse.Namespace) -> int:
    """Maintain a table; the status is 1 where it was looked at and is not sound."""
    flags = {
        setting.key: value_of_flag(options, setting) or {} for setting in SETTINGS if hasattr(options, setting.key)
    }
    storage = flags["target.storage"]
    store_of(options.root, storage)
    # How far the work is, is said in partition tables.
    settings = {PROGRESS: "false", **flags["spark"]}
    meter = TableMeter(f"{options.command} {options.table}")
    with plain_errors(), session(f"lance-flight {options.command} {options.table}", settings) as spark:
        place = (spark, options.root, options.table)
        if options.command == "backfill":
            named = {"data_type": options.data_type, "storage": storage, "progress": meter}
            lines, is_sound = [str(maintenance.backfill(*place, options.column, options.expression, **named))], True
        else:
            named = given_arguments(options, OPERATIONS[options.command].of_jobs)
            report = maintenance.maintain(
                spark, options.command, options.root, options.table, named, storage=storage, progress=meter
            )
            lines, is_sound = report.lines, report.is_sound
    meter.close()
    print("\n".join(f"{options.table}: {line}" for line in lines))
    return 0 if is_sound else 1
