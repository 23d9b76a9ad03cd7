"""`python -m lance_flight_client.spark ingest`."""

from __future__ import annotations

import argparse

from lance_flight.errors import AlreadyCommitted
from pyspark.sql import SparkSession

from lance_flight_client.spark.ingesting import (
    check,
    describe_ingest,
    earlier_commit,
    ingest,
    plain_errors,
    session,
    session_settings,
)
from lance_flight_client.spark.job import SETTINGS, Job, read_jobs
from lance_flight_client.spark.program import value_of_flag


def run(options: argparse.Namespace) -> int:
    """Run the jobs of a file one after the other, or say what they would do; one that was done before is passed over."""
    jobs = read_jobs(options.job, {setting.key: value_of_flag(options, setting) for setting in SETTINGS})
    for job in jobs:
        check(job)
    known = {number: earlier_commit(job) for number, job in enumerate(jobs)}
    if None not in known.values():
        print("\n".join(f"{commit}; nothing was written" for commit in known.values()))
        return 0
    tables = ", ".join(dict.fromkeys(job.target.table for job in jobs))
    with plain_errors(), session(f"lance-flight ingest {tables}", session_settings(jobs)) as spark:
        for number, job in enumerate(jobs):
            if options.dry_run:
                print("\n".join(describe_ingest(spark, job)))
            elif known[number] is not None:
                print(f"{known[number]}; nothing was written")
            else:
                _ingest(spark, job)
    return 0


def _ingest(spark: SparkSession, job: Job) -> None:
    try:
        print(ingest(spark, job))
    except AlreadyCommitted as exc:
        print(f"{exc}; nothing was written")
