"""Functions and statements of other systems, each with what to write here."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from lance_flight.engine.functions.function_table import advice, macros
from lance_flight.engine.functions.routines import routines, window_functions
from lance_flight.engine.sql.tokens import QUOTED, Token
from lance_flight.errors import nearest


def function_advice(name: str) -> str:
    """Return what an error about a missing function adds; nothing for one whose meaning is not known.

    >>> function_advice("pg_typeof"), function_advice("uper"), function_advice("nope")
    ('; write typeof(a)', '; did you mean upper?', '')
    """
    word = name.lower()
    if word in window_functions():
        return f"; a window function needs OVER: write {word}(…) OVER (ORDER BY …)"
    if word in advice():
        return f"; write {advice()[word]}"
    if word in macros():  # where the words are DataFusion's: in what is stored of partition fields
        return f"; write {macros()[word][0].body}"
    near = nearest(word, _look_up() - {word}, _ALIKE)
    return f"; did you mean {near[0]}?" if near else ""


@cache
def _look_up() -> frozenset[str]:
    return frozenset(str(row["routine_name"]) for row in routines())


_ALIKE = 0.85
"""Likeness of a slip of the keyboard: a function of another meaning is never suggested."""


_CLIENT = (
    "files are read and written where the client is: lance-flight ingest FILE --table t, lance-flight export t -o FILE, SELECT … FROM"
    " 'FILE' or \\copy in lance-flight sql, or cursor.adbc_ingest('t', data) and cursor.fetch_arrow_table()"
)
_COLUMNS = "write DESCRIBE t, or SHOW COLUMNS FROM t"
_HELP = "write SHOW TABLES, DESCRIBE t, SELECT …, INSERT INTO t …; server/docs/sql.md has every statement"
_MERGE = "write MERGE INTO t USING … ON … WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_NO_CACHE = "leave it out: every statement reads the newest version of its tables"
_NO_CODE = "code is not stored: write the expression itself, or CREATE VIEW v AS SELECT …"
_PARAMETERS = "write ? for each value, and let the client prepare the statement and bind them"
_OPERATIONS = "write ALTER TABLE t COMPACT, or leave it out: a server maintains its tables by itself"
_QUIT = "close the connection in the client"
_RIGHTS = "rights are given in the server's file of policies"
_SCHEMAS = "write CREATE SCHEMA s, or DROP SCHEMA s; the catalog is always lance"
_SHOW_SCHEMAS = "write SHOW SCHEMAS; the catalog is always lance"
_STORED = "write CREATE TABLE t AS SELECT …, or CREATE OR REPLACE VIEW v AS SELECT …"
_TABLES = "write SHOW TABLES, which names their schemas, too"

_INSTEAD: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        **dict.fromkeys([("HELP",), ("\\", "$1"), ("\\", "H"), (".", "HELP"), ("$1",)], _HELP),
        **dict.fromkeys([("\\", "D"), (".", "SCHEMA"), ("PRAGMA", "TABLE_INFO")], _COLUMNS),
        **dict.fromkeys([("DESCRIBE", "EXTENDED"), ("DESCRIBE", "FORMATTED")], _COLUMNS),
        **dict.fromkeys([("\\", "DT"), ("\\", "L"), ("\\", "DN"), (".", "TABLES"), (".", "DATABASES")], _TABLES),
        **dict.fromkeys([("SHOW", "DATABASES"), ("SHOW", "NAMESPACES")], _SHOW_SCHEMAS),
        **dict.fromkeys([("COPY",), ("LOAD",), ("UNLOAD",), ("EXPORT",), ("IMPORT",), ("\\", "COPY")], _CLIENT),
        **dict.fromkeys([(".", "IMPORT"), ("CREATE", "EXTERNAL")], _CLIENT),
        **dict.fromkeys([("\\", "Q"), (".", "QUIT"), (".", "EXIT"), ("QUIT",), ("EXIT",), ("BYE",)], _QUIT),
        **dict.fromkeys([("GRANT",), ("REVOKE",), ("CREATE", "USER"), ("CREATE", "ROLE")], _RIGHTS),
        **dict.fromkeys([("OPTIMIZE",), ("ANALYZE",), ("CHECKPOINT",)], _OPERATIONS),
        **dict.fromkeys([("CREATE", "MATERIALIZED"), ("ALTER", "VIEW")], _STORED),
        ("REFRESH", "MATERIALIZED"): "write CREATE OR REPLACE TABLE t AS SELECT …",
        **dict.fromkeys(
            [("CREATE", "TRANSIENT"), ("CREATE", "UNLOGGED"), ("CREATE", "DYNAMIC")], "write CREATE TABLE t (…)"
        ),
        **dict.fromkeys(
            [("CREATE", "TEMP", "VIEW"), ("CREATE", "TEMPORARY", "VIEW")], "write CREATE VIEW v AS SELECT …, or WITH"
        ),
        **dict.fromkeys(
            [("CREATE", "TYPE"), ("CREATE", "DOMAIN")], "write the type itself, as in VARCHAR or STRUCT<a: INT>"
        ),
        **dict.fromkeys(
            [("CREATE", "STREAM"), ("CREATE", "TASK"), ("LISTEN",), ("NOTIFY",)],
            "write SELECT * FROM table_changes('t', from)",
        ),
        **dict.fromkeys([("CREATE", "STAGE"), ("CREATE", "PIPE"), ("PUT",), ("GET",), ("LIST",), ("ATTACH",)], _CLIENT),
        **dict.fromkeys([("INSTALL",), ("DETACH",)], "leave it out: there are no extensions and no other databases"),
        ("CREATE", "POLICY"): _RIGHTS,
        ("UNDROP",): "write CREATE TABLE t, and restore a backup: dropped tables are gone",
        **dict.fromkeys([("CREATE", "DATABASE"), ("DROP", "DATABASE"), ("ALTER", "SCHEMA")], _SCHEMAS),
        **dict.fromkeys([("REPLACE",), ("UPSERT",), ("INSERT", "IGNORE")], _MERGE),
        **dict.fromkeys([("PREPARE",), ("EXECUTE",), ("DEALLOCATE",), ("DECLARE",)], _PARAMETERS),
        **dict.fromkeys([("CACHE",), ("UNCACHE",), ("REFRESH",), ("INVALIDATE",), ("MSCK",), ("FLUSH",)], _NO_CACHE),
        **dict.fromkeys([("CALL",), ("DO",), ("CREATE", "FUNCTION"), ("CREATE", "PROCEDURE")], _NO_CODE),
        ("SET", "VARIABLE"): _PARAMETERS,
        ("SET", "TIME"): "leave it out: times are in UTC; write ts AT TIME ZONE 'Europe/Berlin'",
        ("CREATE", "SEQUENCE"): "write uuid() for keys, or row_number() OVER () in the INSERT … SELECT",
        **dict.fromkeys([("CREATE", "MACRO"), ("CREATE", "TRIGGER")], _NO_CODE),
        ("SAVEPOINT",): "it is not offered: a transaction is committed or rolled back as a whole",
        ("LOCK",): "leave it out: readers keep the snapshot that they began with, and writers are told of conflicts",
        ("TABLE",): "write SELECT * FROM t",
        ("RENAME",): "write ALTER TABLE t RENAME TO u",
        ("RESTORE",): "write ALTER TABLE t ROLLBACK TO point",
        ("SHOW", "INDEX"): "write SHOW INDEXES FROM t",
        ("SHOW", "PROCESSLIST"): "write SELECT * FROM system.queries",
        ("DESCRIBE", "HISTORY"): "write SELECT * FROM t$snapshots",
        ("CREATE", "UNIQUE"): "write CREATE INDEX: values that repeat are not refused",
    }
)
"""Replacements by the first words or signs of a statement; `?` has become `$1` by then."""
_FIRST = frozenset({"DESC", *(words[0] for words in _INSTEAD)})
LONGEST = max(map(len, _INSTEAD))
_DESCRIBED = 2
"""Words of DESCRIBE EXTENDED and the like, behind which the name of a table stands."""


_CHECKS = (
    "rows are not compared with a condition: write PRIMARY KEY for a key that ON CONFLICT and MERGE go by, and a WHERE in the"
    " INSERT … SELECT"
)
_RETYPED = "write ALTER TABLE t ALTER COLUMN c TYPE type, or ALTER TABLE t RENAME COLUMN c TO d"

_CLAUSES: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        **dict.fromkeys([("ALTER", "MODIFY"), ("ALTER", "CHANGE"), ("ALTER", "REPLACE")], _RETYPED),
        **dict.fromkeys([("ALTER", word) for word in ("CHECK", "UNIQUE", "FOREIGN")], _CHECKS),
        **dict.fromkeys([("ALTER", "OWNER"), ("ALTER", "ENABLE"), ("ALTER", "DISABLE")], _RIGHTS),
        ("ALTER", "CONSTRAINT"): "write ALTER TABLE t DROP PRIMARY KEY, the only constraint",
        ("ALTER", "IF"): (
            "leave it out: a table that is not there is an error; information_schema.tables lists those that are"
        ),
        ("ALTER", "USING"): (
            "write ALTER TABLE t ADD COLUMN d AS (expression), then DROP COLUMN c and RENAME COLUMN d TO c"
        ),
        ("ALTER", "SCHEMA"): "write CREATE TABLE s.t LIKE t and INSERT INTO s.t SELECT * FROM t, then DROP TABLE t",
        ("COMMENT", "ON"): "leave it out: schemas and views have no comments",
        ("CREATE", "AUTHORIZATION"): _RIGHTS,
        ("CREATE", "INCLUDING"): "leave it out: LIKE takes all of a table but its rows",
        ("CREATE", "TABLESPACE"): "leave it out: tables lie in the root",
        **dict.fromkeys(
            [("CREATE", word) for word in ("ENGINE", "STORED", "LOCATION", "USING")], "leave it out: tables are Lance's"
        ),
        ("CREATE", "PARTITION"): "write PARTITIONED BY (month(ts), region)",
        ("CREATE", "CLUSTER"): "write PARTITIONED BY (bucket(8, id)), or truncate(1000, n)",
        ("CREATE", "TABLE"): "write SELECT * FROM t",
        ("DROP", "CASCADE"): (
            "leave it out: views that read a table stay, and fail until there is one of its name again"
        ),
        ("DROP", ","): "write a DROP for each",
        ("INSERT", "TABLE"): "write SELECT * FROM t",
        ("INSERT", "SET"): "write INSERT INTO t (a, b) VALUES (1, 'x')",
        **dict.fromkeys(
            [("SHOW", "FULL"), ("SHOW", "TABLE"), ("SHOW", "EXTENDED")],
            "write SHOW TABLES, SHOW COLUMNS FROM t or SHOW CREATE TABLE t",
        ),
        **dict.fromkeys([("SHOW", "GRANTS"), ("SHOW", "ROLES"), ("SHOW", "USERS")], _RIGHTS),
        ("SHOW", "KEYS"): "write SHOW INDEXES FROM t",
        **dict.fromkeys(
            [("SET", "ISOLATION"), ("SHOW", "TRANSACTION")],
            "write BEGIN ISOLATION LEVEL …, or SET isolation = 'serializable'",
        ),
        ("SET", "UTF8"): "leave it out: texts are UTF-8",
        ("TRUNCATE", ","): "write a TRUNCATE for each",
    }
)
"""What to write in place of a clause of other systems: by the first word of the statement, and the word or sign that it is not read beyond."""


def instead_of_clause(tokens: Sequence[Token], at: int) -> str | None:
    """Return what to write in place of a clause of another system, at which the reader of a statement stopped; None for any other.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> instead_of_clause(tokenize("drop table a, b"), 3)
    'write a DROP for each'
    """
    return _CLAUSES.get((tokens[0].text.upper(), tokens[at].text.upper())) if at < len(tokens) else None


_READS_FILE = re.compile(
    r"table function '((read|scan)_\w+|(parquet|csv|json|delta|iceberg|sqlite|postgres)_scan|glob|file|url|s3|gcs|hdfs)' not found"
    r"|no table '\S+\.(parquet|pq|csv|tsv|jsonl?|ndjson|arrow|feather|orc|xlsx?)(\.\w+)?'"
)
"""Errors about functions that read files elsewhere, and about files in place of tables."""
_FLATTENS = "table function 'flatten' not found"


def relation_advice(message: str) -> str:
    """Return what an error adds that was caused by a file, or a function of another system, behind FROM; nothing for any other.

    >>> relation_advice("table function 'read_csv' not found")[:28], relation_advice("no table 't'")
    ('; files are read and written', '')
    """
    if _FLATTENS in message:
        return "; write FROM t, unnest(t.list) AS f(value)"
    return "" if _READS_FILE.search(message) is None else f"; {_CLIENT}"


def instead_of(tokens: Sequence[Token], ours: Container[tuple[str, ...]] = ()) -> str | None:
    """Return the suggested replacement for a statement of another system; None for any other, and for one that begins with words of `ours`.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> instead_of(tokenize("show databases"))
    'write SHOW SCHEMAS; the catalog is always lance'
    """
    if tokens[0].text.upper() not in _FIRST:
        return None
    said = tuple("" if token.kind in QUOTED else token.text.upper() for token in tokens[: LONGEST + 2])
    said = ("DESCRIBE", *said[1:]) if said[0] == "DESC" else said
    said = (said[0], *said[3:]) if said[:3] == ("CREATE", "OR", "REPLACE") else said
    if said[0] == "DESCRIBE" and (len(tokens) <= _DESCRIBED or tokens[_DESCRIBED].is_sign(".")):
        return None  # a table or a schema may have any of these names
    for count in range(LONGEST, 0, -1):
        words = said[:count]
        if words in ours:
            return None
        if words in _INSTEAD:
            return _INSTEAD[words]
    return None
