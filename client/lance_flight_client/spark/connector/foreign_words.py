"""Words of Iceberg's and Delta's users in a catalog: procedures and statements, each as one of the service's own."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from lance_flight.errors import InvalidInput, NotFound, Unsupported

from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.backends import SqlRunner
from lance_flight_client.spark.connector.definitions import CALENDAR
from lance_flight_client.spark.connector.properties import sorting
from lance_flight_client.spark.connector.relations import text
from lance_flight_client.spark.connector.table_options import TableWriteOptions
from lance_flight_client.spark.options import NamedTable

_NAME = r"(?:`(?:[^`]|``)+`|[\w-]+)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOREVER = 24 * 366 * 100
"""Hours for which a VACUUM that is only about uncommitted files retains snapshots."""
_WEEK = 7 * 24


def _hours(given: str | None, what: str) -> int | None:
    """Return how many whole hours ago a moment was, so that nothing newer is taken."""
    if given is None:
        return None
    age = datetime.now(UTC) - (_EPOCH + timedelta(microseconds=int(given)))
    if age < timedelta(0):
        raise InvalidInput(f"{what} is in the future; expected a time that has passed")
    return math.ceil(age / timedelta(hours=1))


def _moment(given: str) -> str:
    return quote_name((_EPOCH + timedelta(microseconds=int(given))).isoformat())


def _expire(asked: SqlRunner, table: str, given: Mapping[str, str | None]) -> str:
    hours, kept = _hours(given["older_than"], "older_than"), given["retain_last"]
    if kept is not None:
        # So many snapshots are kept as well as all that are newer.
        newest = f'{table[:-1]}$snapshots" ORDER BY version DESC LIMIT 1 OFFSET {max(int(kept), 1) - 1}'
        times = asked.rows(f"SELECT committed_at FROM {newest}").column(0).to_pylist()  # noqa: S608 - quoted
        age = math.ceil((datetime.now(UTC) - times[0]) / timedelta(hours=1)) if times else _FOREVER
        hours = max(_WEEK if hours is None else hours, age)
    return f"VACUUM {table}" + ("" if hours is None else f" RETAIN {hours} HOURS")


def _remove_orphans(asked: SqlRunner, table: str, given: Mapping[str, str | None]) -> str:
    del asked
    hours = _hours(given["older_than"], "older_than")
    return (
        f"VACUUM {table} RETAIN {_FOREVER} HOURS"
        + ("" if hours is None else f" TRANSACTIONS {hours} HOURS")
        + " DRY RUN" * (given["dry_run"] == "true")
    )


def _rewrite(asked: SqlRunner, table: str, given: Mapping[str, str | None]) -> str:
    del asked
    if (given["strategy"] or "binpack").lower() != "binpack" or given["sort_order"] is not None:
        raise Unsupported(
            f"strategy {given['strategy'] or 'sort'!r}; expected binpack, or INSERT OVERWRITE t WITH (sort_by = 'id DESC') SELECT * FROM t for rows"  # noqa: S608 - nothing runs it
            " that are there, and ALTER TABLE … WRITE ORDERED BY for those of later writes"
        )
    options: dict[str, str] = json.loads(given["options"] or "{}")
    unknown = sorted(options.keys() - _REWRITING)
    if unknown:
        raise Unsupported(f"rewrite_data_files with option {unknown[0]!r}; expected {', '.join(_REWRITING)}")
    clauses = [clause.format(_number(name, options[name])) for name, clause in _REWRITING.items() if name in options]
    where = [] if given["where"] is None else [f"WHERE {given['where']}"]
    return " ".join([f"ALTER TABLE {table} COMPACT", *clauses, *where])


_REWRITING: Mapping[str, str] = MappingProxyType(
    {"min-input-files": "OVER {:.0f} FILES", "delete-ratio-threshold": "DELETED {:.0f} PERCENT"}
)
"""Options of `rewrite_data_files`, each with the clause of COMPACT that it is."""


def _number(name: str, given: str) -> float:
    try:
        # From so many files on is more than one fewer.
        return float(given) * 100 if name == "delete-ratio-threshold" else max(int(given) - 1, 0)
    except ValueError:
        raise InvalidInput(f"option {name!r} is {given!r}; expected a number") from None


def _fast_forward(asked: SqlRunner, table: str, given: Mapping[str, str | None]) -> str:
    del asked
    if given["branch"] != "main":
        raise Unsupported(
            f"fast_forward of branch {given['branch']!r}; expected 'main', which a branch takes the place of"
        )
    return f"ALTER TABLE {table} PUBLISH BRANCH {quote_name(given['to'] or '')}"


def _ancestors(asked: SqlRunner, table: str, given: Mapping[str, str | None]) -> str:
    del asked
    upto = "" if given["snapshot_id"] is None else f" WHERE version <= {int(given['snapshot_id'])}"
    listed = f'{table[:-1]}$snapshots"'
    return f"SELECT version AS snapshot_id, committed_at AS timestamp FROM {listed}{upto} ORDER BY version DESC"  # noqa: S608 - quoted


@dataclass(frozen=True, slots=True)
class ForeignProcedure:
    """A procedure of Iceberg's whose meaning a statement of the service has; `types` are those of its parameters."""

    description: str
    types: Mapping[str, str]
    statement: Callable[[SqlRunner, str, Mapping[str, str | None]], str]
    required: tuple[str, ...] = ("table",)
    reports: bool = True


def _rollback(point: Callable[[str], str], name: str) -> Callable[[SqlRunner, str, Mapping[str, str | None]], str]:
    return lambda _, table, given: f"ALTER TABLE {table} ROLLBACK TO {point(given[name] or '')}"


def _purge(asked: SqlRunner, table: str, given: Mapping[str, str | None]) -> str:
    del asked, given
    return f"ALTER TABLE {table} COMPACT DELETED 0 PERCENT"


def _nothing(asked: SqlRunner, table: str, given: Mapping[str, str | None]) -> str:
    """Return the statement that shows there is nothing to do, and that the table is there."""
    del asked, given
    return f"SELECT 'nothing' AS kind FROM {table} LIMIT 0"  # noqa: S608 - quoted


_TABLE = {"table": "string"}
FOREIGN: Mapping[str, ForeignProcedure] = MappingProxyType(
    {
        **{
            name: ForeignProcedure(
                "Make a new version that equals an old one",
                MappingProxyType({**_TABLE, "snapshot_id": "long"}),
                _rollback(lambda given: str(int(given)), "snapshot_id"),
                ("table", "snapshot_id"),
                reports=False,
            )
            for name in ("rollback_to_snapshot", "set_current_snapshot")
        },
        "rollback_to_timestamp": ForeignProcedure(
            "Make a new version that equals the one of a time",
            MappingProxyType({**_TABLE, "timestamp": "timestamp"}),
            _rollback(_moment, "timestamp"),
            ("table", "timestamp"),
            reports=False,
        ),
        "fast_forward": ForeignProcedure(
            "Make a branch the table",
            MappingProxyType({**_TABLE, "branch": "string", "to": "string"}),
            _fast_forward,
            ("table", "branch", "to"),
            reports=False,
        ),
        "expire_snapshots": ForeignProcedure(
            "Remove old snapshots, as vacuum does",
            MappingProxyType({**_TABLE, "older_than": "timestamp", "retain_last": "int"}),
            _expire,
        ),
        "remove_orphan_files": ForeignProcedure(
            "Remove files of transactions that were aborted, as vacuum does",
            MappingProxyType({**_TABLE, "older_than": "timestamp", "dry_run": "boolean"}),
            _remove_orphans,
        ),
        "rewrite_data_files": ForeignProcedure(
            "Rewrite small files, as compact does",
            MappingProxyType(
                {
                    **_TABLE,
                    "strategy": "string",
                    "sort_order": "string",
                    "options": "map<string, string>",
                    "where": "string",
                }
            ),
            _rewrite,
        ),
        "rewrite_position_delete_files": ForeignProcedure(
            "Rewrite files with deleted rows, as compact does",
            MappingProxyType(_TABLE),
            _purge,
        ),
        **{
            name: ForeignProcedure(f"Do nothing: {why}", MappingProxyType(_TABLE), _nothing)
            for name, why in {
                "rewrite_manifests": "a table has one manifest",
                "compute_table_stats": "counts and extremes are kept as rows are written",
                "compute_partition_stats": "counts and extremes are kept as rows are written",
            }.items()
        },
        "ancestors_of": ForeignProcedure(
            "List the versions up to one", MappingProxyType({**_TABLE, "snapshot_id": "long"}), _ancestors
        ),
    }
)

NO_PROCEDURES: Mapping[str, str] = MappingProxyType(
    {
        "cherrypick_snapshot": "create_branch and publish_branch: write to a branch, and publish it",
        "publish_changes": "publish_branch: write to a branch, and publish it",
        "migrate": "snapshot, and the old table dropped",
        "register_table": "nothing: a table in the root is registered",
        "rewrite_table_path": "nothing: no file names another root, so a directory can be copied; see backup",
    }
)
"""Procedures of Iceberg's that have no like here, with what to do instead."""


def changelog_view(table: str, given: Mapping[str, str | None]) -> tuple[str, str]:
    """Return the name of a view of a table's changes, and the metadata table that it is of.

    >>> changelog_view("s.t", {"changelog_view": None, "options": '{"start-snapshot-id": "5"}'})
    ('t_changes', 'changes_5')
    """
    options: dict[str, str] = json.loads(given["options"] or "{}")
    unknown = sorted(options.keys() - {*_STARTS, *_ENDS})
    starts = [_point_of(name, options[name]) for name in _STARTS if name in options]
    ends = [_point_of(name, options[name]) for name in _ENDS if name in options]
    if unknown or len(starts) > 1 or len(ends) > len(starts):
        raise Unsupported(
            f"create_changelog_view with {', '.join(map(repr, options))}; expected one of {', '.join(map(repr, _STARTS))}, and one of"
            f" {', '.join(map(repr, _ENDS))} with it"
        )
    return given["changelog_view"] or f"{table.rpartition('.')[2]}_changes", "_".join(["changes", *starts, *ends])


def _point_of(name: str, given: str) -> str:
    """Return a version, or a moment that is given in milliseconds, as the name of a change feed has it."""
    if not given.isdecimal():
        raise InvalidInput(f"option {name!r} is {given!r}; expected a number")
    return f"t{int(given) * 1000}" if name.endswith("timestamp") else str(int(given))


_STARTS, _ENDS = ("start-snapshot-id", "start-timestamp"), ("end-snapshot-id", "end-timestamp")


COPIES: Mapping[str, str] = MappingProxyType(
    {
        "add_files": "INSERT INTO {into} BY NAME SELECT * FROM {source}",
        "snapshot": "CREATE TABLE {into} USING lance_flight AS SELECT * FROM {source}",
    }
)
"""Procedures that copy the rows of files, or of another table, as the statement of Spark's that each one is."""


def copy_statement(name: str, catalog: str, table: NamedTable, source: str) -> str:
    """Return the statement of Spark's that a procedure of `COPIES` is.

    >>> copy_statement("add_files", "lake", NamedTable("s", "t"), "parquet.`/x`")
    'INSERT INTO `lake`.`s`.`t` BY NAME SELECT * FROM parquet.`/x`'
    """
    if re.fullmatch(rf"{_NAME}(?:\.{_NAME})*", source) is None:
        raise InvalidInput(f"source_table {source!r}; expected a table, or parquet.`path`")
    into = ".".join("`" + part.replace("`", "``") + "`" for part in (catalog, *table))
    return COPIES[name].format(into=into, source=source)


def run_words(asked: SqlRunner, table: NamedTable, words: str) -> tuple[str, bool] | None:
    """Return the service's statement that words of others become, and whether it reports; None where nothing is left to do.

    `words` are a whole statement with `TABLE` in the place of its table, `ALTER TABLE ADD PARTITION FIELD id`.
    """
    for pattern, meaning in _STATEMENTS.items():
        match = re.fullmatch(pattern, words.strip(), re.IGNORECASE | re.DOTALL)
        if match is not None:
            return meaning(asked, table, match)
    raise InvalidInput(
        f"{words!r} is not a statement; expected one of the statements in the page 'Coming from Iceberg or Delta'"
    )


_Meaning = Callable[[SqlRunner, NamedTable, re.Match[str]], "tuple[str, bool] | None"]


def _sql(table: NamedTable, suffix: str = "") -> str:
    return f"{quote_name(table.db_schema)}.{quote_name(table.name + suffix)}"


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _make_named(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool] | None:
    kind, name = match["kind"].upper(), _unquoted(match["name"])
    if match["rest"]:
        raise Unsupported(
            f"CREATE {kind} {name} … {match['rest']}: expected RETAIN n DAYS alone; how long versions are retained is a property of"
            " the table, 'history.expire.max-snapshot-age-ms'"
        )
    if match["unless"] and _is_named(asked, table, kind, name):
        return None
    point = f" AS OF {match['version']}" if match["version"] else ""
    retain = f" {match['retain']}" if match["retain"] else ""
    verb = " ".join(match["verb"].upper().split())
    return f"ALTER TABLE {_sql(table)} {verb} {kind} {quote_name(name)}{point}{retain}", False


def _drop_named(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool] | None:
    kind, name = match["kind"].upper(), _unquoted(match["name"])
    if match["if"] and not _is_named(asked, table, kind, name):
        return None
    return f"ALTER TABLE {_sql(table)} DROP {kind} {quote_name(name)}", False


def _is_named(asked: SqlRunner, table: NamedTable, kind: str, name: str) -> bool:
    listed = _sql(table, "$branches" if kind == "BRANCH" else "$tags")
    return name in asked.rows(f"SELECT name FROM {listed}").column(0).to_pylist()  # noqa: S608 - quoted


def _change_fields(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool]:
    del asked
    groups = match.groupdict()
    changed = ", ".join(_field_texts(groups["fields"]))
    replacing = groups.get("replacing")
    added = f" WITH {', '.join(_field_texts(replacing))}" if replacing else ""
    return f"ALTER TABLE {_sql(table)} {match['verb']} PARTITION FIELD {changed}{added}", False


def _field_texts(given: str) -> list[str]:
    """Return the partition fields that one of Spark's is.

    >>> _field_texts("months(at)"), _field_texts("BUCKET(16, `a b`)"), _field_texts("id")
    (['year("at")', 'month("at")'], ['bucket(16, "a b")'], ['"id"'])
    >>> _field_texts("bucket(16, id) AS shard")
    ['bucket(16, "id") AS "shard"']
    """
    named = re.fullmatch(rf"(?P<field>.+)\s+AS\s+(?P<name>{_NAME})", given.strip(), re.IGNORECASE | re.DOTALL)
    if named is not None:
        (*others, last) = _field_texts(named["field"])
        if others:
            raise Unsupported(f"partition field {given!r} is {len(others) + 1} fields; expected it without a name")
        return [f"{last} AS {quote_name(_unquoted(named['name']))}"]
    match = re.fullmatch(r"(?:(?P<name>\w+)\s*\((?P<arguments>.*)\)|(?P<column>`(?:[^`]|``)+`|[\w.]+))", given.strip())
    if match is None:
        raise InvalidInput(f"partition field {given!r}; expected a column, or a transform of columns: bucket(16, id)")
    if match["column"]:
        return [_column_text(match["column"])]
    name = match["name"].lower()
    arguments = [each.strip() for each in match["arguments"].split(",")]
    texts = [each if each.isdecimal() else _column_text(each) for each in arguments]
    if name not in CALENDAR and name in {"truncate", "bucket"} and not arguments[0].isdecimal():
        texts.reverse()
    return [f"{part}({', '.join(texts)})" for part in CALENDAR.get(name, (name,))]


def _column_text(name: str) -> str:
    parts = [name] if name.startswith("`") else name.split(".")
    return ".".join(quote_name(_unquoted(part)) for part in parts)


def _restore(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool]:
    del asked
    point = match["version"] or quote_name(match["time"])
    return f"ALTER TABLE {_sql(table)} ROLLBACK TO {point}", False


def _says(template: str, *, reports: bool = True) -> _Meaning:
    return lambda _, table, match: (
        template.format(
            table=_sql(table),
            snapshots=_sql(table, "$snapshots"),
            partitions=_sql(table, "$partitions"),
            **match.groupdict(),
        ),
        reports,
    )


def _refuses(instead: str) -> _Meaning:
    def refuse(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool] | None:
        raise Unsupported(f"{match[0]}: expected {instead}")

    return refuse


def _order_writes(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool]:
    """Return the statement for Iceberg's order of writes: of all rows, of those of a task, or of those of a partition."""
    order = match["order"]
    if order is not None:
        options = TableWriteOptions.parse({"sort_by": order})
        known = asked.rows(f"SELECT * FROM {_sql(table)} LIMIT 0").column_names  # noqa: S608 - quoted
        for key in options.sort_by or ():
            if key.column not in known:
                raise NotFound.named("column", key.column, known)
    distribution = "hash" if match["distributed"] else "none" if match["locally"] or order is None else "range"
    return sorting(_sql(table), distribution, order), False


def _identify(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool]:
    columns = [_unquoted(name.strip()) for name in match["columns"].split(",")]
    if match["verb"].upper() == "SET":
        return f"ALTER TABLE {_sql(table)} ADD PRIMARY KEY ({', '.join(map(quote_name, columns))})", False
    sql = (
        "SELECT column_name FROM information_schema.key_column_usage"  # noqa: S608 - quoted
        f" WHERE table_schema = {text(table.db_schema)} AND table_name = {text(table.name)}"
    )
    key = asked.rows(sql).column(0).to_pylist()
    if sorted(key) != sorted(columns):
        raise Unsupported(f"{match[0]}: the identifier fields are {', '.join(key) or 'none'}; expected all of them")
    return f"ALTER TABLE {_sql(table)} DROP PRIMARY KEY", False


def _show_partitions(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool]:
    del asked
    condition = re.sub(r"('(?:[^']|'')*')|,", lambda found: found[1] or " AND", match["values"])
    return f"SHOW PARTITIONS {_sql(table)} WHERE {condition}", True


def _index(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool] | None:
    del asked
    kind = match["kind"] or match["using"]
    unless = "IF NOT EXISTS " if match["unless"] else ""
    columns = ", ".join(_column_text(name.strip()) for name in match["columns"].split(","))
    using = f" USING {kind}" if kind else ""
    return f"CREATE INDEX {unless}{quote_name(_unquoted(match['name']))} ON {_sql(table)} ({columns}){using}", False


def _drop_index(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool] | None:
    del asked
    unless = "IF EXISTS " if match["if"] else ""
    return f"DROP INDEX {unless}{quote_name(_unquoted(match['name']))} ON {_sql(table)}", False


def _does_nothing(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool]:
    del match
    return _nothing(asked, _sql(table), {}), True


def _require(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool]:
    del asked
    return f"ALTER TABLE {_sql(table)} ALTER COLUMN {_column_text(match['column'])} SET NOT NULL", False


_NO_STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
        r"(?:CREATE|DROP)\s+INDEX": "CREATE INDEX i ON t (column) USING kind, or DROP INDEX i ON t",
        r"CREATE\b.*\bCLONE": "CREATE TABLE … LIKE and INSERT … SELECT, or ALTER TABLE … CREATE BRANCH",
        "GENERATE": "nothing: any reader of Lance opens a partition by itself",
        r"(?:MSCK\s+)?REPAIR": "nothing: partitions appear as rows arrive; FSCK REPAIR TABLE looks for damage",
        "REORG": "REORG TABLE t [WHERE …] APPLY (PURGE)",
        r"COPY\s+INTO": "INSERT INTO t SELECT * FROM parquet.`path`, or a job file with a commit_id for each file",
        r"ALTER TABLE\s+(?:ADD|DROP)\s+FEATURE": "nothing: a table has no features to switch",
    }
)
"""Statements of others that have no like here, by their first words, with what to do instead."""

_STATEMENTS: Mapping[str, _Meaning] = MappingProxyType(
    {
        r"ALTER TABLE\s+(?P<verb>ADD|DROP)\s+PARTITION\s+FIELD\s+(?P<fields>.+)": _change_fields,
        r"ALTER TABLE\s+(?P<verb>REPLACE)\s+PARTITION\s+FIELD\s+(?P<fields>.+?)\s+WITH\s+(?P<replacing>.+)": _change_fields,
        rf"ALTER TABLE\s+(?P<verb>CREATE(?:\s+OR\s+REPLACE)?|REPLACE)\s+(?P<kind>BRANCH|TAG)\s+(?P<unless>IF\s+NOT\s+EXISTS\s+)?(?P<name>{_NAME})"
        r"(?:\s+AS\s+OF\s+VERSION\s+(?P<version>\d+))?(?:\s+(?P<retain>RETAIN\s+\d+\s+(?:DAYS|HOURS|MINUTES)))?\s*(?P<rest>.*)": _make_named,
        rf"ALTER TABLE\s+DROP\s+(?P<kind>BRANCH|TAG)\s+(?P<if>IF\s+EXISTS\s+)?(?P<name>{_NAME})": _drop_named,
        rf"ALTER TABLE\s+(?:ALTER|CHANGE)\s+(?:COLUMN\s+)?(?P<column>{_NAME}(?:\.{_NAME})*)\s+SET\s+NOT\s+NULL": _require,
        r"ALTER TABLE\s+DROP\s+(?:IF\s+EXISTS\s+)?PARTITION\s*(?P<values>\([^`]*\))": _says(
            "ALTER TABLE {table} DROP PARTITION {values}", reports=False
        ),
        r"ALTER TABLE\s+ADD\s+.*PARTITION\b.*": _refuses("nothing: partitions appear as rows arrive"),
        r"ALTER TABLE\s+DROP\s+.*PARTITION\b.*": _refuses("ALTER TABLE … DROP PARTITION (field = value, …)"),
        r"SHOW\s+PARTITIONS": _says("SHOW PARTITIONS {table}"),
        r"SHOW\s+PARTITIONS\s+PARTITION\s*\((?P<values>[^`]*)\)": _show_partitions,
        rf"CREATE\s+INDEX\s+(?P<unless>IF\s+NOT\s+EXISTS\s+)?(?P<name>{_NAME})\s+ON(?:\s+TABLE)?(?:\s+USING\s+(?P<kind>\w+))?"
        r"\s*\((?P<columns>[^()]+)\)(?:\s+USING\s+(?P<using>\w+))?": _index,
        rf"DROP\s+INDEX\s+(?P<if>IF\s+EXISTS\s+)?(?P<name>{_NAME})\s+ON(?:\s+TABLE)?": _drop_index,
        r"FSCK\s+REPAIR\s+TABLE(?P<rest>(?:\s+DRY\s+RUN)?)": _says("REPAIR TABLE {table}{rest}"),
        r"REORG\s+TABLE(?P<where>(?:\s+WHERE\s.+)?)\s+APPLY\s*\(\s*PURGE\s*\)": _says(
            "ALTER TABLE {table} COMPACT DELETED 0 PERCENT{where}"
        ),
        r"ANALYZE\s+TABLE\s+COMPUTE\s+(?:DELTA\s+)?STATISTICS\b.*": _does_nothing,
        **{rf"{verb}\b.*": _refuses(instead) for verb, instead in _NO_STATEMENTS.items()},
        r"ALTER TABLE\s+WRITE\s+(?P<distributed>DISTRIBUTED\s+BY\s+PARTITION)?\s*(?P<locally>LOCALLY\s+)?(?:ORDERED\s+BY\s+(?P<order>.+)|UNORDERED)?": _order_writes,
        r"ALTER TABLE\s+(?P<verb>SET|DROP)\s+IDENTIFIER\s+FIELDS\s+(?P<columns>.+)": _identify,
        r"OPTIMIZE(?:\s+FULL)?": _says("ALTER TABLE {table} COMPACT"),
        r"OPTIMIZE\s+(?P<where>WHERE\s(?:(?!\sZORDER\s).)+)": _says("ALTER TABLE {table} COMPACT {where}"),
        r"OPTIMIZE\s+.*": _refuses("OPTIMIZE [FULL] [WHERE …], and WRITE ORDERED BY for the rows of later writes"),
        r"VACUUM(?:\s+FULL)?(?P<rest>(?:\s+RETAIN\s+\d+\s+HOURS)?(?:\s+DRY\s+RUN)?)": _says("VACUUM {table}{rest}"),
        r"VACUUM\s+LITE(?P<rest>(?:\s+RETAIN\s+\d+\s+HOURS)?)(?P<dry>(?:\s+DRY\s+RUN)?)": _says(
            f"VACUUM {{table}}{{rest}} TRANSACTIONS {_FOREVER} HOURS{{dry}}"
        ),
        r"VACUUM\s+.*": _refuses("VACUUM [FULL | LITE] [RETAIN n HOURS] [DRY RUN]"),
        r"(?:DESCRIBE|DESC)\s+HISTORY(?P<limit>(?:\s+LIMIT\s+\d+)?)": _says(
            "SELECT version, committed_at AS timestamp, operation FROM {snapshots} ORDER BY version DESC{limit}"
        ),
        r"(?:DESCRIBE|DESC)\s+DETAIL": _says(
            "SELECT 'lance_flight' AS format, count(*) AS partitions, sum(files) AS files, sum(rows) AS rows, sum(bytes) AS bytes,"
            " max(last_change) AS last_modified FROM {partitions}"
        ),
        r"RESTORE\s+(?:TO\s+)?(?:VERSION\s+AS\s+OF\s+(?P<version>\d+)|TIMESTAMP\s+AS\s+OF\s+'(?P<time>[^']+)')": _restore,
    }
)
"""Statements of Iceberg's and Delta's, after which nothing follows: each with what the service does in its place."""
