"""Operations that maintain tables: the one table of their arguments and texts.

Commands and their `--help`, statements of SQL, procedures of Spark and its jobs are made of it. What an operation does stands with each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

VALUE = "{}"
"""The place of a value in a clause."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of an operation by its `name`, and what it `means`.

    It is a `flag` of the command, with a value of a `kind` that its help calls `shown`; a `clause` of the statement, in which `{}` stands for the value;
    and a flag of Spark's jobs where it is one `of_jobs`. A flag counts in parts of `per`: 100 for percent.
    """

    name: str
    means: str
    kind: Callable[[str], object] = int
    flag: str = ""
    shown: str = "N"
    clause: str = ""
    of_jobs: bool = False
    per: int = 1


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its `summary`, what it `means`, its statement, with `{table}` for the table, its procedure in Spark, arguments and privileges."""

    summary: str
    means: str
    statement: str
    procedure: str
    arguments: Sequence[Argument] = ()
    privileges: Sequence[str] = ("ADMIN", "SELECT")
    only_partitioned: bool = False

    @property
    def clauses(self) -> Mapping[str, str]:
        """Return the clause of each argument that SQL has, by its name."""
        return {each.name: each.clause for each in self.arguments if each.clause}


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
                Argument("files", "compact partition tables with more files than this", flag="--files"),
                Argument(
                    "deleted", "compact files of which more is deleted, too", float, "--deleted", "PERCENT", per=100
                ),
                Argument("target_rows", "rows from which a file stays as it is", flag="--target-rows", of_jobs=True),
                Argument("tables_per_commit", "partition tables that one commit updates", flag="--tables-per-commit"),
            ),
            ("ADMIN",),
        ),
        "reindex": Operation(
            "add new rows to the indices",
            "Add the rows to each index that were written since it was built, as REINDEX does. `compact` includes it.",
            "REINDEX {table}",
            "reindex",
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
            only_partitioned=True,
        ),
        "vacuum": Operation(
            "remove expired snapshots and files of aborted transactions",
            "Remove expired snapshots, the versions and files of partition tables that no retained snapshot needs, and the files of"
            " aborted transactions. The newest snapshot, tagged snapshots, branch points and snapshots that are being read are"
            " retained. Snapshots are retained for seven days after they were replaced, and uncommitted files for two hours, unless"
            " less is forced.",
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
        ),
        "repair": Operation(
            "find and repair damaged metadata",
            "Find damage in a table: a newest version that cannot be read, and in a __manifest partition columns that a writer without"
            " support for them dropped, rows without their table or pinned version, and partition values with several tables."
            " Without --apply nothing is changed. The exit status is 1 if damage remains.",
            "REPAIR TABLE {table}",
            "repair",
            (DRY_RUN,),
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
            (DRY_RUN,),
            ("ADMIN",),
        ),
    }
)
