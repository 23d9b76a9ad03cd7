"""Names that lead out of the root, in every place that takes a name: none is followed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lance_flight.flight import wire

from tests.hostile.outside import ANSWERS, SECRET, Guarded
from tests.service.server_process import files

BAD = {
    "above": "../outside",
    "above, with its ending": "../outside.lance",
    "far above": "../../../../../../etc/passwd",
    "above alone": "..",
    "here": ".",
    "through another": "t/../../outside",
    "inside another": "plain.lance/data",
    "the manifest": "t/__manifest",
    "absolute": "/etc/passwd",
    "a URL of a file": "file:///etc/passwd",
    "a URL of a bucket": "s3://bucket/key",
    "backslashes": "..\\outside",
    "escaped": "%2e%2e%2foutside",
    "escaped twice": "%252e%252e%252foutside",
    "wide dots": "\uff0e\uff0e/outside",
    "an overlong slash": "..\u2215outside",
    "a zero": "t\x00/../outside",
    "a line": "t\n../outside",
    "the private directory": ".lance-flight",
    "its key": ".lance-flight/ticket.key",
    "a home": "~/outside",
    "a variable": "$HOME/outside",
    "a command": "$(touch pwned)",
    "another schema's": "../space/outside",
    "nothing": "",
    "a space": " ",
    "too long": "a" * 5000,
    "a quote": 'x"; DROP TABLE public.t; --',
    "an apostrophe": "x'; DROP TABLE public.t; --",
}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


Place = Callable[[Guarded, str], object]


def sql(statement: str) -> Place:
    """A statement, with the name in quotes where it says NAME, and as a text where it says TEXT."""

    def run(target: Guarded, name: str) -> object:
        return target.run(statement.replace("NAME", quoted(name)).replace("TEXT", text(name)))

    return run


def ingest(*modes: int, **where: str) -> Place:
    """An ingest, with what to do where its table is missing and where it is there."""
    if_not_exist, if_exists = modes

    def run(target: Guarded, name: str) -> object:
        at = {"table": "made"} | {key: name if value == "NAME" else value for key, value in where.items()}
        options = wire.TableDefinitionOptions(if_not_exist=if_not_exist, if_exists=if_exists)
        return target.ingest(wire.StatementIngest(table_definition_options=options, **at))

    return run


def under(setting: str) -> Place:
    """A setting of the session, and a query under it."""

    def run(target: Guarded, name: str) -> object:
        try:
            target.run(setting.replace("NAME", quoted(name)).replace("TEXT", text(name)))
            return target.run("SELECT * FROM outside")
        finally:
            target.run("SET schema = 'public'")
            target.run("SET branch = 'main'")

    return run


CREATE, FAIL, APPEND, REPLACE = 1, 2, 2, 3
PLACES: dict[str, Place] = {
    "SELECT FROM": sql("SELECT * FROM NAME"),
    "SELECT FROM a schema": sql("SELECT * FROM NAME.outside"),
    "SELECT FROM a catalog": sql("SELECT * FROM NAME.public.t"),
    "SELECT FROM a point": sql("SELECT * FROM NAME"),
    "CREATE TABLE": sql("CREATE TABLE NAME (id BIGINT)"),
    "CREATE TABLE in a schema": sql("CREATE TABLE NAME.made (id BIGINT)"),
    "CREATE a partitioned TABLE": sql("CREATE TABLE NAME (id BIGINT) PARTITIONED BY (id)"),
    "CREATE TABLE AS": sql("CREATE TABLE NAME AS SELECT 1 AS id"),
    "DROP TABLE": sql("DROP TABLE NAME"),
    "DROP TABLE of a schema": sql("DROP TABLE NAME.outside"),
    "INSERT": sql("INSERT INTO NAME VALUES (1)"),
    "INSERT OVERWRITE": sql("INSERT OVERWRITE NAME VALUES (1)"),
    "UPDATE": sql("UPDATE NAME SET id = 2"),
    "DELETE": sql("DELETE FROM NAME"),
    "TRUNCATE": sql("TRUNCATE TABLE NAME"),
    "MERGE": sql("MERGE INTO NAME USING t ON 1 = 1 WHEN MATCHED THEN DELETE"),
    "DESCRIBE": sql("DESCRIBE NAME"),
    "DESCRIBE NAMESPACE": sql("DESCRIBE NAMESPACE NAME"),
    "DESCRIBE NAMESPACE of a text": sql("DESCRIBE NAMESPACE t TEXT"),
    "SHOW PARTITIONS": sql("SHOW PARTITIONS NAME"),
    "RENAME TO": sql("ALTER TABLE t RENAME TO NAME"),
    "RENAME of a plain table": sql("ALTER TABLE plain RENAME TO NAME"),
    "RENAME from": sql("ALTER TABLE NAME RENAME TO u"),
    "CREATE TAG": sql("ALTER TABLE t CREATE TAG NAME"),
    "CREATE TAG AS OF": sql("ALTER TABLE t CREATE TAG u AS OF TEXT"),
    "DROP TAG": sql("ALTER TABLE t DROP TAG NAME"),
    "ROLLBACK TO": sql("ALTER TABLE t ROLLBACK TO TEXT"),
    "CREATE BRANCH": sql("ALTER TABLE t CREATE BRANCH NAME"),
    "PUBLISH BRANCH": sql("ALTER TABLE t PUBLISH BRANCH NAME"),
    "DROP BRANCH": sql("ALTER TABLE t DROP BRANCH NAME"),
    "ATTACH TABLE": sql("ALTER TABLE t ATTACH TABLE TEXT PARTITION (p = 'new')"),
    "ATTACH TABLE TRUSTED": sql("ALTER TABLE t ATTACH TABLE TEXT PARTITION (p = 'new') TRUSTED"),
    "DETACH PARTITION TO": sql("ALTER TABLE t DETACH PARTITION (p = 'a') TO NAME"),
    "table_changes": sql("SELECT * FROM table_changes(TEXT, 1, 2)"),
    "VACUUM": sql("VACUUM NAME DRY RUN"),
    "VERIFY": sql("VERIFY TABLE NAME"),
    "REPAIR": sql("REPAIR TABLE NAME DRY RUN"),
    "MIGRATE": sql("MIGRATE TABLE NAME DRY RUN"),
    "COMPACT": sql("ALTER TABLE NAME COMPACT"),
    "REWRITE": sql("ALTER TABLE NAME REWRITE PARTITIONS"),
    "the schema of a session": under("SET schema = TEXT"),
    "the branch of a session": under("SET branch = TEXT"),
    "USE": under("USE lance.NAME"),
    "an ingest": ingest(CREATE, 1, table="NAME"),
    "an ingest into what is there": ingest(FAIL, APPEND, table="NAME"),
    "an ingest in place of what is there": ingest(CREATE, REPLACE, table="NAME"),
    "an ingest into a schema": ingest(CREATE, APPEND, schema="NAME"),
    "an ingest into a catalog": ingest(CREATE, APPEND, catalog="NAME"),
}

MEANT = {
    "CREATE TABLE in a schema": "the schema of the session",
    "DETACH PARTITION TO": "the name that is made of the partition's values",
    "an ingest into a schema": "the schema of the session",
    "an ingest into a catalog": "the only catalog",
}
"""Where no name at all means something."""


@pytest.mark.parametrize("place", PLACES)
def test_no_name_leads_out_of_the_root(target: Guarded, place: str) -> None:
    inside, outside, taken = files(target.root), target.outside(), []
    tried = {what: name for what, name in BAD.items() if name or place not in MEANT}
    for what, name in tried.items():
        try:
            answer = PLACES[place](target, name)
        except ANSWERS as error:
            message = str(error)
            assert SECRET not in message, what
            assert "root:" not in message, what
            assert "[internal]" not in message, what
            continue
        assert SECRET not in str(answer), what
        taken.append(what)
    assert taken == []
    assert target.outside() == outside
    assert files(target.root) == inside
    assert target.server.value("SELECT count(*) FROM t") == 2
    TRIED[place] = len(tried)


TRIED: dict[str, int] = {}


def test_how_many_names_were_tried(say: Callable[[str], None]) -> None:
    say(f"hostile names: {len(TRIED)} places, {sum(TRIED.values())} names, accepted 0")
