"""Which texts are documents, and what Lance would make of the others."""

from __future__ import annotations

import json
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.errors import DataError, LimitExceeded
from lance_flight.model.json_documents import JSON, MOST_CHARACTERS, MOST_DEPTH, documents

from tests.examples import examples

DEEP = "[" * MOST_DEPTH + "]" * MOST_DEPTH
REFUSED = {
    "nothing": ("", "is no JSON: Expecting value at character 1"),
    "spaces": ("  ", "is no JSON: Expecting value"),
    "no end": ('{"a": 1', "is no JSON: Expecting ',' delimiter at character 8"),
    "two documents": ("{}{}", "is no JSON: Extra data at character 3"),
    "a comma too many": ('{"a": 1,}', "is no JSON"),
    "a bare key": ("{a: 1}", "is no JSON"),
    "other quotes": ("{'a': 1}", "is no JSON"),
    "NaN": ('{"a": NaN}', "is no JSON: NaN is no value of it"),
    "infinite": ("[-Infinity]", "is no JSON: -Infinity is no value of it"),
    "a zero before": ("01", "is no JSON"),
    "a sign before": ("+1", "is no JSON"),
    "another base": ("0x10", "is no JSON"),
    "a line break": ('"a\nb"', "is no JSON: Invalid control character at character 3"),
    "a key twice": ('[{"a": 1, "b": {"c": 1, "d": 2, "c": 3}}]', "has the key 'c' twice in one object"),
    "half of a character": ('{"a": "\\ud83d"}', "has half of a character"),
    "half of one in a key": ('{"\\udc00": 1}', "has half of a character"),
    "a large integer": (
        "18446744073709551616",
        "has the integer 18446744073709551616; expected one of 64 bits, or a text",
    ),
    "a small integer": ("[-9223372036854775809]", "has the integer -9223372036854775809"),
    "an integer of many digits": ("9" * 10_000, "has the integer 999"),
    "a large fraction": ('{"a": 1e400}', "has the number 1e400; expected one that a double holds"),
    "one level too deep": (f"[{DEEP}]", f"is more than {MOST_DEPTH} arrays and objects deep"),
    "deep objects": ('{"a":' * 200 + "1" + "}" * 200, "arrays and objects deep"),
    "deeper than a stack": ("[" * 100_000 + "]" * 100_000, "arrays and objects deep"),
    "deep without an end": ("[" * 100_000, "arrays and objects deep"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_document_is_refused_by_its_row_and_its_text(case: str) -> None:
    text, problem = REFUSED[case]
    texts = pa.chunked_array([["{}", None], [text, "1"]])
    with pytest.raises(DataError) as refused:
        documents(texts, "doc")
    assert str(refused.value).startswith(f"column 'doc' holds {text[:60]!r}")
    assert "in row 3 of a batch of 4, which" in str(refused.value)
    assert problem in str(refused.value)
    # So is what says of itself that it is JSON.
    with pytest.raises(DataError, match="row 1 of a batch of 1"):
        documents(pa.ExtensionArray.from_storage(JSON, pa.array([text])), "doc")


TEXTS = [
    '{"a": [1, {"b": null}]}',
    "1",
    '"x"',
    "null",
    " [ ] ",
    '{"": ""}',
    DEEP,
    "[" + "{}," * 200 + "{}]",
    '"\\ud83d\\ude00"',
]
HELD = {
    "text": pa.utf8(),
    "large text": pa.large_utf8(),
    "views": pa.string_view(),
    "a dictionary": pa.dictionary(pa.int8(), pa.utf8()),
    "JSON": pa.json_(),
    "large JSON": pa.json_(pa.large_utf8()),
}


@pytest.mark.parametrize("kind", HELD)
def test_documents_may_come_in_every_type_of_text(kind: str) -> None:
    known = pa.array([*TEXTS, None])
    held = HELD[kind]
    column = (
        pa.ExtensionArray.from_storage(held, known.cast(held.storage_type))
        if isinstance(held, pa.JsonType)
        else known.dictionary_encode().cast(held)
        if pa.types.is_dictionary(held)
        else known.cast(held)
    )
    assert documents(column, "doc").equals(pa.ExtensionArray.from_storage(JSON, known))


def test_numbers_and_nested_values_are_no_documents() -> None:
    for column in (pa.array([1]), pa.array([True]), pa.array([{"a": 1}]), pa.array([b"{}"])):
        with pytest.raises(DataError, match=r"column 'doc' holds .*; expected documents, or texts of them"):
            documents(column, "doc")


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
)


def exact(value: Any) -> Any:
    """A value that tells 1 from 1.0 and from true."""
    if isinstance(value, dict):
        return {key: exact(inner) for key, inner in value.items()}
    return [*map(exact, value)] if isinstance(value, list) else (type(value), repr(value))


@given(st.lists(st.tuples(ANY, st.booleans()), min_size=1, max_size=20))
@examples(20)
def test_lance_keeps_every_document(values: list[tuple[Any, bool]]) -> None:
    texts = [json.dumps(value, ensure_ascii=is_escaped) for value, is_escaped in values]
    stored = lance.write_dataset(pa.table({"doc": documents(pa.array(texts), "doc")}), "memory://")
    read = stored.to_table()["doc"].to_pylist()
    assert [exact(json.loads(text)) for text in read] == [exact(value) for value, _ in values]
    again = lance.write_dataset(pa.table({"doc": documents(pa.array(read), "doc")}), "memory://")
    assert again.to_table()["doc"].to_pylist() == read


TAKEN = {
    "": "null",
    "{a: 01}": '{"a":1}',
    "[NaN]": "[null]",
    "1e400": "null",
    "18446744073709551616": "1.8446744073709552e+19",
}


def test_lance_still_takes_texts_that_are_no_documents() -> None:
    """Notices when Lance itself refuses them: then it is to be asked."""
    texts = pa.ExtensionArray.from_storage(JSON, pa.array(list(TAKEN)))
    stored = lance.write_dataset(pa.table({"doc": texts}), "memory://")
    assert dict(zip(TAKEN, stored.to_table()["doc"].to_pylist(), strict=True)) == TAKEN


def test_a_key_twice_at_the_end_of_many_is_found_in_one_pass() -> None:
    keys = ",".join(f'"{place}":1' for place in range(200_000))
    with pytest.raises(DataError, match="the key '0' twice in one object"):
        documents(pa.array([f'{{{keys},"0":1}}']), "doc")


def test_a_document_beyond_the_limit_is_refused() -> None:
    longest = f'"{"x" * (MOST_CHARACTERS - 2)}"'
    assert len(documents(pa.array([longest, None]), "doc")) == 2
    with pytest.raises(LimitExceeded, match="document of 4194305 characters"):
        documents(pa.array([f" {longest}"]), "doc")
