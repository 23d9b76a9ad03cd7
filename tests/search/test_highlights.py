"""highlight(text, query): which words are marked, and which fragment is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.catalog.search.text_search import Highlighter, Marks
from lance_flight.catalog.search.text_syntax import parse
from lance_flight.engine.engine import Engine

from tests.engine.database import open_engine
from tests.search.collection import query

TEXT = "The quick fox was running over lazy dogs; the Dog barked at running foxes until it <was> over."


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    made = open_engine(tmp_path_factory.mktemp("texts") / "root")
    made.update("CREATE TABLE docs (id BIGINT, tenant VARCHAR, body VARCHAR, title VARCHAR) PARTITIONED BY (tenant)")
    made.update(
        "INSERT INTO docs VALUES (1, 'a', 'He runs to the running water', 'Läufe im Haus'), (2, 'b', NULL, NULL),"
        " (3, 'b', 'nothing here', 'Häuser')"
    )
    made.update("CREATE INDEX ON docs (body) USING inverted WITH (stem = false, min_rows = 1)")
    made.update("CREATE INDEX ON docs (title) USING inverted WITH (language = 'German', min_rows = 1)")
    return made


def value(of: Engine, expression: str, parameters: pa.RecordBatch | None = None) -> object:
    (row,) = query(of, f"SELECT {expression} AS found", parameters)
    return row["found"]


def marked(*phrases: str) -> str:
    """The text with the words of some phrases marked."""
    text = TEXT
    for phrase in phrases:
        text = re.sub(rf"\b{phrase}\b", phrase.replace(" ", "] [").join("[]"), text)
    return text


MARKED = {
    "run": ("'run'", marked("running")),
    "the": ("'the'", TEXT),
    "two words": ("'dog AND fox'", marked("fox", "dogs", "Dog", "foxes")),
    "not excluded ones": ("'+fox -dog'", marked("fox", "foxes")),
    "phrases where they are whole": ("'\"running fox\"'", marked("running foxes")),
    "phrases over stop words": ("'\"dog the dog\"'", marked("dogs", "Dog")),
    "phrases with others between": ("'\"quick dog\"~9'", marked("quick", "dogs", "Dog")),
    "words that differ": ("'quikc~2'", marked("quick")),
    "words as they are": ("'fox) AND', syntax => 'words'", marked("fox", "foxes")),
    "one phrase": ("'lazy dogs', mode => 'phrase'", marked("lazy dogs")),
    "no stems": ("'running', stem => false", marked("running")),
    "another letter case": ("'dog', lower_case => false, stem => false", TEXT),
    "parts of words": ("'unn', base_tokenizer => 'ngram'", TEXT.replace("unn", "[unn]")),
    "a fragment": ("'barked fox', length => 30", "…[barked] at running [foxes]…"),
    "a fragment around a word": ("'lazy', length => 30", "…running over [lazy] dogs; the…"),
    "a fragment without words": ("'nothing', length => 30", "The quick fox was running over…"),
    "the end": ("'\"running foxes\"', length => 46", "…Dog barked at [running] [foxes] until it <was>…"),
    "html": (
        "'\"running foxes\"', length => 46, escape => 'html'",
        "…Dog barked at [running] [foxes] until it &lt;was&gt;…",
    ),
    "nothing": ("''", TEXT),
}


@pytest.mark.parametrize("name", MARKED)
def test_words_are_marked_as_they_are_searched(of: Engine, name: str) -> None:
    arguments, expected = MARKED[name]
    assert value(of, f"highlight('{TEXT}', {arguments}, before => '[', after => ']')") == expected


def test_marks_are_bold_and_may_be_given_by_place(of: Engine) -> None:
    assert value(of, "highlight('a fox', 'fox')") == "a <b>fox</b>"
    assert value(of, "highlight('a fox', 'fox', '*', '*')") == "a *fox*"
    assert value(of, "Highlight('a fox', 'fox', '*', '*', 1)") == "…f…"
    assert value(of, "highlight(NULL, 'fox')") is None
    assert value(of, "highlight('a fox', NULL)") is None


def test_words_are_cut_as_the_index_of_the_searched_column_cuts_them(of: Engine) -> None:
    search = "full_text_search('docs', ['body', 'title'], 'runs häuser') AS s"
    rows = query(
        of, f"SELECT id, highlight(body, 'runs') AS b, highlight(s.title, 'häuser') AS t FROM {search} ORDER BY id"
    )
    assert rows == [
        {"id": 1, "b": "He <b>runs</b> to the running water", "t": "Läufe im <b>Haus</b>"},
        {"id": 3, "b": "nothing here", "t": "<b>Häuser</b>"},
    ]


def test_a_query_can_be_bound(of: Engine) -> None:
    bound = pa.record_batch({"1": ["runs"], "2": pa.array([9], pa.int64())})
    sql = "SELECT highlight(body, $1, length => $2) AS b FROM full_text_search('docs', 'body', $1)"
    assert query(of, sql, bound) == [{"b": "…<b>runs</b> to…"}]
    assert value(of, "highlight('he ran, runs', $1, length => $2)", bound) == "…ran, <b>runs</b>"


def test_highlights_of_stored_columns_stand_anywhere(of: Engine) -> None:
    rows = query(of, "SELECT id FROM docs WHERE highlight(body, 'water') LIKE '%<b>water</b>%'")
    assert rows == [{"id": 1}]
    assert query(
        of, "SELECT count(*) AS n FROM docs GROUP BY highlight(body, title, mode => 'all')  IS NULL ORDER BY n"
    ) == [{"n": 1}, {"n": 2}]


def test_a_name_in_quotes_is_no_call(of: Engine) -> None:
    assert value(of, "'highlight(x'") == "highlight(x"
    assert query(of, 'SELECT id AS "highlight(" FROM docs WHERE id = 1') == [{"highlight(": 1}]


WORDS = st.sampled_from(["dog", "Dogs", "run", "running", "the", "x<y", "-", "…", "ÀB", "\n", "a_b"])


@given(words=st.lists(WORDS, max_size=30), length=st.integers(0, 40), asked=st.lists(WORDS, min_size=1, max_size=3))
def test_a_fragment_is_a_piece_of_the_text(words: list[str], length: int, asked: list[str]) -> None:
    text = " ".join(words)
    highlighter = Highlighter.of(parse(" ".join(asked), is_plain=True), {})
    marked = highlighter.mark(text, Marks("\x01", "\x02", length=length))
    inside = re.findall("\x01(.*?)\x02", marked)
    plain = marked.replace("\x01", "").replace("\x02", "")
    kept = plain.removeprefix("…") if plain not in text else plain
    kept = kept.removesuffix("…") if kept not in text else kept
    assert kept in text
    assert not length or len(kept) <= length or len(text) <= length
    if not length:
        assert plain == text
        stems = {word.lower().rstrip("s").removesuffix("ning") for word in asked} - {"the"}
        expected = [
            word for word in re.findall(r"[^\W_]+", text) if word.lower().rstrip("s").removesuffix("ning") in stems
        ]
        assert [word for word in inside if word.lower() not in ("x", "y", "a", "b")] == [
            word for word in expected if word.lower() not in ("x", "y", "a", "b")
        ]


def test_words_of_a_large_text_are_marked(tmp_path: Path) -> None:
    text = "lorem ipsum " * 50_000 + "dog " + "dolor " * 50_000
    marked = Highlighter.of(parse("dogs"), {}).mark(text, Marks(length=20))
    assert marked in ("…ipsum <b>dog</b> dolor…", "…ipsum <b>dog</b> dolor dolor…")
