"""Operations that maintain tables: the one table of their arguments and texts.

Commands and their `--help`, statements of SQL, procedures of Spark, its functions and its jobs are made of it. The function of the
same name in `lance_flight.engine.operations` does the work of an operation for all of them.
"""

from __future__ import annotations

import operator
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from lance_flight.errors import InvalidInput

VALUE = "{}"
"""The place of a value in a clause."""


class Name(str):
    """Name of something in SQL, which a statement quotes."""

    __slots__ = ()


def pair(text: str) -> tuple[str, str]:
    """Return the name and the value of NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise ArgumentTypeError(f"{text!r} is no option; expected NAME=VALUE")
    return name, value


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of an operation by its `name`, and what it `means`.

    It is a `flag` of the command, with a value of a `kind` that its help calls `shown`, or stands by its place where the flag has no dashes;
    a `clause` of the statement, in which `{}` stands for the value (a number needs a word behind it, its unit); and an argument of Spark's functions and jobs where it is one `of_jobs`.
    A flag and a clause count in parts of `per`: 100 for percent. A `pair` may be given several times.
    """

    name: str
    means: str
    kind: Callable[[str], object] = int
    flag: str = ""
    shown: str = "N"
    clause: str = ""
    of_jobs: bool = False
    per: int = 1

    @property
    def is_positional(self) -> bool:
        """True if the command takes it by its place."""
        return bool(self.flag) and not self.flag.startswith("-")


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its `summary`, what it `means`, its statement, with `{table}` for the table, its procedure in Spark, arguments and privileges.

    One without a statement has no procedure. `examples` are those of Spark's job; it has none without. Commands leave plain tables out where it is for
    partitioned ones alone; the statement refuses them where `not_plain` says why. `optional_word` may stand before the table.
    """

    summary: str
    means: str
    statement: str = ""
    procedure: str = ""
    arguments: Sequence[Argument] = ()
    privileges: Sequence[str] = ("ADMIN", "SELECT")
    examples: Sequence[str] = ()
    only_partitioned: bool = False
    not_plain: str = ""
    optional_word: str = ""
    is_cancellable: bool = True
    epilog: str = ""

    @property
    def clauses(self) -> Mapping[str, str]:
        """Return the clause of each argument that SQL has, by its name."""
        return {argument.name: argument.clause for argument in self.arguments if argument.clause}

    @property
    def of_jobs(self) -> Sequence[Argument]:
        """Return the arguments of Spark's function and job."""
        return [argument for argument in self.arguments if argument.of_jobs]


def add_arguments(
    command: ArgumentParser, arguments: Sequence[Argument], defaults: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Declare arguments of an operation, and show numbers among their `defaults`.

    >>> command, arguments = ArgumentParser(), OPERATIONS["create-index"].arguments
    >>> add_arguments(command, arguments)
    >>> given_arguments(command.parse_args(["v", "--option", "metric=cosine", "--option", "num_bits=4"]), arguments)
    {'column': 'v', 'options': {'metric': 'cosine', 'num_bits': '4'}}
    """
    for argument in filter(operator.attrgetter("flag"), arguments):
        default = defaults.get(argument.name)
        shown = f" (default: {default * argument.per:.15g})" if isinstance(default, int | float) else ""
        means = (argument.means + shown).replace("%", "%%")
        if argument.is_positional:
            command.add_argument(argument.name, metavar=argument.flag, help=means)
        elif argument.kind is bool:
            command.add_argument(argument.flag, dest=argument.name, action="store_true", help=argument.means)
        else:
            action = "append" if argument.kind is pair else "store"
            command.add_argument(
                argument.flag, dest=argument.name, action=action, type=argument.kind, metavar=argument.shown, help=means
            )


def given_arguments(options: Namespace, arguments: Sequence[Argument]) -> dict[str, Any]:
    """Return the arguments that a command was given, by their names."""
    values = {argument: getattr(options, argument.name, None) for argument in arguments}
    return {
        argument.name: dict(value) if argument.kind is pair else value if argument.per == 1 else value / argument.per
        for argument, value in values.items()
        if value is not None
    }


DRY_RUN = Argument("dry_run", "print what would be changed, and change nothing", bool, "--dry-run", clause="DRY RUN")

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "compact": Operation(
            "rewrite small files and files with deleted rows",
            "Rewrite small files and files with deleted rows, and update the pins of all affected partition tables in one commit."
            " Readers and writers continue; a partition table that another writer changes first is left unchanged. `vacuum` removes"
            " the replaced files once no retained snapshot needs them.",
            "ALTER TABLE {table} COMPACT",
            "compact",
            (
                Argument(
                    "files", "compact partition tables with more files than this", int, "--files", "N", "OVER {} FILES"
                ),
                Argument(
                    "deleted",
                    "compact files of which more is deleted, too",
                    *(float, "--deleted", "PERCENT", "DELETED {} PERCENT"),
                    per=100,
                ),
                Argument("target_rows", "rows from which a file stays as it is", flag="--target-rows", of_jobs=True),
                Argument("tables_per_commit", "partition tables that one commit updates", flag="--tables-per-commit"),
                Argument("where", "compact tables that may hold such rows", str, "--where", "CONDITION", "WHERE {}"),
            ),
            ("ADMIN",),
            (
                "compact lake flights",
                "compact s3://bucket/lake flights --target-rows 4000000 --storage aws_region=eu-north-1",
            ),
        ),
        # CREATE INDEX is a change with a grammar of its own (`engine.statements.maintenance`), and needs DDL.
        "create-index": Operation(
            "create an index of a column in the partition tables",
            "Create an index of a column in the partition tables, as CREATE INDEX does, in several commits. Readers and writers"
            " continue. Ctrl-C, or a kill, leaves the partition tables indexed that were done, and the same command does the others.",
            arguments=(
                Argument("column", "the column that is indexed", str, "COLUMN", of_jobs=True),
                Argument(
                    "kind",
                    "kind of index, as in CREATE INDEX: btree (the default), bitmap, inverted, ivf_pq, …",
                    *(str, "--kind", "KIND"),
                    of_jobs=True,
                ),
                Argument("name", "what the index is called (default: COLUMN_idx)", str, "--name", "NAME", of_jobs=True),
                Argument(
                    "options",
                    "one of those in WITH (…), as metric=cosine; may be given several times",
                    *(pair, "--option", "NAME=VALUE"),
                    of_jobs=True,
                ),
                Argument(
                    "min_rows",
                    "tables with fewer rows do without (default: as is good for the kind)",
                    flag="--min-rows",
                    of_jobs=True,
                ),
            ),
            examples=(
                "create-index lake flights carrier --kind bitmap",
                "create-index lake flights tailnum",
                "create-index lake docs embedding --kind ivf_pq --option metric=cosine",
            ),
        ),
        "reindex": Operation(
            "add new rows to the indices",
            "Add the rows to each index that were written since it was built, as REINDEX does. `compact` includes it.",
            "REINDEX {table}",
            "reindex",
            (
                Argument(
                    "index",
                    "bring this index alone up to date",
                    *(Name, "--index", "NAME", "INDEX {}"),
                    of_jobs=True,
                ),
            ),
            examples=("reindex lake flights",),
            optional_word="TABLE",
        ),
        "rewrite": Operation(
            "move rows from older partition specs to the current one",
            "Move rows from partition tables of older partition specs to the current spec, in several commits. Readers and writers"
            " continue. After an interruption the same command resumes.",
            "ALTER TABLE {table} REWRITE PARTITIONS",
            "rewrite_partitions",
            (
                Argument(
                    "where",
                    "move tables that may hold such rows",
                    str,
                    "--where",
                    "CONDITION",
                    "WHERE {}",
                    of_jobs=True,
                ),
                Argument("tables", "partition tables that one commit moves at most", flag="--tables-per-commit"),
                Argument("rows", "rows that one commit moves, unless one table has more", flag="--rows-per-commit"),
            ),
            examples=("rewrite lake flights", "rewrite lake flights --where \"origin = 'JFK'\""),
            only_partitioned=True,
            not_plain="has no partitions",
        ),
        "vacuum": Operation(
            "remove expired snapshots and files of aborted transactions",
            "Remove expired snapshots, the versions and files of partition tables that no retained snapshot needs, and the files of"
            " aborted transactions. The newest snapshot, tagged snapshots, branch points and snapshots that are being read are"
            " retained. Snapshots are retained for seven days after they were replaced, and uncommitted files for 24 hours. Less"
            " than seven days, or than two hours, has to be forced.",
            "VACUUM {table}",
            "vacuum",
            (
                Argument("retain_hours", "retain snapshots so long", float, "--retain", "HOURS", "RETAIN {} HOURS"),
                DRY_RUN,
                Argument(
                    "transaction_hours",
                    "age of uncommitted files from which their transaction counts as aborted",
                    *(float, "--transactions", "HOURS", "TRANSACTIONS {} HOURS"),
                ),
                Argument("force", "allow to retain both for less", bool, "--force", clause="FORCE"),
            ),
            ("ADMIN",),
        ),
        "verify": Operation(
            "check that every row is in the partition of its values",
            "Read every row of a snapshot, compute its partition values, and compare them with those of its partition table."
            " Prints each difference, and the row count and checksum of each table; the checksum does not change when rows are"
            " moved, compacted or copied. Data files are compared with the sizes and checksums that were recorded when they were"
            " written. The exit status is 1 if there is a difference. `repair` repairs metadata.",
            "VERIFY TABLE {table}",
            "verify",
            (
                Argument("snapshot", "version of the table; the newest without", flag="--snapshot", of_jobs=True),
                Argument("data", "check the size and the checksum of each data file, and read no rows", bool, "--data"),
                Argument("against", "compare with the files of a backup, too", str, "--against", "BACKUP"),
            ),
            examples=("verify lake flights", "verify lake flights --snapshot 12"),
        ),
        "repair": Operation(
            "find and repair damaged metadata",
            "Find damage in a table: a newest version that cannot be read, and in a __manifest partition columns that a writer without"
            " support for them dropped, rows without their table or pinned version, and partition values with several tables."
            " Without --apply nothing is changed. The exit status is 1 if damage remains.",
            "REPAIR TABLE {table}",
            "repair",
            (
                replace(DRY_RUN, flag=""),
                Argument(
                    "apply", "repair what can be repaired, one commit for each kind of damage", bool, flag="--apply"
                ),
                Argument(
                    "yes", "give up rows that cannot be saved, as the report says, without asking", bool, flag="--yes"
                ),
                Argument(
                    "partition_by",
                    "make a lost __manifest anew from the partition tables of TABLE, which were partitioned like this: year(ts),"
                    " bucket(16, id) …",
                    *(str, "--partition-by", "FIELDS"),
                ),
            ),
            not_plain="has no manifest to repair",
            is_cancellable=False,
        ),
        "migrate": Operation(
            "convert the metadata of other writers to the table metadata of the spec",
            "Bring a root to the formats of this release: partition specs and schemas that another writer keeps in rows of __manifest,"
            " or in its Arrow schema, go to the table metadata; then each partitioned table and its branches go to the newest table"
            " format, and at last the record of the root says that new tables have it, too. Run it when every server, job and program"
            " over the root is of this release: older ones refuse what they do not know. Readers and writers continue. After an"
            " interruption the same command resumes.",
            "MIGRATE TABLE {table}",
            "migrate",
            (
                Argument(
                    "register",
                    "instead, register the plain tables of the root (<name>.lance) in its __manifest, which is created if missing",
                    *(bool, "--register"),
                ),
                DRY_RUN,
            ),
            ("ADMIN",),
            only_partitioned=True,
            not_plain="has no manifest to migrate",
            is_cancellable=False,
            epilog="Examples: lance-flight migrate lake --dry-run; lance-flight migrate lake; lance-flight doctor lake",
        ),
    }
)


def check_least(least: float, **values: float | None) -> None:
    """Refuse the first of some values that is below `least` (None is none); `InvalidInput` names it.

    >>> check_least(0, retain_hours=168.0)
    """
    for name, value in values.items():
        # Not `<`: NaN is not less than anything.
        if value is not None and not value >= least:
            raise InvalidInput(f"{name} is {value}; expected {least:g} or more")
