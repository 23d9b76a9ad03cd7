"""The options of `df.write.format("lance_flight")` as one value, every problem of theirs named at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lance_flight.errors import InvalidInput

from lance_flight_client.spark.options import STORAGE, NamedTable, OptionReading, meanings, option, parted, unknown

PARTITIONS, TABLE = "partitions", "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a write, each declared once: the target, and how it is written."""

    root: str = option("the directory or object-store URI of the tables; executors write there themselves")
    table: NamedTable = option(  # noqa: RUF009 - a field
        "table to write: name or schema.name, quoted if a part contains a dot", OptionReading.table
    )
    partition_by: str | None = option(
        "how the table is partitioned if it has to be made, as in SQL: year(ts), bucket(16, id), country"
    )
    stable_row_ids: bool = option(
        "whether the rows of a table that has to be made keep their ids: true, or false (as without)",
        OptionReading.switch,
    )
    file_version: str | None = option(
        "the version of Lance's file format of a table that has to be made: 2.0, 2.1 or 2.2 (as without)",
        OptionReading.file_version,
    )
    overwrite: str | None = option(
        "with mode overwrite: what is replaced, the partitions that get rows (as without) or the table"
    )
    commit_id: str | None = option("a name for this write: it is committed once, however often it is run")
    snapshot: int | None = option(
        "the version that the rows were computed from: what they replace must not have changed since",
        OptionReading.number,
    )
    report: str | None = option(
        "a file on the driver that is made when all is committed: JSON with version, rows and partitions"
    )
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def replaces(self) -> str | None:
        """Return what is replaced: `PARTITIONS`, `TABLE`, or None for rows that are added."""
        return self.overwrite

    @classmethod
    def of(cls, root: str, table: str, storage: Mapping[str, str]) -> WriteOptions:
        """Return a table by what the options call it: `table` as in SQL, `storage` without the prefix."""
        where = {"root": root, "table": table} | {f"{STORAGE}{name}": value for name, value in storage.items()}
        return cls.parse(where, overwrite=False)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
        """Read options as Spark gives them; `InvalidInput` names everything that is wrong with them.

        >>> WriteOptions.parse({"root": "/data", "table": "flights"}, overwrite=True).replaces
        'partitions'
        """
        plain, storage = parted(options)
        reading = OptionReading(plain)
        values = reading.values(cls) | {"overwrite": plain.get("overwrite", PARTITIONS) if overwrite else None}
        problems = [*unknown(plain, meanings(cls)), *reading.problems, *_combined(plain, overwrite=overwrite)]
        if problems:
            raise InvalidInput("options of lance_flight: " + "; ".join(problems))
        return cls(**values, storage=storage)


def _combined(given: Mapping[str, str], *, overwrite: bool) -> Iterator[str]:
    for name in ("root", "table"):
        if name not in given:
            yield f"expected {name!r}: {meanings(WriteOptions)[name]}"
    replaces = given.get("overwrite")
    if replaces is not None and not overwrite:
        yield "'overwrite' goes with .mode(\"overwrite\"), and the mode is append"
    elif replaces not in {None, PARTITIONS, TABLE}:
        yield f"'overwrite' is {replaces!r}; expected {PARTITIONS} or {TABLE}"
