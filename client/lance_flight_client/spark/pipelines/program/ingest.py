"""`python -m lance_flight_client.spark ingest`."""

from __future__ import annotations

import argparse

from lance_flight.errors import AlreadyCommitted

from lance_flight_client.spark.pipelines.errors import plain_errors
from lance_flight_client.spark.pipelines.ingesting import check, described, earlier_commit, ingest
from lance_flight_client.spark.pipelines.job import SETTINGS
from lance_flight_client.spark.pipelines.job_reading import read_job
from lance_flight_client.spark.pipelines.program.arguments import given
from lance_flight_client.spark.pipelines.sessions import session


def run(options: argparse.Namespace) -> int:
    """Run a job, or say what it would do."""
    job = read_job(options.job, {setting.key: given(options, setting) for setting in SETTINGS})
    check(job)
    known = earlier_commit(job)
    if known is not None:
        print(f"{known}; nothing was written")
        return 0
    with plain_errors(), session(f"lance-flight ingest {job.target.table}", job.spark) as spark:
        if options.dry_run:
            print("\n".join(described(spark, job)))
            return 0
        try:
            print(ingest(spark, job))
        except AlreadyCommitted as exc:
            print(f"{exc}; nothing was written")
    return 0
