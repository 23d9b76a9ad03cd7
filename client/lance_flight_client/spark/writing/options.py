"""The options of `df.write.format("lance_flight")` as one value, every problem of theirs named at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lance_flight.errors import InvalidInput
from lance_flight.model.file_versions import FILE_VERSIONS

from lance_flight_client.spark.options import STORAGE, NamedTable, OptionReading, unknown

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "root": "the directory or object-store URI of the tables; executors write there themselves",
        "table": "table to read: name or schema.name, quoted if a part contains a dot",
        "partition_by": "how the table is partitioned if it has to be made, as in SQL: year(ts), bucket(16, id), country",
        "stable_row_ids": "whether the rows of a table that has to be made keep their ids: true, or false (as without)",
        "file_version": "the version of Lance's file format of a table that has to be made: 2.0, 2.1 or 2.2 (as without)",
        "overwrite": "with mode overwrite: what is replaced, the partitions that get rows (as without) or the table",
        "commit_id": "a name for this write: it is committed once, however often it is run",
        "snapshot": "the version that the rows were computed from: what they replace must not have changed since",
        "report": "a file on the driver that is made when all is committed: JSON with version, rows and partitions",
    }
)
"""Every option, and what it means; beside them there are storage options."""

PARTITIONS, TABLE = "partitions", "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What is written to, and how; `replaces` is `PARTITIONS`, `TABLE`, or None for rows that are added."""

    root: str
    table: NamedTable
    replaces: str | None = None
    partition_by: str | None = None
    stable_row_ids: bool = False
    file_version: str | None = None
    commit_id: str | None = None
    snapshot: int | None = None
    report: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, root: str, table: str, storage: Mapping[str, str]) -> WriteOptions:
        """A table by what the options call it: `table` as in SQL, `storage` without the prefix."""
        where = {"root": root, "table": table} | {f"{STORAGE}{name}": value for name, value in storage.items()}
        return cls.parse(where, overwrite=False)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
        """Read options as Spark gives them; `InvalidInput` names everything that is wrong with them.

        >>> WriteOptions.parse({"root": "/data", "table": "flights"}, overwrite=True).replaces
        'partitions'
        """
        given = {name.lower(): value for name, value in options.items()}
        storage = {name.removeprefix(STORAGE): text for name, text in given.items() if name.startswith(STORAGE)}
        plain = {name: text for name, text in given.items() if not name.startswith(STORAGE)}
        reading = OptionReading(plain)
        table, snapshot = reading.table("table"), reading.number("snapshot", least=1)
        keeps_ids = reading.switch("stable_row_ids")
        problems = [
            *unknown(plain, MEANINGS),
            *reading.problems,
            *_versions(plain),
            *_combined(plain, overwrite=overwrite),
        ]
        if problems or table is None:
            raise InvalidInput("options of lance_flight: " + "; ".join(problems))
        return cls(
            root=plain["root"],
            table=table,
            replaces=plain.get("overwrite", PARTITIONS) if overwrite else None,
            partition_by=plain.get("partition_by"),
            stable_row_ids=keeps_ids,
            file_version=plain.get("file_version"),
            commit_id=plain.get("commit_id"),
            snapshot=snapshot,
            report=plain.get("report"),
            storage=storage,
        )


def _versions(given: Mapping[str, str]) -> Iterator[str]:
    version = given.get("file_version")
    if version is not None and version not in FILE_VERSIONS:
        yield f"'file_version' is {version!r}; expected {', '.join(FILE_VERSIONS)}"


def _combined(given: Mapping[str, str], *, overwrite: bool) -> Iterator[str]:
    for name in ("root", "table"):
        if name not in given:
            yield f"expected {name!r}: {MEANINGS[name]}"
    replaces = given.get("overwrite")
    if replaces is not None and not overwrite:
        yield "'overwrite' goes with .mode(\"overwrite\"), and the mode is append"
    elif replaces not in {None, PARTITIONS, TABLE}:
        yield f"'overwrite' is {replaces!r}; expected {PARTITIONS} or {TABLE}"
