"""The options of a table's maintenance: what ALTER TABLE … SET and CREATE TABLE … WITH take, refuse, and show again."""

from __future__ import annotations

import pytest
from lance_flight.catalog.maintenance.survey import MaintenancePolicy, policy_of
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine

COLUMNS = "(id BIGINT, p VARCHAR)"
KINDS = pytest.mark.parametrize("partitioned", ["", " PARTITIONED BY (p)"], ids=["plain", "partitioned"])
DAY = 86400.0


def policy(engine: Engine, table: str = "t") -> MaintenancePolicy:
    return policy_of(engine.root.table(TableName("public", table)).snapshot())


def definition(engine: Engine, table: str = "t") -> str:
    return str(engine.query(f"SHOW CREATE TABLE {table}")["definition"][0].as_py())


TAKEN = [
    pytest.param("compact_files = 4", MaintenancePolicy(compact_files=4), "compact_files = 4", id="files"),
    ("compact_deleted = 0.25", MaintenancePolicy(compact_deleted=0.25), "compact_deleted = 0.25"),
    pytest.param("compact_deleted = 0", MaintenancePolicy(compact_deleted=0), "compact_deleted = 0", id="nothing"),
    pytest.param("reindex_missing = 1", MaintenancePolicy(reindex_missing=1), "reindex_missing = 1", id="all"),
    pytest.param("retain = '36h'", MaintenancePolicy(retain=1.5 * DAY), "retain = '36h'", id="hours"),
    pytest.param("retain = '30d'", MaintenancePolicy(retain=30 * DAY), "retain = '30d'", id="days"),
    pytest.param("retain = 7200", MaintenancePolicy(retain=7200), "retain = '2h'", id="seconds"),
    ("transactions = '6h'", MaintenancePolicy(transactions=DAY / 4), "transactions = '6h'"),
    pytest.param("maintenance = off", MaintenancePolicy(maintenance=False), "maintenance = off", id="off"),
    pytest.param("maintenance = 'OFF'", MaintenancePolicy(maintenance=False), "maintenance = off", id="off in quotes"),
    pytest.param(
        "retain = '1h30min', compact_files = 1",
        MaintenancePolicy(retain=5400, compact_files=1),
        "compact_files = 1, retain = '90min'",
        id="several",
    ),
]


@KINDS
@pytest.mark.parametrize(("options", "expected", "shown"), TAKEN)
def test_an_option_is_stored_and_shown(
    engine: Engine, partitioned: str, options: str, expected: MaintenancePolicy, shown: str
) -> None:
    engine.update(f"CREATE TABLE t {COLUMNS}{partitioned}")
    engine.update(f"ALTER TABLE t SET ({options})")
    assert policy(engine) == expected
    assert definition(engine).endswith(f"WITH ({shown})")
    engine.update(definition(engine).replace('"t"', '"again"', 1))
    assert policy(engine, "again") == expected
    assert definition(engine, "again") == definition(engine).replace('"t"', '"again"', 1)


@KINDS
def test_default_takes_an_option_back(engine: Engine, partitioned: str) -> None:
    engine.update(f"CREATE TABLE t {COLUMNS}{partitioned} WITH (compact_files = 2, maintenance = off)")
    engine.update("ALTER TABLE t SET (compact_files = DEFAULT)")
    assert policy(engine) == MaintenancePolicy(maintenance=False)
    engine.update("ALTER TABLE t SET (maintenance = DEFAULT)")
    assert "WITH" not in definition(engine)


def test_the_history_says_which_options_were_set(engine: Engine) -> None:
    engine.update(f"CREATE TABLE t {COLUMNS} PARTITIONED BY (p)")
    engine.update("ALTER TABLE t SET (compact_files = 2, retain = '8d')")
    (operation,) = engine.query("SELECT operation FROM t$snapshots ORDER BY version DESC LIMIT 1")["operation"]
    assert operation.as_py() == "set compact_files, retain"
