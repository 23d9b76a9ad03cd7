"""What tests without a JVM replay is what Spark offers today: `python -m tests.spark.offers` records it anew."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from tests.selection import IS_FULL
from tests.spark.offers import FILE, record
from tests.spark.statements import EVERY


def test_spark_offers_what_was_recorded(sql: SparkSession, tmp_path: Path) -> None:
    known = json.loads(FILE.read_text(encoding="utf-8"))
    assert list(known) == list(EVERY)
    some = EVERY if IS_FULL else EVERY[::8]
    for statement, asked in record(sql.newSession(), tmp_path, some):
        assert asked == known[statement], statement
