"""The page about Spark's SQL, run as it stands by the programs of a Python, such as that of an environment with a wheel."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from tests.documents import blocks, text_of
from tests.spark.conftest import SETTINGS

PAGE = "client/docs/spark-sql.md"
SMALL = {
    name: value
    for name, value in SETTINGS.items()
    if name not in {"spark.jars", "spark.sql.extensions", "spark.python.daemon.module"}
}
"""Settings of a small session: what the connector needs, the documented commands give."""
_SHOWN = re.compile(r"^```sql\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_END = "-- the end of block"


def shown() -> list[tuple[str, str | None]]:
    """Every block of SQL, with the result that the page shows below it."""
    return [(sql, result or None) for sql, result in _SHOWN.findall(text_of(PAGE))]


class Reader:
    """Somebody who does what the page says, in a directory and with the programs of a Python."""

    def __init__(self, python: str, place: Path, **environment: str) -> None:
        self._place = place
        conf = place / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SMALL.items()))
        kept = {name: value for name, value in os.environ.items() if name not in {"PYSPARK_PYTHON", "SPARK_HOME"}}
        path = f"{Path(python).parent}{os.pathsep}{kept['PATH']}"
        self._environment = {
            **kept,
            "PATH": path,
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TZ": "UTC",
            **environment,
        }

    def run(self, script: str, typed: str = "") -> str:
        """Run a script, with what is typed into its programs; return what it prints."""
        done = subprocess.run(
            ["sh", "-eu", "-c", script],
            cwd=self._place,
            env=self._environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self) -> str:
        """Make the lake; return the command that starts the shell."""
        (script,) = (block for block in blocks(PAGE, "sh") if "pip install" in block)
        install, make, shell = script.splitlines()
        assert install == "pip install 'lance-flight[spark]'"
        self.run(make)
        return shell

    def sql(self, shell: str) -> list[str]:
        """Run the SQL of the page in one shell; return what each block prints."""
        marked = [f"{sql}SELECT '{_END}';\n" for sql, _ in shown()]
        (self._place / "page.sql").write_text("".join(marked))
        *printed, rest = self.run(f"{shell} --master 'local[2]' -f page.sql").split(f"{_END}\n")
        assert rest == ""
        return printed

    def programs(self) -> Iterator[str]:
        """Run Spark's other programs and the Python of the page; yield what each prints."""
        (script,) = (block for block in blocks(PAGE, "sh") if "settings" in block)
        yield self.run(f"export PYSPARK_DRIVER_PYTHON_OPTS=-i\n{script}", 'spark.table("lake.shop.orders").show()\n')
        (program,) = blocks(PAGE, "python")
        (self._place / "program.py").write_text(program)
        yield self.run("python program.py")


def differing(result: str, printed: str) -> Iterator[str]:
    """Yield the first line that is not as the page shows it; there, `…` stands for anything, and for any lines if alone."""
    pattern = "".join(_pattern(line) for line in result.splitlines())
    if re.fullmatch(pattern, printed) is None:
        yield f"expected:\n{result}\nprinted:\n{printed}"


def _pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*?"
    # Columns are aligned on the page, and parted by tabs where they are printed.
    cells = re.split(r" {2,}", line) if not line.startswith(" ") else [line]
    return r"\t".join(".*".join(map(re.escape, cell.split("…"))) for cell in cells) + r"\n"


def printed_by(session: SparkSession) -> list[str]:
    """Run the SQL of the page in a session; return what the shell would print for each block."""
    hive = session._jvm.org.apache.spark.sql.execution.HiveResult
    found = []
    for sql, _ in shown():
        printed = []
        for text in filter(str.strip, sql.split(";\n")):
            # Before the next statement changes what this one reads.
            plan = session.sql(text)._jdf.queryExecution().executedPlan()
            printed.append(hive.hiveResultString(plan).mkString("\n"))
        found.append("".join(f"{line}\n" for line in printed if line))
    return found


def check_sql(printed: list[str]) -> None:
    """Raise AssertionError for what the page does not show."""
    wrong = [
        line
        for (_, result), found in zip(shown(), printed, strict=True)
        if result is not None
        for line in differing(result, found)
    ]
    assert not wrong, "\n".join(wrong)


def check_programs(reader: Reader) -> None:
    """Read the tables that the SQL made by Spark's other programs, and in Python."""
    shells, program = reader.programs()
    # The shell prints the count, pyspark a table.
    assert shells.splitlines()[0] == "3"
    assert re.search(r"\| +Dan\|", shells)
    assert re.search(r"\| +shop\| +orders\|", program)
    assert re.search(r"\| +Ben\|80.00\|", program)
