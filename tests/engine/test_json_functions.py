"""Functions over documents: values, NULL and errors, against Lance's own and against Python's reader of JSON."""

from __future__ import annotations

import json
import operator
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.engine import Engine
from lance_flight.engine.functions.json_functions import NAMES, json_edits, json_values
from lance_flight.engine.sql.tokens import Token, edit_text, tokenize
from lance_flight.engine.translation.evaluation import compute
from lance_flight.errors import LanceFlightError, SqlError

from tests.engine.database import open_engine
from tests.examples import examples

ROW = pa.record_batch({"nothing": [1]})
DOC = '{"s": "x", "n": 5, "f": 2.50, "t": true, "z": null, "a": [1, {"k": "v"}], "o": {"b": 1, "a": [2]}, "a b": "c", "q\\"": 7, "5": "five"}'
VALUES: dict[str, Any] = {
    "json_get_string(doc, 's')": "x",
    "json_get_string(doc, 'n')": "5",
    "json_get_string(doc, 'f')": "2.50",
    "json_get_string(doc, 't')": "true",
    "json_get_string(doc, 'z')": None,
    "json_get_string(doc, 'missing')": None,
    "json_get_string(doc, 'S')": None,
    "json_get_string(doc, '$.s')": None,
    "json_get_string(doc, 'o')": '{"a":[2],"b":1}',
    "json_get_string(doc, 'a')": '[1,{"k":"v"}]',
    "json_get_string(doc, 'a b')": "c",
    "json_get_string(doc, 'q\"')": "7",
    "json_get_string(doc, '5')": "five",
    "json_get_string('[10, 11]', '1')": "11",
    "json_get_string('[10, 11]', '2')": None,
    "json_get_string('[10, 11]', '-1')": None,
    "json_get_string('\"s\"', '0')": None,
    "json_get_string(NULL, 's')": None,
    "json_get_string(doc, NULL)": None,
    "JSON_GET_INT(doc, 'n') + 1": 6,
    "json_get_int(doc, 'f')": 3,
    "json_get_int(doc, 't')": 1,
    "json_get_int(doc, 's')": None,
    "json_get_int(doc, 'o')": None,
    "json_get_int('{\"k\": 9223372036854775808}', 'k')": None,
    "json_get_int('{\"k\": \"-12\"}', 'k')": -12,
    "json_get_float(doc, 'f')": 2.5,
    "json_get_float(doc, 'n')": 5.0,
    "json_get_float(doc, 's')": None,
    "json_get_bool(doc, 't')": True,
    "json_get_bool(doc, 'n')": None,
    "json_get_bool('{\"k\": \"FALSE\"}', 'k')": False,
    "json_extract(doc, '$.s')": '"x"',
    "json_extract(doc, '$.z')": "null",
    "json_extract(doc, '$.missing')": None,
    "json_extract(doc, '$.a[1].k')": '"v"',
    'json_extract(doc, \'$["a"][1]["k"]\')': '"v"',
    "json_extract(doc, '$.\"a b\"')": '"c"',
    "json_extract(doc, '$.o')": '{"a":[2],"b":1}',
    "json_extract('[1.0, \"é\\n\"]', '$')": '[1.0,"é\\n"]',
    "json_exists(doc, '$.z')": True,
    "json_exists(doc, '$.o.a[0]')": True,
    "json_exists(doc, '$.o.a[1]')": False,
    "json_exists(doc, 'o')": True,
    "json_exists(NULL, '$')": None,
}


@pytest.mark.parametrize("sql", VALUES)
def test_a_function_gives(sql: str) -> None:
    kind = pa.utf8() if VALUES[sql] is None else pa.scalar(VALUES[sql]).type
    assert compute(sql.replace("doc", f"'{DOC}'"), ROW, kind).to_pylist() == [VALUES[sql]]


REFUSED = {
    "json_get_string('{a}', 'a')": "'{a}' is no JSON",
    "json_get_string('[NaN]', '0')": "NaN is no value of JSON",
    "json_get_string('" + "[" * 9999 + "', '0')": "json_get_string reads no document with so many arrays and objects inside each other",
    "json_extract('" + "[" * 900 + "]" * 900 + "', '$')": "json_extract reads no document with so many",
    "json_get_string('{}')": "json_get_string takes a document and a key, got 1 arguments",
    "json_get_string(5, 'a')": "json_get_string is not defined for int64; expected a document and a key, which are texts",
    "json_extract('{}', 5)": "json_extract is not defined for int64; expected a document and a path",
    **{
        f"json_extract('{{}}', '{path}')": f"{path!r} is no path into a document; expected $ with .key"
        for path in ("a.b", "", "$a", "$.", "$..a", "$.*", "$.a b", "$[*]", "$[-1]", "$[9999999999]", "$.a[?(@.b)]")
    },
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED)
def test_a_function_refuses(sql: str) -> None:
    with pytest.raises(LanceFlightError) as refused:
        compute(sql, ROW, pa.utf8())
    assert REFUSED[sql] in str(refused.value)


WRITTEN = {
    "doc->>'k'": "json_get_string(doc,'k')",
    "doc ->> 'it''s'": "json_get_string(doc ,'it''s')",
    "t.doc->>$1": "json_get_string(t.doc,$1)",
    '"T"."a b"->>0': "json_get_string(\"T\".\"a b\",'0')",
    "doc->'a'->>'b'": "json_extract_string(doc,'$[\"a\"][\"b\"]')",
    "doc -> 'q\"' -> 1 ->> 'b'": "json_extract_string(doc ,'$[\"q\\\"\"][1][\"b\"]')",
    "doc -> 'a' ->> 0": "json_extract_string(doc ,'$[\"a\"][\"0\"]')",
    "doc -> 'a' -> 0 ->> $1": "json_get_string(json_extract(doc ,'$[\"a\"][0]'),$1)",
    "f(a, (b))->>'k'": "json_get_string(f(a, (b)),'k')",
    "s['doc']->>'k'": "json_get_string(s['doc'],'k')",
    "f(x)['y'][1]->>'k'": "json_get_string(f(x)['y'][1],'k')",
    "(doc->>'a')->>'b'": "json_get_string((json_get_string(doc,'a')),'b')",
    "'{}'->>'k'": "json_get_string('{}','k')",
    "a > doc->>'k' AND b -> 1": "a > json_get_string(doc,'k') AND json_extract(b ,'$[1]')",
    "1 + doc->>'n' * 2": "1 + json_get_string(doc,'n') * 2",
    "a || doc->>'k' || b": "a || json_get_string(doc,'k') || b",
    "NOT doc->>'k' = 'x' AND x IN (doc->>'j')": "NOT json_get_string(doc,'k') = 'x' AND x IN (json_get_string(doc,'j'))",
    "CASE WHEN (doc)->>'k' IS NULL THEN 1 END": "CASE WHEN json_get_string((doc),'k') IS NULL THEN 1 END",
    "doc->'k'": "json_extract(doc,'$[\"k\"]')",
    "doc->'k'->0": "json_extract(doc,'$[\"k\"][0]')",
    "x -> x + 1": "x -> x + 1",
    "v <-> 1": "v <-> 1",
    "'a->>b' || \"c->>d\" -- e->>'f'": "'a->>b' || \"c->>d\" -- e->>'f'",
    "x->>>'k'": "x->>>'k'",
}  # fmt: skip


@pytest.mark.parametrize("written", WRITTEN)
def test_operators_are_calls(written: str) -> None:
    assert edit_text(written, json_edits(written, tokenize(written))) == WRITTEN[written]


ODD = {
    "SELECT ->>'k'": "the operator at character 8 has no document before it; expected doc -> 'a' ->> 'b'",
    "SELECT 1->>'k'": "the operator at character 9 has no document",
    "SELECT doc->>'a'->>'b'": "the operator at character 17 has no document",
    "SELECT doc->x->>'b'": "the operator at character 14 has no document",
    "SELECT doc->>": "->> at character 11 has no key; expected a text, a number or a parameter",
    "SELECT doc->>x": "->> at character 11 has no key",
    "->>'k'": "the operator at character 1 has no document",
    "SELECT )->>'k'": "the operator at character 9 has no document",
}


@pytest.mark.parametrize("written", ODD)
def test_operators_without_a_document_or_a_key_are_refused(written: str) -> None:
    with pytest.raises(SqlError) as refused:
        json_edits(written, tokenize(written))
    assert str(refused.value).startswith(ODD[written])


def test_brackets_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    many = 2000
    written = "(" * many + "doc" + ")->>'k'" * many
    tokens, looked = tokenize(written), Counter[str]()
    looking = Token.is_sign

    def counted(token: Token, sign: str) -> bool:
        looked[sign] += 1
        return looking(token, sign)

    monkeypatch.setattr(Token, "is_sign", counted)
    assert len(json_edits(written, tokens)) == 2 * many
    assert looked.total() < 10 * len(tokens)


LETTERS = st.text(st.characters(codec="utf-8"), max_size=5)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.integers(-20, 20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.5, -0.5, 2.5, 0.49999999999999994, 2.0**63, -(2.0**63), 1e15, 1e16, 1e-5, 1e-7, -0.0])
    | LETTERS
    | st.sampled_from(["5", "-7", "+3", "5.5", " 5", "1e3", ".5", "5.", "1e400", "inf", "-Infinity", "nan", "0x1", "1_0", "٣", "", "TRUE", "false", "t"])
    | st.integers(-(2**64), 2**65).map(str)
)  # fmt: skip
ANY = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(LETTERS, PLAIN, max_size=3)
KEYS = ["k", "0", "a b", 'q"', "é", "", "$"]


def by_lance(document: Any, call: str) -> tuple[str, Any]:
    """The document as Lance writes it, and what Lance computes of it; an error where it fails."""
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array([json.dumps(document)]))
    stored = lance.write_dataset(pa.table({"doc": texts}), "memory://")
    text = stored.to_table()["doc"][0].as_py()
    try:
        return text, stored.scanner(columns={"v": call}).to_table()["v"][0].as_py()
    except (OSError, ValueError) as exc:
        return text, exc


@given(
    st.sampled_from([name for name in NAMES if "get" in name]),
    st.dictionaries(st.sampled_from(KEYS), ANY) | st.lists(ANY, max_size=2),
    st.sampled_from(KEYS),
)
def test_what_lance_gives_for_a_key_is_given_here(name: str, document: Any, key: str) -> None:
    text, expected = by_lance(document, f"{name}(doc, '{key}')")
    (found,) = json_values(name, [pa.array([text]), pa.array([key])]).to_pylist()
    if not isinstance(expected, Exception):
        assert repr(found) == repr(expected)
        return
    assert "InvalidCast" in str(expected)
    if name == "json_get_string":
        # Of arrays and objects Lance gives no text.
        assert json.loads(found) == document[int(key) if isinstance(document, list) else key]
    else:
        assert found is None


PATHS = ["$", "$.k", '$."a b"', '$["é"]', "$[0]", "$[1]", "$.k[0]", "$.k.k", '$["k"]["q\\""]']


@given(
    st.sampled_from(["json_extract", "json_exists"]),
    st.dictionaries(st.sampled_from(KEYS), ANY) | st.lists(ANY, max_size=2),
    st.sampled_from(PATHS),
)
def test_what_lance_gives_for_a_path_is_given_here(name: str, document: Any, path: str) -> None:
    text, expected = by_lance(document, f"{name}(doc, '{path}')")
    (found,) = json_values(name, [pa.array([text]), pa.array([path])]).to_pylist()
    assert found == expected


WRITTEN_VALUES = ['"x"', '"é\\n"', "5", "-0", "-7", "0", "18446744073709551616", "1.0", "2.5e3", "true", "null", "[1]", '{"k": 1}', '{"z": 2, "a": [3]}', '"-0"']  # fmt: skip


@pytest.mark.parametrize("name", [name for name in NAMES if name != "json_valid"])
@given(
    documents=st.lists(st.sampled_from([*WRITTEN_VALUES, None]), min_size=1, max_size=4),
    path=st.sampled_from(["k", "k.k", "z"]),
)
def test_documents_are_read_at_once_as_one_by_one(name: str, documents: list[str | None], path: str) -> None:
    texts = [None if value is None else f'{{"k": {value}, "j": [{value}]}}' for value in documents]
    key = path[0] if "get" in name else f"$.{path}"
    found = json_values(name, [pa.array(texts), pa.array([key] * len(texts))])
    spaced = [None if text is None else f" {text}" for text in texts]  # which are read one by one
    assert repr(found.to_pylist()) == repr(
        [json_values(name, [pa.array([text], pa.utf8()), pa.array([key])])[0].as_py() for text in spaced]
    )


DOCUMENTS: list[Any] = [
    *({"k": value} for value in ["x", "y", "", "5", 5, 5.5, "5.5", True, False, None, [1], {"k": "x"}, "é", 'q"', "it's"]),
    *({"j": value} for value in ["x", 5]),
    {"k": "x", "j": 5},
    [{"k": "x"}, "x"],
    "x",
    None,
]  # fmt: skip
ABSENT = 3
"""Rows without a document."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The documents, with their numbers, in a table with partitions and in one without, with some rows deleted."""
    engine = open_engine(tmp_path_factory.mktemp("json"))
    for name, layout in (("whole", ""), ("parts", " PARTITIONED BY (bucket(3, id))")):
        engine.update(f"CREATE TABLE {name} (id BIGINT, doc JSON){layout}")
        quoted = [json.dumps(document).replace("'", "''") for document in DOCUMENTS]
        listed = [f"({n}, '{text}')" for n, text in enumerate(quoted)]
        listed += [f"({len(DOCUMENTS) + n}, NULL)" for n in range(ABSENT)]
        for some in (listed[::2], listed[1::2], ['(-1, \'{"k": "x"}\')']):
            engine.update(f"INSERT INTO {name} VALUES {', '.join(some)}")
        engine.update(f"DELETE FROM {name} WHERE id = -1")
    return engine


def member(document: Any, key: str) -> Any:
    """What Python reads under a key: an error where there is nothing."""
    return document[int(key) if isinstance(document, list) and key.isdigit() else key]


def text_at(key: str) -> Callable[[Any], str | None]:
    def read(document: Any) -> str | None:
        try:
            value = member(document, key)
        except (KeyError, IndexError, TypeError):
            return None
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value, separators=(",", ":"))

    return read


COMPARED: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
WORDS = ["x", "y", "", "5", "true", "é", 'q"', "it's", "[1]", "z"]


@examples(15)
@given(
    st.sampled_from(["k", "j", "0", "missing"]),
    st.sampled_from([*COMPARED]),
    st.sampled_from(WORDS),
    st.sampled_from(["", "NOT "]),
)
def test_conditions_on_texts_keep_the_rows_that_python_finds(
    tables: Engine, key: str, sign: str, word: str, negation: str
) -> None:
    read = text_at(key)
    texts = {n: read(document) for n, document in enumerate(DOCUMENTS)}
    expected = [n for n, text in texts.items() if text is not None and COMPARED[sign](text, word) != bool(negation)]
    condition = f"json_get_string(doc, '{key}') {sign} '{word.replace(chr(39), chr(39) * 2)}'"
    for name in ("whole", "parts"):
        found = tables.query(f"SELECT id FROM {name} WHERE {negation}({condition}) ORDER BY id")
        assert found["id"].to_pylist() == expected


def is_there(document: Any, key: str) -> bool:
    try:
        member(document, key)
    except (KeyError, IndexError, TypeError):
        return False
    return True


CONDITIONS: dict[str, Callable[[Any], bool]] = {
    "json_get_string(doc, 'k') IS NULL": lambda document: text_at("k")(document) is None,
    "json_get_string(doc, 'k') IN ('x', '5')": lambda document: text_at("k")(document) in ("x", "5"),
    "json_get_string(doc, 'k') LIKE '5%'": lambda document: (text_at("k")(document) or "").startswith("5"),
    "json_get_int(doc, 'k') = 5": lambda document: text_at("k")(document) == "5",
    "json_get_float(doc, 'k') > 5.2": lambda document: text_at("k")(document) == "5.5",
    "json_get_bool(doc, 'k')": lambda document: text_at("k")(document) == "true",
    "json_exists(doc, '$.k')": lambda document: isinstance(document, dict) and "k" in document,
    "NOT json_exists(doc, '$.k')": lambda document: not (isinstance(document, dict) and "k" in document),
    "json_exists(doc, '$[0]')": lambda document: isinstance(document, list),
    "json_extract(doc, '$.k.k') = '\"x\"'": lambda document: is_there(document, "k") and is_there(document["k"], "k"),
    "json_extract(doc, '$') = 'null'": lambda document: document is None,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_keep_the_rows_that_python_finds(tables: Engine, condition: str) -> None:
    expected = [n for n, document in enumerate(DOCUMENTS) if CONDITIONS[condition](document)]
    if "IS NULL" in condition:
        expected += range(len(DOCUMENTS), len(DOCUMENTS) + ABSENT)
    for name in ("whole", "parts"):
        assert tables.query(f"SELECT id FROM {name} WHERE {condition} ORDER BY id")["id"].to_pylist() == expected


def test_functions_stand_in_every_statement(engine: Engine, tmp_path: Path) -> None:
    for statement in (
        "CREATE TABLE t (id BIGINT, doc JSON, kind VARCHAR) PARTITIONED BY (expr('json_get_string(col0, ''k'')', doc))",
        """INSERT INTO t SELECT id, doc, json_get_string(doc, 'k') FROM (VALUES (1, '{"k": "a"}'), (2, '{"k": "b"}'), (3, '{}')) v (id, doc)""",
        "UPDATE t SET kind = doc->>'k' || '!' WHERE json_exists(doc, '$.k')",
        "ALTER TABLE t ADD COLUMN again VARCHAR AS (json_get_string(doc, 'k'))",
        """MERGE INTO t USING (VALUES (3, '{"k": "c"}')) s (id, doc) ON t.id = s.id
         WHEN MATCHED AND NOT json_exists(t.doc, '$.k') THEN UPDATE SET doc = json_extract(s.doc, '$')""",
        "DELETE FROM t WHERE t.doc->>'k' = 'a'",
    ):
        engine.update(statement)
    assert engine.query("SELECT * FROM t ORDER BY json_get_string(doc, 'k') DESC").to_pylist() == [
        {"id": 3, "doc": '{"k":"c"}', "kind": None, "again": None},
        {"id": 2, "doc": '{"k":"b"}', "kind": "b!", "again": "b"},
    ]
    plan = "\n".join(engine.query("EXPLAIN SELECT id FROM t WHERE json_get_string(doc, 'k') = 'b'")["plan"].to_pylist())
    assert "used: json_get_string(doc, 'k') = 'b'" in plan


PIECES = {
    "value": [
        *(
            "1",
            "-0",
            "12345678901234567890",
            "1.50",
            "1e5",
            "true",
            "null",
            '"x"',
            '""',
            '"a\\"b"',
            '"é}"',
            '"{"',
            '"\\ud800"',
            "[]",
            "{}",
        ),
        *('["b", {"a": 1, "0": 2.5}]', '{"b": 1, "a": [2]}', '{"b": {"c": "x"}}', '{"a" : "\\u00e9"}'),
    ],
    "document": ['{{"a":{0},"b": {1}}}', '{{"b": {0} , "a":{1}, "a":{0}}}', "{{}}", '{{"c": [{0}, {1}]}}'],
    "broken": [
        "{}{}",
        '{"a":1',
        ',"b":2}',
        '{"a":"}',
        '{"}',
        "[1]",
        '{"a":tru}',
        '{"a":1}\n{}',
        "{} {}",
        '{"a":01}',
        "",
    ],
}


@given(st.data(), st.sampled_from(NAMES))
def test_documents_that_are_read_at_once_give_what_each_gives(data: st.DataObject, name: str) -> None:
    """One that is none leaves all of them to be read alone, whatever the others are."""
    values, documents, broken = (st.sampled_from(each) for each in PIECES.values())
    whole = st.builds(str.format, documents, values, values)
    texts = data.draw(st.lists(st.one_of(whole, whole, whole, broken, st.none()), min_size=2, max_size=4))
    keys = ["a", "b", "0"] if name.startswith("json_get") else ["$", "$.a", "$.a.b", "$.c[0]", '$.a."0"', "$.a[1].a"]
    columns = [
        pa.array(texts, pa.utf8()),
        *([pa.array([data.draw(st.sampled_from(keys))] * len(texts))] * (name != "json_valid")),
    ]

    def values_of(rows: list[pa.Array]) -> list[Any] | str:
        try:
            return json_values(name, rows).to_pylist()
        except SqlError as error:
            return str(error)

    alone = [
        values_of(
            [
                column.slice(row, 1)
                for column in (
                    pa.concat_arrays([pa.array([" " + str(each) if each else each], pa.utf8()) for each in texts]),
                    *columns[1:],
                )
            ]
        )
        for row in range(len(texts))
    ]
    errors = [each for each in alone if isinstance(each, str)]
    together = values_of(columns)
    assert isinstance(together, str) if errors else together == [each[0] for each in alone]


@pytest.mark.parametrize("texts", [['{"a":1', ',"b":2}', "{} {}"], ['{"a":"', '{}"}', "{}{}"], ["{}", "", "{} {}"]])
def test_documents_do_not_complete_each_other(texts: list[str]) -> None:
    with pytest.raises(SqlError, match="is no JSON"):
        json_values("json_extract_string", [pa.array(texts), pa.array(["$.a"] * len(texts))])
