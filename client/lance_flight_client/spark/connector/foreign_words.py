"""Words of Iceberg's and Delta's users in a catalog: procedures and statements, each as one of the service's own."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from lance_flight.errors import InvalidInput, Unsupported

from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.backends import SqlRunner
from lance_flight_client.spark.connector.definitions import CALENDAR
from lance_flight_client.spark.options import NamedTable

_NAME = r"(?:`(?:[^`]|``)+`|[\w-]+)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOREVER = 24 * 366 * 100
"""Hours for which a VACUUM that is only about uncommitted files retains snapshots."""


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


def _expire(table: str, given: Mapping[str, str | None]) -> str:
    hours = _hours(given["older_than"], "older_than")
    return f"VACUUM {table}" + ("" if hours is None else f" RETAIN {hours} HOURS")


def _remove_orphans(table: str, given: Mapping[str, str | None]) -> str:
    hours = _hours(given["older_than"], "older_than")
    return (
        f"VACUUM {table} RETAIN {_FOREVER} HOURS"
        + ("" if hours is None else f" TRANSACTIONS {hours} HOURS")
        + " DRY RUN" * (given["dry_run"] == "true")
    )


def _rewrite(table: str, given: Mapping[str, str | None]) -> str:
    if (given["strategy"] or "binpack").lower() != "binpack":
        raise Unsupported(
            f"strategy {given['strategy']!r}; expected binpack, and rows sorted by the option 'sort_by' of a write"
        )
    return f"ALTER TABLE {table} COMPACT"


def _fast_forward(table: str, given: Mapping[str, str | None]) -> str:
    if given["branch"] != "main":
        raise Unsupported(
            f"fast_forward of branch {given['branch']!r}; expected 'main', which a branch takes the place of"
        )
    return f"ALTER TABLE {table} PUBLISH BRANCH {quote_name(given['to'] or '')}"


def _ancestors(table: str, given: Mapping[str, str | None]) -> str:
    upto = "" if given["snapshot_id"] is None else f" WHERE version <= {int(given['snapshot_id'])}"
    listed = f'{table[:-1]}$snapshots"'
    return f"SELECT version AS snapshot_id, committed_at AS timestamp FROM {listed}{upto} ORDER BY version DESC"  # noqa: S608 - quoted


@dataclass(frozen=True, slots=True)
class ForeignProcedure:
    """A procedure of Iceberg's whose meaning a statement of the service has; `types` are those of its parameters."""

    description: str
    types: Mapping[str, str]
    statement: Callable[[str, Mapping[str, str | None]], str]
    required: tuple[str, ...] = ("table",)
    reports: bool = True


def _rollback(point: Callable[[str], str], name: str) -> Callable[[str, Mapping[str, str | None]], str]:
    return lambda table, given: f"ALTER TABLE {table} ROLLBACK TO {point(given[name] or '')}"


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
            "Remove old snapshots, as vacuum does", MappingProxyType({**_TABLE, "older_than": "timestamp"}), _expire
        ),
        "remove_orphan_files": ForeignProcedure(
            "Remove files of transactions that were aborted, as vacuum does",
            MappingProxyType({**_TABLE, "older_than": "timestamp", "dry_run": "boolean"}),
            _remove_orphans,
        ),
        "rewrite_data_files": ForeignProcedure(
            "Rewrite small files, as compact does", MappingProxyType({**_TABLE, "strategy": "string"}), _rewrite
        ),
        "ancestors_of": ForeignProcedure(
            "List the versions up to one", MappingProxyType({**_TABLE, "snapshot_id": "long"}), _ancestors
        ),
    }
)

NO_PROCEDURES: Mapping[str, str] = MappingProxyType(
    {
        "cherrypick_snapshot": "create_branch and publish_branch: write to a branch, and publish it",
        "publish_changes": "publish_branch: write to a branch, and publish it",
        "rewrite_manifests": "nothing: a table has one manifest",
        "rewrite_position_delete_files": "compact",
        "add_files": "INSERT INTO … SELECT * FROM parquet.`path`, or ALTER TABLE … ATTACH TABLE by the service's SQL",
        "snapshot": "CREATE TABLE … AS SELECT, or create_branch",
        "register_table": "nothing: a table in the root is registered",
        "compute_table_stats": "nothing: counts and extremes are kept as rows are written",
        "compute_partition_stats": "nothing: counts and extremes are kept as rows are written; see t.partitions",
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
    unknown = sorted(options.keys() - {_START, _END})
    if unknown or (_END in options and _START not in options):
        raise Unsupported(
            f"create_changelog_view with {', '.join(map(repr, options))}; expected {_START!r}, and {_END!r} with it"
        )
    bounds = [str(int(options[name])) for name in (_START, _END) if name in options]
    return given["changelog_view"] or f"{table.rpartition('.')[2]}_changes", "_".join(["changes", *bounds])


_START, _END = "start-snapshot-id", "end-snapshot-id"


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
            f"CREATE {kind} … {match['rest']}: expected no retention; each one is kept until it is dropped"
        )
    if match["unless"] and _is_named(asked, table, kind, name):
        return None
    point = f" AS OF {match['version']}" if match["version"] else ""
    verb = match["verb"].upper()
    if verb not in {"CREATE", "REPLACE"}:
        verb = "REPLACE" if _is_named(asked, table, kind, name) else "CREATE"
    return f"ALTER TABLE {_sql(table)} {verb} {kind} {quote_name(name)}{point}", False


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


def _require(asked: SqlRunner, table: NamedTable, match: re.Match[str]) -> tuple[str, bool]:
    del asked
    return f"ALTER TABLE {_sql(table)} ALTER COLUMN {_column_text(match['column'])} SET NOT NULL", False


_NO_STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
        r"(?:CREATE|DROP)\s+INDEX": "CREATE INDEX ON t (column) USING …, or DROP INDEX i ON t, by the service's SQL",
        r"CREATE\b.*\bCLONE": "CREATE TABLE … LIKE and INSERT … SELECT, or ALTER TABLE … CREATE BRANCH",
        "GENERATE": "nothing: any reader of Lance opens a partition by itself",
        r"(?:FSCK\s+|MSCK\s+)?REPAIR": "VERIFY TABLE and REPAIR TABLE by the service's SQL, or CALL … .system.verify('t')",
        "REORG": "OPTIMIZE, which leaves deleted rows out",
        r"COPY\s+INTO": "INSERT INTO t SELECT * FROM parquet.`path`, or a job file with a commit_id for each file",
        r"ALTER TABLE\s+(?:ADD|DROP)\s+FEATURE": "nothing: a table has no features to switch",
        "ANALYZE": "nothing: counts and extremes are kept as rows are written",
    }
)
"""Statements of others that have no like here, by their first words, with what to do instead."""

_STATEMENTS: Mapping[str, _Meaning] = MappingProxyType(
    {
        r"ALTER TABLE\s+(?P<verb>ADD|DROP)\s+PARTITION\s+FIELD\s+(?P<fields>.+)": _change_fields,
        r"ALTER TABLE\s+(?P<verb>REPLACE)\s+PARTITION\s+FIELD\s+(?P<fields>.+?)\s+WITH\s+(?P<replacing>.+)": _change_fields,
        r"ALTER TABLE\s+(?:CREATE\s+OR\s+)?REPLACE\s+BRANCH\b.*": _refuses(
            "DROP BRANCH, and CREATE BRANCH … AS OF VERSION"
        ),
        rf"ALTER TABLE\s+(?P<verb>CREATE(?:\s+OR\s+REPLACE)?|REPLACE)\s+(?P<kind>BRANCH|TAG)\s+(?P<unless>IF\s+NOT\s+EXISTS\s+)?(?P<name>{_NAME})"
        r"(?:\s+AS\s+OF\s+VERSION\s+(?P<version>\d+))?\s*(?P<rest>.*)": _make_named,
        rf"ALTER TABLE\s+DROP\s+(?P<kind>BRANCH|TAG)\s+(?P<if>IF\s+EXISTS\s+)?(?P<name>{_NAME})": _drop_named,
        rf"ALTER TABLE\s+(?:ALTER|CHANGE)\s+(?:COLUMN\s+)?(?P<column>{_NAME}(?:\.{_NAME})*)\s+SET\s+NOT\s+NULL": _require,
        r"ALTER TABLE\s+DROP\s+PARTITION\s*(?P<values>\([^`]*\))": _says(
            "ALTER TABLE {table} DROP PARTITION {values}", reports=False
        ),
        r"ALTER TABLE\s+ADD\s+.*PARTITION\b.*": _refuses("nothing: partitions appear as rows arrive"),
        r"ALTER TABLE\s+DROP\s+.*PARTITION\b.*": _refuses("ALTER TABLE … DROP PARTITION (field = value, …)"),
        r"SHOW\s+PARTITIONS": _says("SHOW PARTITIONS {table}"),
        r"SHOW\s+PARTITIONS\s+.*": _refuses("SELECT … FROM t.partitions WHERE …"),
        **{rf"{verb}\b.*": _refuses(instead) for verb, instead in _NO_STATEMENTS.items()},
        r"ALTER TABLE\s+WRITE\s+.*": _refuses("the options 'distribution' and 'sort_by' of a write"),
        r"ALTER TABLE\s+(?:SET|DROP)\s+IDENTIFIER\s+FIELDS\s+.*": _refuses(
            "ALTER TABLE … ADD CONSTRAINT name PRIMARY KEY (column, …), or DROP CONSTRAINT"
        ),
        r"OPTIMIZE": _says("ALTER TABLE {table} COMPACT"),
        r"OPTIMIZE\s+.*": _refuses("OPTIMIZE of a whole table, and rows sorted by the option 'sort_by' of a write"),
        r"VACUUM(?:\s+FULL)?(?P<rest>(?:\s+RETAIN\s+\d+\s+HOURS)?(?:\s+DRY\s+RUN)?)": _says("VACUUM {table}{rest}"),
        r"VACUUM\s+.*": _refuses("VACUUM [RETAIN n HOURS] [DRY RUN], which looks at all files"),
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
