"""Spark's own suites of tables and row changes, on a catalog of ours: each test passes, or is one of those that `exceptions.json` gives a reason for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from lance_flight_client.spark.connector.sessions import jar

from tests.conformance.java import PATIENCE
from tests.spark.processes import said_by_python, with_pyspark

SOURCES = Path(__file__).parent / "suites"
EXCEPTIONS = json.loads((SOURCES / "exceptions.json").read_text())
"""Tests that fail here, by suite and reason. Most ask tables in memory, which the suites are written for, what these remember."""
PYSPARK, SUITES = "4.2.1", "4.2.0"
"""The newest Spark whose suites Maven has, and the PySpark that they run with."""
ARTIFACTS = [
    *(
        f"org.apache.spark:spark-{part}_2.13:{SUITES}:jar:tests"
        for part in ("core", "sql", "catalyst", "sql-api", "common-utils")
    ),
    *(
        f"org.scalatest:scalatest-{part}_2.13:3.2.19"
        for part in ("core", "funsuite", "funspec", "diagrams", "matchers-core", "shouldmatchers", "mustmatchers")
    ),
    "org.scalatest:scalatest-compatible:3.2.19",
    "org.scalactic:scalactic_2.13:3.2.19",
]
ROW_CHANGES = {
    "DeleteSuite": "GroupBasedDeleteFromTableSuite",
    "MergeSuite": "GroupBasedMergeIntoTableSuite",
    "MergeDataFrameSuite": "MergeIntoDataFrameSuite",
    "UpdateSuite": "GroupBasedUpdateTableSuite",
}
"""Suites of one template, each with the one of Spark's that it runs."""
OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
"""Packages of Java that Spark looks into."""


@pytest.fixture(scope="module")
def pyspark() -> Path:
    """The directory of a PySpark with the version of the suites."""
    return Path(said_by_python(with_pyspark(PYSPARK), "import pyspark; print(pyspark.__path__[0])"))


@pytest.fixture(scope="module")
def classes(pyspark: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the compiled suites, with the jars that they need."""
    place = tmp_path_factory.mktemp("suites")
    for artifact in ARTIFACTS:
        copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={place}"]
        subprocess.run(copy, check=True, timeout=PATIENCE)
    path = f"{jar(PYSPARK)}:{place}/*:{pyspark}/jars/*"
    command = ["javac", "--release", "17", "-nowarn", "-proc:none", "-cp", path, "-d", place / "made"]
    template = (SOURCES / "RowChanges.java.template").read_text()
    for suite, base in ROW_CHANGES.items():
        (place / f"{suite}.java").write_text(template.replace("{suite}", suite).replace("{base}", base))
    sources = [*SOURCES.glob("*.java"), *place.glob("*.java")]
    subprocess.run([*command, *sources], check=True, timeout=PATIENCE)
    return f"{place}/made:{path}"


def failures(report: Path) -> Iterator[tuple[str, str]]:
    """The tests of a report that failed, each with what it said."""
    for file in report.glob("*.xml"):
        for case in ET.parse(file).iter("testcase"):  # noqa: S314 - made by the suite
            for problem in (*case.findall("failure"), *case.findall("error")):
                yield case.get("name", ""), problem.get("message", "")


@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("javac") is None or shutil.which("mvn") is None, reason="no JDK, or no Maven")
@pytest.mark.parametrize("suite", EXCEPTIONS)
def test_a_suite_of_spark_passes_but_for_its_exceptions(
    suite: str, pyspark: Path, classes: str, tmp_path: Path
) -> None:
    (tmp_path / "report").mkdir()
    command = [
        "java",
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED),
        "-Xmx3g",
        "-Djdk.reflect.useDirectMethodHandle=false",
        f"-Dspark.test.home={pyspark}",
        "-Dspark.testing=1",
        f"-Dlanceflight.roots={tmp_path}",
        f"-Dlanceflight.python={sys.executable}",
        *("-cp", classes, "org.scalatest.tools.Runner"),
        *("-R", classes.partition(":")[0], "-s", f"lanceflight.suites.{suite}", "-u", str(tmp_path / "report")),
    ]
    environment = {
        **os.environ,
        "SPARK_HOME": str(pyspark),
        "PYTHONPATH": str(pyspark.parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    run = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert list((tmp_path / "report").glob("*.xml")), run.stdout[-4000:] + run.stderr[-4000:]
    failed = dict(failures(tmp_path / "report"))
    known = {name for names in EXCEPTIONS[suite].values() for name in names}
    wrong = [f"{name}: {message[:300]}" for name, message in failed.items() if name not in known]
    assert not wrong, "\n".join(wrong)
    assert failed.keys() == known, "no exceptions any more"
