"""SQL, and Substrait, that would read or write files of the server's machine: none of it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lance_flight.flight import wire
from substrait.algebra_pb2 import ReadRel, Rel, RelRoot
from substrait.plan_pb2 import Plan, PlanRel
from substrait.type_pb2 import NamedStruct, Type

from tests.hostile.outside import ANSWERS, SECRET, Guarded, described
from tests.service.server_process import files

READING = [
    "SELECT * FROM 'FILE.EXT'",
    'SELECT * FROM "FILE.EXT"',
    "SELECT * FROM `FILE.EXT`",
    "SELECT * FROM FILE.EXT",
    "SELECT * FROM file('FILE.EXT')",
    "SELECT * FROM read_EXT('FILE.EXT')",
    "SELECT * FROM read_EXT_auto('FILE.EXT')",
    "SELECT * FROM EXT_scan('FILE.EXT')",
    "SELECT * FROM EXT_metadata('FILE.EXT')",
    "SELECT * FROM glob('FILE.*')",
    "SELECT * FROM read_text('FILE.EXT')",
    "SELECT * FROM read_blob('FILE.EXT')",
    "SELECT * FROM lance_scan('FILE.EXT')",
    "SELECT * FROM lance.'FILE.EXT'",
    "SELECT * FROM TABLE(read_EXT('FILE.EXT'))",
    "SELECT pg_read_file('FILE.EXT')",
    "SELECT load_file('FILE.EXT')",
    "SELECT readfile('FILE.EXT')",
    "SELECT (SELECT word FROM 'FILE.EXT')",
    "WITH x AS (SELECT * FROM 'FILE.EXT') SELECT * FROM x",
    "SELECT * FROM t WHERE p IN (SELECT word FROM 'FILE.EXT')",
    "EXPLAIN SELECT * FROM 'FILE.EXT'",
    "EXPLAIN ANALYZE SELECT * FROM 'FILE.EXT'",
    "DESCRIBE 'FILE.EXT'",
    "INSERT INTO t SELECT 1, word FROM 'FILE.EXT'",
    "CREATE TABLE made AS SELECT * FROM 'FILE.EXT'",
    "CREATE VIEW made AS SELECT * FROM 'FILE.EXT'",
    "CREATE EXTERNAL TABLE made STORED AS EXT LOCATION 'FILE.EXT'",
    "CREATE EXTERNAL TABLE made (word VARCHAR) STORED AS EXT LOCATION 'file://FILE.EXT'",
    "CREATE UNBOUNDED EXTERNAL TABLE made (word VARCHAR) STORED AS EXT LOCATION 'FILE.EXT'",
    "COPY t FROM 'FILE.EXT'",
    "LOAD DATA INPATH 'FILE.EXT' INTO TABLE t",
    "IMPORT DATABASE 'FILE.EXT'",
    "ATTACH 'FILE.EXT' AS made",
    "ATTACH DATABASE 'FILE.EXT' AS made",
    "UPDATE t SET p = (SELECT word FROM 'FILE.EXT')",
    "DELETE FROM t WHERE p IN (SELECT word FROM 'FILE.EXT')",
    "MERGE INTO t USING 'FILE.EXT' AS s ON t.p = s.word WHEN MATCHED THEN DELETE",
    "ALTER TABLE t ATTACH TABLE 'FILE.EXT' PARTITION (p = 'new') TRUSTED",
]
WRITING = [
    "COPY t TO 'PLACE/made.EXT'",
    "COPY (SELECT * FROM t) TO 'PLACE/made.EXT' STORED AS EXT",
    "COPY (SELECT * FROM t) TO 'PLACE' STORED AS EXT",
    "EXPLAIN COPY t TO 'PLACE/made.EXT'",
    "EXPLAIN ANALYZE COPY t TO 'PLACE/made.EXT'",
    "EXPORT DATABASE 'PLACE'",
    "UNLOAD (SELECT * FROM t) TO 'PLACE/made.EXT' WITH (format = 'EXT')",
    "SELECT * FROM t INTO OUTFILE 'PLACE/made.EXT'",
    "SELECT * INTO 'PLACE/made.EXT' FROM t",
    "INSERT INTO 'PLACE/made.EXT' SELECT * FROM t",
    "INSERT OVERWRITE DIRECTORY 'PLACE' SELECT * FROM t",
    "CREATE EXTERNAL TABLE made (id INT) STORED AS EXT LOCATION 'PLACE/made/'",
    "CREATE TABLE made (id INT) LOCATION 'PLACE/made'",
    "CREATE TABLE made (id INT) WITH (location = 'PLACE/made')",
    "CREATE FUNCTION made AS 'PLACE/made.so'",
    "CREATE SCHEMA made LOCATION 'PLACE/made'",
    "CREATE DATABASE made",
    "SET datafusion.catalog.location = 'PLACE'",
    "SET datafusion.runtime.temp_directory = 'PLACE'",
    "INSTALL httpfs",
    "LOAD 'PLACE/made.so'",
]
ENDINGS = ("csv", "json", "parquet", "arrow", "txt", "lance")


def statements(target: Guarded) -> Iterator[str]:
    """Every statement, with every file, by each of its names."""
    place = str(target.place)
    names = (f"{place}/secret", f"file://{place}/secret", "../secret")
    for ending in ENDINGS:
        for sql in READING:
            yield from (sql.replace("FILE", name).replace("EXT", ending) for name in names)
        yield from (sql.replace("PLACE", place).replace("EXT", ending) for sql in WRITING)


def test_no_statement_reads_or_writes_a_file(target: Guarded, say: Callable[[str], None]) -> None:
    inside, outside, tried, taken = files(target.root), target.outside(), 0, []
    for sql in statements(target):
        tried += 1
        try:
            answer = str(target.run(sql))
        except ANSWERS as error:
            answer = str(error)
            assert "[internal]" not in answer, sql
        else:
            taken.append(sql)
        assert SECRET not in answer, sql
    assert taken == []
    assert (files(target.root), target.outside()) == (inside, outside)
    assert target.server.process.poll() is None
    say(f"hostile statements: {tried} that read or write files, accepted 0, crashes 0")


def plan(read: ReadRel) -> Plan:
    """A Substrait plan that reads `word` from somewhere."""
    text = Type(string=Type.String(nullability=Type.NULLABILITY_NULLABLE))
    read.base_schema.CopyFrom(
        NamedStruct(names=["word"], struct=Type.Struct(types=[text], nullability=Type.NULLABILITY_REQUIRED))
    )
    return Plan(relations=[PlanRel(root=RelRoot(input=Rel(read=read), names=["word"]))])


def local_files(uri: str, ending: str, key: str) -> ReadRel:
    item = ReadRel.LocalFiles.FileOrFiles(**{key: uri})
    if ending in {"parquet", "arrow"}:
        getattr(item, ending).SetInParent()
    return ReadRel(local_files=ReadRel.LocalFiles(items=[item]))


def reads(target: Guarded) -> Iterator[tuple[str, ReadRel]]:
    for ending in ENDINGS:
        for name in (
            f"{target.place}/secret.{ending}",
            f"file://{target.place}/secret.{ending}",
            f"../secret.{ending}",
        ):
            for key in ("uri_path", "uri_path_glob", "uri_file", "uri_folder"):
                yield f"{key} {name}", local_files(name, ending, key)
            yield f"table {name}", ReadRel(named_table=ReadRel.NamedTable(names=[name]))
            yield f"table in lance {name}", ReadRel(named_table=ReadRel.NamedTable(names=["lance", "public", name]))


def test_a_plan_of_the_same_shape_reads_a_table(target: Guarded) -> None:
    read = ReadRel(named_table=ReadRel.NamedTable(names=["words"]))
    assert answered(target, read) == [{"word": "ours"}]


def answered(target: Guarded, read: ReadRel) -> list[dict[str, object]]:
    """The rows of a plan."""
    client = target.server.client
    command = wire.StatementSubstraitPlan(plan=wire.SubstraitPlan(plan=plan(read).SerializeToString()))
    info = client.get_flight_info(described(command))
    return [row for endpoint in info.endpoints for row in client.do_get(endpoint.ticket).read_all().to_pylist()]


def test_no_plan_reads_a_file(target: Guarded, say: Callable[[str], None]) -> None:
    outside, tried, taken = target.outside(), 0, []
    for what, read in reads(target):
        tried += 1
        try:
            answer = str(answered(target, read))
        except ANSWERS as error:
            answer = str(error)
            assert "[internal]" not in answer, what
        else:
            taken.append(what)
        assert SECRET not in answer, what
    assert taken == []
    assert target.outside() == outside
    assert target.server.process.poll() is None
    say(f"hostile plans: {tried} that read files, accepted 0, crashes 0")
