"""Conditions that stay above a scan are looked up in scalar indices, and find just the rows that they find without any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policy_file import Policies

from tests.engine.database import open_engine
from tests.examples import examples
from tests.search.collection import query, told
from tests.search.layouts import lance_plans

pytestmark = pytest.mark.slow  # a long property

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "tenant": pa.utf8(),
        "tags": pa.list_(pa.utf8()),
        "small": pa.list_(pa.int16()),
        "body": pa.utf8(),
        "name": pa.utf8(),
        "n": pa.int32(),
    }
)
INDEXED = {"tags": "label_list", "small": "label_list", "body": "ngram", "name": "btree", "n": "bitmap"}
TAGS = ["x", "y", "it's", "", "ß", None]
# Of some of these the lower case, or what is left without accents, is longer, shorter, or depends on what follows.
PIECES = [
    "lance",
    "Lance",
    "LANCE",
    "%",
    "_",
    "\\",
    "it's",
    "é",
    "İstanbul",
    "ΑΒΣ",
    "ΑΒΣΑ",
    "straße",
    "Æther",
    "中文字",
    "a.b",
    "12345",
]
PIECES += [" ", "-", "e\u0301te", "ﬁne", "ⅷ", "𝒜𝒷𝒸"]


def rows(count: int, start: int) -> pa.Table:
    chance = np.random.default_rng(start)

    def some(values: list[Any], most: int) -> list[Any]:
        return [values[int(chance.integers(len(values)))] for _ in range(int(chance.integers(most)))]

    def or_null(value: Any) -> Any:
        return None if chance.random() < 0.15 else value

    return pa.Table.from_pylist(
        [
            {
                "id": start + number,
                "tenant": "abc"[int(chance.integers(3))],
                "tags": or_null(some(TAGS, 4)),
                "small": or_null(some([*range(-2, 4), None], 4)),
                "body": or_null("".join(some(PIECES, 5))),
                "name": or_null("".join(some(PIECES, 4))),
                "n": or_null(int(chance.integers(5))),
            }
            for number in range(count)
        ],
        schema=SCHEMA,
    )


LAYOUTS = {
    "partitions": "PARTITIONED BY (tenant)",
    "plain": "",
    "one": "PARTITIONED BY (bucket(1, id))",
    "stable": "PARTITIONED BY (tenant) WITH (stable_row_ids = true)",
}


@pytest.fixture(scope="module", params=LAYOUTS)
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Rows that indices are about, rows that came later, deleted and changed ones, and the same rows without an index."""
    of = open_engine(tmp_path_factory.mktemp("docs") / "root")
    for name, layout in (("docs", LAYOUTS[request.param]), ("twin", "")):
        of.update(
            f"CREATE TABLE {name} (id BIGINT, tenant VARCHAR, tags VARCHAR[], small SMALLINT[], body VARCHAR, name VARCHAR,"
            f" n INT) {layout}"
        )
    store(of, rows(400, 0))
    for column, kind in INDEXED.items():
        of.update(f"CREATE INDEX {column}_idx ON docs ({column}) USING {kind} WITH (min_rows = 1)")
    store(of, rows(60, 1000))
    return of


@pytest.fixture(scope="module", params=["some rows are not indexed", "after changes", "reindexed"])
def state(docs: Engine, request: pytest.FixtureRequest) -> Engine:
    """The same, with what was changed since."""
    for name in ("docs", "twin") if request.param == "after changes" else ():
        docs.update(f"DELETE FROM {name} WHERE id % 7 = 2")
        docs.update(f"UPDATE {name} SET body = 'Lance 12345', tags = ['y'] WHERE id % 11 = 3")
    if request.param == "reindexed":
        query(docs, "REINDEX docs")
    return docs


def store(of: Engine, table: pa.Table) -> None:
    for name in ("docs", "twin"):
        of.ingest(TableName(PUBLIC, name), table.to_reader(), create_missing=False, existing=IfExists.APPEND)


def found(of: Engine, condition: str, table: str) -> list[int]:
    return sorted(row["id"] for row in query(of, f"SELECT id FROM {table} WHERE {condition}"))


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def elements(values: list[Any]) -> str:
    return (
        "["
        + ", ".join("NULL" if each is None else text(each) if isinstance(each, str) else str(each) for each in values)
        + "]"
    )


words = st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
patterns = st.lists(st.sampled_from([*PIECES, "%", "_", "%%", "\\%", "\\_", "\\\\"]), max_size=5).map("".join)
of_tags = st.lists(st.sampled_from(TAGS), min_size=1, max_size=3).filter(any)
of_small = st.lists(st.sampled_from([-2, 0, 3, 70_000, None]), min_size=1, max_size=3).filter(
    lambda some: some != [None] * len(some)
)
leaves = st.one_of(
    st.sampled_from([each for each in TAGS if each is not None]).map(lambda tag: f"array_has(tags, {text(tag)})"),
    st.sampled_from(TAGS[:3]).map(lambda tag: f"{text(tag or '')} = ANY(tags)"),
    of_tags.map(lambda some: f"array_has_any(tags, {elements(some)})"),
    of_tags.map(lambda some: f"array_has_all(tags, {elements(some)})"),
    st.sampled_from([-2, 0, 3, 9, 70_000]).map(lambda number: f"array_has(small, {number})"),
    of_small.map(lambda some: f"array_has_any(small, {elements(some)})"),
    of_small.map(lambda some: f"array_has_all(small, {elements(some)})"),
    words.map(lambda word: f"contains(body, {text(word)})"),
    patterns.map(lambda pattern: f"body LIKE {text(pattern)}"),
    patterns.map(lambda pattern: f"body ILIKE {text(pattern)}"),
    words.map(lambda word: f"starts_with(name, {text(word)})"),
    words.map(lambda word: f"starts_with(body, {text(word)})"),
    patterns.map(lambda pattern: f"name LIKE {text(pattern)}"),
    st.tuples(st.sampled_from(["<", "=", ">=", "<>"]), st.integers(-1, 5)).map(lambda each: f"n {each[0]} {each[1]}"),
    st.sampled_from(["n IS NULL", "name IS NOT NULL", "id % 3 = 1", "n + 1 < 3", "tenant = 'a'", "tags IS NULL"]),
)
conditions = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda each: f"({each[0]} {each[1]} {each[2]})")
        | inner.map(lambda each: f"NOT {each}")
    ),
    max_leaves=4,
)


@given(condition=conditions)
@examples(12, full=400)
def test_any_condition_finds_the_rows_that_it_finds_without_indices(state: Engine, condition: str) -> None:
    assert found(state, condition, "docs") == found(state, condition, "twin")


LOOKED_UP = {
    "array_has(tags, 'x')": "tags",
    "'it''s' = ANY(tags)": "tags",
    "array_has_any(tags, ['x', 'y'])": "tags",
    "array_has_all(tags, ['x', 'y'])": "tags",
    "array_has(small, 3)": "small",
    "array_has_any(small, [-2, 3])": "small",
    "body LIKE '%lance%'": "body",
    "contains(body, '2345')": "body",
    "body LIKE '%lance%' AND tenant = 'a'": "body",
    "starts_with(name, 'lan')": "name",
    "name LIKE 'lan%'": "name",
    "n + 1 = 3": "n",
    "array_has(tags, 'x') OR n = 4": "tags",
    "array_has(tags, 'x') AND id < 77": "tags",
    "array_has(tags, 'x') AND id <> 77.5": "tags",
}


def has_partitions_with_stable_ids(of: Engine) -> bool:
    table = of.root.table(TableName(PUBLIC, "docs"))
    return table.is_partitioned and table.snapshot().has_stable_row_ids


@pytest.mark.parametrize("condition", LOOKED_UP)
def test_lance_looks_it_up_and_explain_says_so(docs: Engine, condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = lance_plans(monkeypatch)
    column = LOOKED_UP[condition]
    if INDEXED[column] == "label_list" and has_partitions_with_stable_ids(docs):
        assert f"{column}_idx" not in told(docs, f"EXPLAIN SELECT id FROM docs WHERE {condition}")
        return
    rows = found(docs, condition, "docs")
    monkeypatch.undo()
    assert plans
    assert all(f"@{column}_idx(" in plan for plan in plans), plans
    assert 0 < len(rows) == len(found(docs, condition, "twin"))
    assert f"index: {column}_idx ({INDEXED[column]}) of {column}" in told(
        docs, f"EXPLAIN SELECT id FROM docs WHERE {condition}"
    )


@pytest.mark.parametrize(
    "condition",
    ["NOT array_has(tags, 'x')", "body LIKE '%ab%'", "body = 'lance'", "tags IS NULL", "upper(name) = 'LANCE'"],
)
def test_explain_names_no_index_that_is_of_no_use(docs: Engine, condition: str) -> None:
    assert "index:" not in told(docs, f"EXPLAIN SELECT id FROM docs WHERE {condition}")


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_changes_find_their_rows_by_indices(tmp_path: Path, layout: str) -> None:
    of = open_engine(tmp_path / "root")
    of.update(f"CREATE TABLE docs (id BIGINT, tenant VARCHAR, tags VARCHAR[], body VARCHAR) {layout}")
    of.update(
        "INSERT INTO docs VALUES (1, 'a', ['x'], 'lance'), (2, 'a', ['y', NULL], 'arrow'), (3, 'b', NULL, 'Lance'),"
        " (4, 'b', ['x', 'y'], NULL), (5, 'c', ['z'], 'a lance')"
    )
    of.update("CREATE INDEX t ON docs (tags) USING label_list WITH (min_rows = 1)")
    of.update("CREATE INDEX b ON docs (body) USING ngram WITH (min_rows = 1)")
    assert of.update("UPDATE docs SET body = 'changed' WHERE array_has(tags, 'x')") == 2
    assert of.update("DELETE FROM docs WHERE contains(body, 'lance')") == 1
    assert of.update("UPDATE docs SET tags = ['new'] WHERE body LIKE '%hang%' AND tenant = 'a'") == 1
    assert query(of, "SELECT id FROM docs WHERE 'new' = ANY(tags)") == [{"id": 1}]
    assert [row["id"] for row in query(of, "SELECT id FROM docs ORDER BY id")] == [1, 2, 3, 4]
    assert query(of, "SELECT id FROM docs WHERE array_has(tags, 'x')") == [{"id": 4}]


ELEMENTS: dict[str, Callable[[set[str | None]], bool]] = {
    "array_has(tags, 'x')": lambda tags: "x" in tags,
    "'it''s' = ANY(tags)": lambda tags: "it's" in tags,
    "array_has_any(tags, ['x', 'ß'])": lambda tags: bool(tags & {"x", "ß"}),
    "tags @> ['x', 'y']": lambda tags: tags >= {"x", "y"},
}
PLACES = {
    "all partitions": ("docs", ""),
    "one partition": ("docs", " AND tenant = 'b'"),
    "a branch": ("docs@work", ""),
}


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, dict[str, pa.Table]]:
    """Partitions with rows that an index is about, some of them deleted, and rows that came later; on a branch there are more."""
    of = open_engine(tmp_path_factory.mktemp("tagged") / "root")
    of.update("CREATE TABLE docs (id BIGINT, tenant VARCHAR, tags VARCHAR[]) PARTITIONED BY (tenant)")
    parts = [rows(count, start).select(["id", "tenant", "tags"]) for count, start in ((300, 0), (90, 1000), (60, 2000))]

    def append(name: str, part: pa.Table) -> None:
        of.ingest(TableName(PUBLIC, name), part.to_reader(), create_missing=False, existing=IfExists.APPEND)

    append("docs", parts[0])
    of.update("CREATE INDEX t ON docs (tags) USING label_list WITH (min_rows = 1)")
    append("docs", parts[1])
    assert of.update("DELETE FROM docs WHERE id % 7 = 2") > 0
    of.update("ALTER TABLE docs CREATE BRANCH work")
    append("docs@work", parts[2])
    stored = pa.concat_tables(parts[:2])
    stored = stored.filter(pc.invert(pc.is_in(stored["id"], pa.array(range(2, 2000, 7)))))
    return of, {"docs": stored, "docs@work": pa.concat_tables([stored, parts[2]])}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("condition", ELEMENTS)
def test_elements_of_the_lists_of_partitions_are_looked_up(
    tagged: tuple[Engine, dict[str, pa.Table]], condition: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, stored = tagged
    name, further = PLACES[place]
    expected = [
        row["id"]
        for row in stored[name].to_pylist()
        if row["tags"] is not None and ELEMENTS[condition](set(row["tags"])) and (not further or row["tenant"] == "b")
    ]
    plans = lance_plans(monkeypatch)
    got = query(of, f'SELECT id, tags FROM "{name}" WHERE {condition}{further}')
    assert sorted(row["id"] for row in got) == sorted(expected) != []
    assert plans
    assert all("]@t(LabelList)" in plan for plan in plans), plans
    assert "index: t (label_list) of tags" in told(of, f'EXPLAIN SELECT id FROM "{name}" WHERE {condition}')
    by_id = {row["id"]: row["tags"] for row in stored[name].to_pylist()}
    assert all(row["tags"] == by_id[row["id"]] for row in got)


def test_each_partition_is_changed_by_an_index_of_its_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables whose rows are changed are not read as one, since their addresses are needed."""
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE docs (id BIGINT, tenant VARCHAR, tags VARCHAR[]) PARTITIONED BY (tenant)")
    stored = [f"({number}, 'p{number % 5}', ['{number % 3}', '{number % 4}'])" for number in range(1, 61)]
    of.update(f"INSERT INTO docs VALUES {', '.join(stored)}")
    of.update("CREATE INDEX t ON docs (tags) USING label_list WITH (min_rows = 1)")
    of.update("DELETE FROM docs WHERE id = 3")
    plans = lance_plans(monkeypatch)
    changed = {number for number in range(1, 61) if number != 3 and (number % 3 == 0 or number % 4 == 0)}
    assert of.update("UPDATE docs SET tags = ['new'] WHERE array_has(tags, '0')") == len(changed)
    assert len(plans) >= 5
    assert all("]@t(LabelList)" in plan for plan in plans), plans
    assert {row["id"] for row in query(of, "SELECT id FROM docs WHERE 'new' = ANY(tags)")} == changed


def test_a_column_has_other_names_and_types_in_older_tables(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE docs (id BIGINT, tenant VARCHAR, tags VARCHAR[], price INT) PARTITIONED BY (tenant)")
    of.update("INSERT INTO docs VALUES (1, 'a', ['x'], 3), (2, 'b', ['y'], 4)")
    of.update("CREATE INDEX t ON docs (tags) USING label_list WITH (min_rows = 1)")
    of.update("ALTER TABLE docs RENAME COLUMN tags TO labels")
    of.update("ALTER TABLE docs ALTER COLUMN price TYPE BIGINT")
    of.update("INSERT INTO docs VALUES (3, 'c', ['x', NULL], 3)")
    query(of, "REINDEX docs")
    sql = "SELECT id FROM docs WHERE array_has(labels, 'x') AND price = 3 ORDER BY id"
    assert [row["id"] for row in query(of, sql)] == [1, 3]


def test_a_principal_finds_its_own_rows_alone(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE docs (id BIGINT, tenant VARCHAR, tags VARCHAR[]) PARTITIONED BY (tenant)")
    of.update("INSERT INTO docs VALUES (1, 'a', ['x']), (2, 'b', ['x']), (3, 'b', ['y']), (4, 'c', ['x'])")
    of.update("CREATE INDEX t ON docs (tags) USING label_list WITH (min_rows = 1)")
    policies = Policies.parse('roles.r = { members = ["*"], grants = ["SELECT ON docs WHERE tenant = \'b\'"] }')
    sql = "SELECT id FROM docs WHERE array_has(tags, 'x')"
    assert query(of, sql, access=policies.access("bob")) == [{"id": 2}]
