"""Pictures of partitions: what lies across and down, heights by rows, dots for what is not read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight_client.cli import main
from lance_flight_client.partition_map import partition_map

from tests.engine.database import open_engine


@dataclass(frozen=True)
class Case:
    """Rows of partitions by their values, the numbers of those that are read, and the picture."""

    fields: dict[str, list[object]]
    rows: list[int | None]
    picture: str
    read: frozenset[int] | None = None
    width: int = 100
    height: int = 40


CASES = {
    "a grid": Case(
        {"month": [1, 1, 2, 10], "site": ["Oslo", "Lima", "Oslo", None]},
        [80, 10, 40, 0],
        """
      month
site   1  2 10
Lima  ▁▁
Oslo  ██ ▄▄
NULL        ▁▁""",
    ),
    "what is not read": Case(
        {"month": [1, 1, 2, 2], "site": ["a", "b", "a", "b"]},
        [8, 8, 8, 8],
        """
      month
site  1 2
a     · █
b     · █""",
        read=frozenset({2, 3}),
    ),
    "years and months across": Case(
        {"at_year": [2024, 2024, 2025, 2025], "at_month": [1, 2, 1, 2], "site": ["a", "b", "a", "b"]},
        [8, 8, 8, 8],
        """
      at_year at_month
site  2024 1 2024 2 2025 1 2025 2
a     ██████        ██████
b            ██████        ██████""",
    ),
    "more than fit": Case(
        {"day": list(range(1, 41)), "site": ["a", "b"] * 20},
        [1] * 40,
        """
      day
site  1        …        40  (2 in each column)
a     ████████████████████
b     ████████████████████""",
        width=26,
    ),
    "bars": Case(
        {"site": ["b", None, "a"]},
        [30, 3, 60],
        """
site
a     ████████████████████████████████████████  60
b     ····················                      30
NULL  ██                                        3""",
        read=frozenset({1, 2}),
    ),
    "one value in a group": Case(
        {"year": [2025, 2025], "site": ["a", "b"]},
        [1, 1],
        """
year site
2025 a     ████████████████████████████████████████  1
2025 b     ████████████████████████████████████████  1""",
    ),
    "long lists": Case({"site": [1, 2, 3]}, [1, 1, None], "\nsite\n1     " + "█" * 40 + "  1\n… 2 more", height=1),
    "no fields": Case({}, [5], "\n\n  " + "█" * 40 + "  5"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_picture(case: Case) -> None:
    ids = [str(number) for number in range(len(case.rows))]
    columns = {"spec_id": [1] * len(ids), **case.fields, "object_id": ids, "rows": pa.array(case.rows, pa.int64())}
    read = None if case.read is None else {str(number) for number in case.read}
    assert "\n" + partition_map(pa.table(columns), read, width=case.width, height=case.height) == case.picture


def test_inspect_draws_each_spec_and_what_a_condition_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = open_engine(tmp_path, target_partitions=1)
    for sql in (
        "CREATE TABLE t (id BIGINT, site VARCHAR, day DATE) PARTITIONED BY (month(day), site)",
        "INSERT INTO t VALUES (1, 'a', '2025-01-01'), (2, 'b', '2025-02-01'), (3, 'a', '2025-02-01')",
        "ALTER TABLE t SET PARTITIONED BY (site)",
        "INSERT INTO t VALUES (4, 'a', '2025-03-01')",
    ):
        engine.execute(sql)
    assert main(["inspect", str(tmp_path), "t", "--map", "--where", "site = 'b'"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("partitions: 1 / 4  table t")
    assert "v1: 3 partitions, 3 rows (the higher, the more rows; a dot is not read)" in shown
    assert "a     · ·\nb       █\n" in shown
    assert f"site\na     {'·' * 40}  1\n" in shown
    assert main(["inspect", str(tmp_path), "t", "--map"]) == 0
    assert "·" not in capsys.readouterr().out


def test_a_plain_table_has_no_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_engine(tmp_path, target_partitions=1).execute("CREATE TABLE t (id BIGINT)")
    assert main(["inspect", str(tmp_path), "t", "--map"]) == 1
    assert "table 't' is not partitioned" in capsys.readouterr().err


def test_moments_that_python_has_not_are_drawn() -> None:
    moments = pa.array([2**62, None, 1], pa.int64()).view(pa.timestamp("s"))
    rows = {"spec_id": [1, 1, 1], "at": moments, "object_id": ["a", "b", "c"], "rows": [4, 2, 1]}
    assert [line.split("  ")[0] for line in partition_map(pa.table(rows)).splitlines()] == [
        "at",
        "146138514283-06-19 07:45:04",
        "1970-01-01 00:00:01",
        "NULL",
    ]
