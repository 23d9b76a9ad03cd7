"""`python -m lance_flight_client.spark ingest`."""

from __future__ import annotations

import argparse

from lance_flight.errors import AlreadyCommitted

from lance_flight_client.spark.ingesting import check, describe_ingest, earlier_commit, ingest, plain_errors, session
from lance_flight_client.spark.job import SETTINGS, read_job
from lance_flight_client.spark.program import value_of_flag


def run(options: argparse.Namespace) -> int:
    """Run a job, or say what it would do."""
    job = read_job(options.job, {setting.key: value_of_flag(options, setting) for setting in SETTINGS})
    check(job)
    known = earlier_commit(job)
    if known is not None:
        print(f"{known}; nothing was written")
        return 0
    with plain_errors(), session(f"lance-flight ingest {job.target.table}", job.spark) as spark:
        if options.dry_run:
            print("\n".join(describe_ingest(spark, job)))
            return 0
        try:
            print(ingest(spark, job))
        except AlreadyCommitted as exc:
            print(f"{exc}; nothing was written")
    return 0
