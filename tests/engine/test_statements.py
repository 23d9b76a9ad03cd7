"""Every statement of our own: read from its words, with the privileges that it needs."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.statements.kinds import permitted
from lance_flight.engine.statements.parsing import parse
from lance_flight.errors import SqlError

from tests.engine.statement_needs import NEEDS

WORDS = (
    "SELECT, WITH, VALUES, FROM, SUBSTRAIT, EXPLAIN, SHOW, SUMMARIZE, DESCRIBE, DESC, CREATE, DROP, INSERT, SET, USE, KILL, BEGIN,"
    " START, COMMIT, ROLLBACK, ALTER, COMMENT, UPDATE, DELETE, MERGE, TRUNCATE, VACUUM, REPAIR, MIGRATE, VERIFY, REINDEX"
)
ALTERATIONS = (
    "ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, ADD PRIMARY KEY, ADD CONSTRAINT,"
    " DROP PRIMARY KEY, RENAME TO, SET PARTITIONED BY, SET, DROP PARTITION, ATTACH TABLE, DETACH PARTITION, CREATE TAG, DROP TAG, ROLLBACK TO, CREATE BRANCH, DROP BRANCH, PUBLISH BRANCH,"
    " REWRITE PARTITIONS or COMPACT"
)
SHOWN = "CATALOGS, SCHEMAS, TABLES, VIEWS, FUNCTIONS, COLUMNS, CREATE TABLE, CREATE VIEW, ALL, PARTITIONS or INDEXES"

REFUSED = {
    "SELEC 1": f"a statement may not begin with 'SELEC'; expected one of {WORDS}",
    "SHOW t": f"expected {SHOWN}, got 't' at character 6",
    "SHOW": f"expected {SHOWN}, got the end of the statement",
    "CREATE x": "expected TABLE, got 'x' at character 8",
    "DROP x": "expected TABLE, got 'x' at character 6",
    "ALTER x": "expected TABLE, got 'x' at character 7",
    "ALTER TABLE": "expected a table name, got the end of the statement",
    "ALTER TABLE t": f"expected {ALTERATIONS}, got the end of the statement",
    "ALTER TABLE t DROP x": f"expected {ALTERATIONS}, got 'DROP' at character 15",
    "ALTER TABLE t COMPACT now": "expected the end of the statement, got 'now' at character 23",
    "ALTER TABLE t DROP TAG a b": "expected the end of the statement, got 'b' at character 26",
    "ALTER TABLE t ALTER COLUMN x y": (
        "expected TYPE, SET DATA TYPE, SET NOT NULL or DROP NOT NULL, got 'y' at character 30"
    ),
    "EXPLAIN DROP TABLE t": "EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE, got DropTable",
    "EXPLAIN INSERT INTO t VALUES (1)": "EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE, got Insert",
    "EXPLAIN TRUNCATE t": "EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE, got Truncate",
    "EXPLAIN ANALYZE DELETE FROM t": "EXPLAIN ANALYZE takes a query, got Delete",
    "EXPLAIN DROP x": "expected TABLE, got 'x' at character 14",
    "SUBSTRAIT x": "expected a plan in base64, in quotes, got 'x' at character 11",
    "USE other.s": "catalog 'other' is not there; expected [lance.]schema",
    "ANALYZE t": "'ANALYZE t' begins no statement here: write ALTER TABLE t COMPACT",
    "SHOW DATABASES": "'SHOW DATABASES' begins no statement here: write SHOW SCHEMAS; the catalog is always lance",
}


@dataclass
class Asking:
    """Notes which privileges are asked for, in place of an access and of a root."""

    asked: list[tuple[Privilege, TableName]] = field(default_factory=list)
    own: frozenset[TableName] = frozenset({TableName("public", "own")})

    def check_all_rows(self, privilege: Privilege, table: TableName) -> None:
        self.asked.append((privilege, table))

    def governing(self, name: TableName) -> TableName:
        return name


@pytest.mark.parametrize(("sql", "needs"), NEEDS.items(), ids=NEEDS)
def test_a_statement_needs_its_privileges(sql: str, needs: str) -> None:
    asking = Asking()
    permitted(parse(sql), asking, asking)
    shown = [f"{privilege.value} {str(name).removeprefix('public.')}" for privilege, name in asking.asked]
    assert ", ".join(shown) == needs


@pytest.mark.parametrize(("sql", "error"), REFUSED.items(), ids=REFUSED)
def test_what_is_no_statement_is_told_what_is(sql: str, error: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse(sql)
    assert str(caught.value) == error
