"""Tokenizer of SQL text by the rules of DataFusion's generic dialect, and the places of tokens among their neighbours.

An INSERT of a long VALUES list is read in pieces, since its tokens and DataFusion's syntax tree take a hundred times its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from lance_flight.engine.sql.clause_words import BEFORE_OPERAND, BEFORE_WILDCARD, ENDINGS, EXPECTED_BEFORE
from lance_flight.errors import LimitExceeded, SqlError


class Kind(StrEnum):
    """Kind of a token; a text, which is hashed in a tenth of the time of a plain member."""

    WORD = "word"
    NAME = "name"
    """An identifier in quotes."""
    STRING = "string"
    """`'…'` or `$$…$$`; a prefix like that of `X'00'` is a word before it."""
    ESCAPED = "escaped"
    """`E'…'`, as it was written: its escapes are DataFusion's to read."""
    NUMBER = "number"
    PARAMETER = "parameter"
    """`?` or `$1`."""
    SIGN = "sign"
    LITERALS = "literals"
    """A long run of literals in the brackets of IN, with the commas between them: `1, 2, 3`."""
    PARAMETERS = "parameters"
    """A long run of parameters in the brackets of IN, with the commas between them: `$1, $2, $3`."""
    COMPARISONS = "comparisons"
    """A long run of comparisons of one column with literals, with the words between them: `a = 2 OR a = 3`.

    It continues the comparison before it, which is spelled out, and another operand of the same chain follows it.
    """


MOST_TOKENS = 400_000
"""Most tokens of a statement, except for the rows of a long INSERT; DataFusion's syntax tree takes about 500 bytes for each."""
MOST_COMMENTS = 100_000
MOST_DIGITS = 1000
"""Most characters of a number; `int` refuses some thousands."""
_WHOLE_DIGITS = 18
"""Most digits of a whole number that always fits into 64 bits."""
_KEPT_TEXTS, _KEPT_LONG_TEXTS = 32, 2
_SHORT, _LONG = 64 << 10, 2 << 20
"""Longest short and long texts whose tokens are cached, in characters; tokens take some forty times the memory of their text."""
QUOTED = frozenset({Kind.NAME, Kind.STRING, Kind.ESCAPED})
STRINGS = frozenset({Kind.STRING, Kind.ESCAPED})
RUNS = frozenset({Kind.LITERALS, Kind.COMPARISONS})
PARAMETERS = frozenset({Kind.PARAMETER, Kind.PARAMETERS})
LONG_RUN = 32
"""Fewest literals or parameters of a run that is one token: rewriting looks into none, and would take seconds for lists of keys word by word."""


class Token(NamedTuple):
    """Token of SQL text: its kind, its text (without quotes), and its offsets."""

    kind: Kind
    text: str
    start: int
    stop: int
    word: str = ""
    """The word in capitals; an empty string for any other token."""

    def is_sign(self, sign: str) -> bool:
        """Return whether this is a sign like `(` or `::`."""
        return self.kind is Kind.SIGN and self.text == sign

    @property
    def is_whole(self) -> bool:
        """Return whether this is a whole number, of so few digits that it fits into 64 bits."""
        return self.kind is Kind.NUMBER and self.text.isdigit() and len(self.text) <= _WHOLE_DIGITS


def fold_name(token: Token) -> str:
    """Return the name of an identifier: in lower case unless it is quoted."""
    return token.text if token.kind in QUOTED else token.text.lower()


def closing_places(tokens: Sequence[Token], opening: str = "(", closing: str = ")") -> dict[int, int]:
    """Map the place of each bracket that opens, of some kinds, to that of the one that closes it.

    >>> closing_places(tokenize("f(a[1], (b))"), "([", ")]")
    {3: 5, 7: 9, 1: 10}
    """
    opened: list[int] = []
    partners: dict[int, int] = {}
    for place, token in enumerate(tokens):
        if token.kind is not Kind.SIGN:
            continue
        if token.text in opening:
            opened.append(place)
        elif token.text in closing and opened:
            partners[opened.pop()] = place
    return partners


def outer_places(closing: Mapping[int, int], within: range) -> Iterator[int]:
    """Yield the places of a range that are in no brackets, with those where one opens; `closing` pairs these.

    >>> list(outer_places(closing_places(tokenize("a, f(b, c), d")), range(9)))
    [0, 1, 2, 3, 8]
    """
    place = within.start
    while place < within.stop:
        yield place
        place = closing.get(place, place) + 1


def tokenize(text: str) -> list[Token]:
    """Split a text into tokens, without comments; `SqlError` for an unterminated string, name or comment, `LimitExceeded` for too many.

    A long run of literals or parameters is one token.

    >>> [token.text for token in tokenize("SELECT $$it's$$ || ? -- why?")]
    ['SELECT', "it's", '|', '|', '?']
    """
    tokens = list(_tokenize_long(text) if _SHORT < len(text) <= _LONG else islice(tokens_of(text), MOST_TOKENS + 1))
    if len(text) > MOST_TOKENS and _count(tokens) > MOST_TOKENS:
        raise LimitExceeded(
            f"the statement has more than {MOST_TOKENS} tokens; expected fewer, as parameters, as rows of an ingest or in a table"
        )
    return tokens


def tokens_of(text: str) -> Iterable[Token]:
    """Return the tokens of a text as an iterable, since those of a long text take much memory together."""
    return _tokenize_short(text) if len(text) <= _SHORT else _tokens(text)


@lru_cache(_KEPT_TEXTS)
def _tokenize_short(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text, cached: one statement is examined many times, and a vector makes it long."""
    return tuple(_tokens(text))


@lru_cache(_KEPT_LONG_TEXTS)
def _tokenize_long(text: str) -> tuple[Token, ...]:
    """Return at most the permitted number of tokens and one more, cached."""
    return tuple(islice(_tokens(text), MOST_TOKENS + 1))


def spelled_out(text: str) -> list[Token]:
    """Split a short text into tokens, those of long runs one by one."""
    return list(_tokens(text, with_runs=False))


# Possessive quantifiers: a string without an end must not be tried in every other way.
_TOKEN = re.compile(
    r"""
    (?P<blank>     \s++ | --[^\n]*+ )
  | (?P<comment>   /\* )
  | (?P<escaped>   [eE]'(?:[^'\\]++|''|\\.)*+' )
  | (?P<string>    '(?:[^']++|'')*+' )
  | (?P<dollars>   \$(?P<tag>\w*+)\$ (?P<inside>.*?) \$(?P=tag)\$ )
  | (?P<name>      "(?:[^"]++|"")*+" | `(?:[^`]++|``)*+` )
  | (?P<open>      [eE]?' | ["`] | \$\w*+\$ )
  | (?P<parameter> \? | \$\w*+ )
  | (?P<number>    (?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)? )
  | (?P<word>      (?:[^\W\d]|\#|(?<!<)@(?!>))[\w@\#$]*+ )
  | (?P<sign>      :: | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {kind.value: kind for kind in Kind}
_COMMENT = re.compile(r"/\*|\*/")


_STRING = r"'[^']*+(?:''[^']*+)*+'"
_INTEGER = r"-?\d++"
_LITERAL = rf"(?:{_STRING}|-?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?|(?i:NULL|TRUE|FALSE)\b)"
_NAME = r'(?:[^\W\d]\w*+|"[^"=<>!]++")(?:\.(?:[^\W\d]\w*+|"[^"=<>!]++"))*+'
_PARAMETER = r"(?:\?|\$\d{1,9}+)"


def _group_elements(kind: str, element: str) -> str:
    """Match a run of elements, as a group of the name of its kind."""
    return rf"(?P<{kind}>{element}(?:\s*+,\s*+{element}){{{LONG_RUN - 1},}}+)"


_LIST = re.compile(
    rf"\s*+\(\s*+(?:{_group_elements('literals', _LITERAL)}|{_group_elements('parameters', _PARAMETER)})(?=\s*+\))",
    re.DOTALL,
)


def _comparisons(word: str, signs: str) -> re.Pattern[str]:
    """Match one comparison, and a run of further ones of the same column, joined by a word that follows each of them too."""
    joined = rf"\s++(?i:{word})\s++"

    def run(literal: str, name: str) -> str:
        another = rf"(?P=name)\s*+(?:{signs})\s*+{literal}(?=\s++(?i:{word})(?![\w@\#$]))"
        return rf"{literal}{joined}(?P<{name}>{another}(?:{joined}{another}){{{LONG_RUN - 1},}}+)"

    kinds = f"{run(_INTEGER, 'integers')}|{run(_STRING, 'strings')}"
    return re.compile(rf"\s++(?P<name>{_NAME})\s*+(?:{signs})\s*+(?:{kinds})", re.DOTALL)


_RUNS = {"IN": _LIST, "OR": _comparisons("OR", "="), "AND": _comparisons("AND", "<>|!=")}
_ONE_LITERAL = re.compile(_LITERAL, re.DOTALL)
_ONE_PARAMETER = re.compile(_PARAMETER)
_ONE_COMPARISON = re.compile(rf"(?P<name>{_NAME})\s*+(?:=|<>|!=)\s*+(?P<literal>{_INTEGER}|{_STRING})", re.DOTALL)


def literals(run: Token) -> list[str]:
    """Return the literals of a run as they are written.

    >>> literals(Token(Kind.COMPARISONS, "a = 2 OR a = -3", 0, 15))
    ['2', '-3']
    """
    if run.kind is Kind.LITERALS:
        return _ONE_LITERAL.findall(run.text)
    return [match["literal"] for match in _ONE_COMPARISON.finditer(run.text)]


def comparisons(run: Token) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each comparison of a run."""
    for match in _ONE_COMPARISON.finditer(run.text):
        yield run.start + match.start(), run.start + match.end()


def parameter_names(token: Token) -> list[str]:
    """Return the parameters that a token is, or has if it is a run of them, as they are written: `?`, or `$1`."""
    match token.kind:
        case Kind.PARAMETER:
            return [token.text]
        case Kind.PARAMETERS:
            return _ONE_PARAMETER.findall(token.text)
    return []


def parameters(token: Token) -> Iterator[Token]:
    """Yield the parameters that a token is, or has if it is a run of them, each with its place.

    >>> [each.text for each in parameters(Token(Kind.PARAMETERS, "$2, ?", 7, 12))]
    ['$2', '?']
    """
    if token.kind is Kind.PARAMETER:
        yield token
    elif token.kind is Kind.PARAMETERS:
        for match in _ONE_PARAMETER.finditer(token.text):
            yield Token(Kind.PARAMETER, match[0], token.start + match.start(), token.start + match.end())


def token_count(text: str) -> int:
    """Return the number of tokens of a text, those of long runs one by one.

    >>> token_count("SELECT a FROM t WHERE b IN (1, 2)")
    12
    """
    return _count(tokenize(text))


def _count(tokens: Iterable[Token]) -> int:
    return sum(map(_weight, tokens))


def _weight(token: Token) -> int:
    """Return the number of tokens that one stands for."""
    match token.kind:
        case Kind.LITERALS:
            return 2 * len(literals(token)) - 1
        case Kind.PARAMETERS:
            return 2 * token.text.count(",") + 1
        case Kind.COMPARISONS:
            return 4 * len(literals(token)) - 1
    return 1


def _tokens(text: str, *, with_runs: bool = True) -> Iterator[Token]:
    at, run, comments = 0, _NO_RUN, 0
    match = _TOKEN.match
    while at < len(text):
        if at == run.start:
            yield run
            at = run.stop
            continue
        match_here = match(text, at)
        group = None if match_here is None else match_here.lastgroup
        if match_here is None or group is None or group == "open":
            raise SqlError(f"the quotes at character {at + 1} have no end")
        start, at = at, match_here.end()
        if group in {"blank", "comment"}:
            at = at if group == "blank" else _end_of_comment(text, start)
            comments += not text[start].isspace()
            if comments > MOST_COMMENTS:
                raise LimitExceeded(f"the statement has more than {MOST_COMMENTS} comments; expected fewer")
        elif group in {"string", "name"}:
            quote = text[start]
            yield Token(_KINDS[group], text[start + 1 : at - 1].replace(quote * 2, quote), start, at)
        elif group == "dollars":
            yield Token(Kind.STRING, match_here["inside"], start, at)
        else:
            if at - start > MOST_DIGITS and group in {"number", "parameter"}:
                raise LimitExceeded(
                    f"the number at character {start + 1} is {at - start} long; expected at most {MOST_DIGITS} digits"
                )
            word = text[start:at].upper() if group == "word" else ""
            yield Token(_KINDS[group], text[start:at], start, at, word)
            if with_runs and at > run.stop and word in _RUNS:
                run = _run(text, at, word) or run


_NO_RUN = Token(Kind.LITERALS, "", -1, -1)


def _run(text: str, at: int, word: str) -> Token | None:
    """Return the run that follows one of the words that runs follow; None if there is none."""
    match = _RUNS[word].match(text, at)
    if match is None:
        return None
    name = match.lastgroup or ""
    return Token(_KINDS[name] if word == "IN" else Kind.COMPARISONS, match[name], *match.span(name))


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for match in _COMMENT.finditer(text, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    raise SqlError(f"the comment at character {start + 1} has no end")


Edit = tuple[int, int, str]
"""Edit of a text: start and stop of what is replaced, and the text in its place."""


def place_in(text: str, start: int) -> str:
    r"""Return where a character of a text is, as DataFusion writes it, for the end of a message.

    >>> place_in("SELECT\n a", 8)
    '; at Line: 2, Column: 2'
    """
    return "; at Line: {}, Column: {}".format(*line_and_column(text, start))


def line_and_column(text: str, start: int) -> tuple[int, int]:
    """Return the line and the column of a character of a text, both from 1."""
    before = text[:start]
    return before.count("\n") + 1, start - before.rfind("\n")


def edit_text(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with each range (start, end) replaced."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(edits, key=itemgetter(0, 1)):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]]) if parts else text


class TokenPlaces:
    """Tokens of a text, with tests on them by their number."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self._brackets = range(0)
        """The opening brackets, one after another, that were passed over last."""

    @cached_property
    def closing_brackets(self) -> Mapping[int, int]:
        """The place at which each round bracket that opens is closed."""
        return closing_places(self.tokens)

    def text(self, at: int) -> str:
        """Return the text of a token; an empty string beyond the ends."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def kind(self, at: int) -> Kind | None:
        """Return the kind of a token; None beyond the ends."""
        return self.tokens[at].kind if 0 <= at < len(self.tokens) else None

    def word_at(self, at: int) -> str:
        """Return a word in capitals; an empty string for any other token."""
        return self.tokens[at].word if 0 <= at < len(self.tokens) else ""

    def first_word(self, at: int) -> str:
        """Return the first word inside the brackets that open at a token."""
        if at not in self._brackets:
            end = at
            while self.is_sign(end, "("):
                end += 1
            self._brackets = range(at, end)
        return self.word_at(self._brackets.stop)

    def is_pipe(self, at: int) -> bool:
        """Return whether `|>` begins here."""
        return self.text(at + 1) == ">" and self.tokens[at].stop == self.tokens[at + 1].start

    def is_name(self, at: int) -> bool:
        """Return whether a word is surely a name: one after AS, or a part of one."""
        return self.is_sign(at - 1, ".") or self.word_at(at - 1) == "AS" or self.is_sign(at + 1, ".")

    def is_sign(self, at: int, sign: str) -> bool:
        """Return whether there is a sign like `(`."""
        return self.kind(at) is Kind.SIGN and self.text(at) == sign

    def is_comparison(self, at: int) -> bool:
        """Return whether a FROM is that of IS [NOT] DISTINCT FROM."""
        return self.word_at(at - 1) == "DISTINCT" and self.word_at(at - 2) in {"IS", "NOT"}

    def ends_operand(self, at: int) -> bool:
        """Return whether an operand, a name or a wildcard ends here, so that no name follows but an alias."""
        kind, word = self.kind(at), self.word_at(at)
        if kind is None:
            return False
        if kind is Kind.SIGN:
            before = self.text(at - 1)
            is_wildcard = self.text(at) == "*" and (before in {",", "."} or self.word_at(at - 1) in BEFORE_WILDCARD)
            return is_wildcard or self.text(at) in ")]}"
        if kind is not Kind.WORD or self.is_name(at):
            return True
        before = self.text(at - 1).upper()
        match word:
            case "ALL":
                return before in {"BY", "LIMIT"}
            case "ZONE":
                return before != "TIME" or self.word_at(at - 2) != "AT"
            case _:
                return word not in BEFORE_OPERAND or before not in EXPECTED_BEFORE.get(word, {before})

    def is_alias(self, at: int) -> bool:
        """Return whether the name that ends here is an alias, of a column or a table."""
        kind, word = self.kind(at), self.word_at(at)
        if kind not in {Kind.WORD, Kind.NAME, Kind.STRING} or self.is_sign(at - 1, "."):
            return False
        if self.word_at(at - 1) == "AS":
            return True
        is_part = word in ENDINGS or (kind is Kind.STRING and self.kind(at - 1) is Kind.WORD)
        return not is_part and self.ends_operand(at - 1)

    def query_name(self, opening: int) -> str:
        """Return the name of the query of WITH whose bracket opens at a token."""
        at = opening - 1
        while self.word_at(at) in {"AS", "MATERIALIZED", "NOT"}:
            at -= 1
        if self.is_sign(at, ")"):
            at = next(place for place in range(at, -1, -1) if self.is_sign(place, "(")) - 1
        return fold_name(self.tokens[at]) if at >= 0 else ""


class TextPlaces(TokenPlaces):
    """Tokens of a text, with the text and the place that closes each of its brackets."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self._text = text
        self._closing = closing_places(tokens, "([{", ")]}")


LONG = 1 << 20
"""Characters from which on a list is read in pieces."""
PIECE = 128 << 10
"""Approximate length of a piece, in characters."""
LONGEST_PLANNED = 4 << 20
"""Characters of a text that is planned, and of a row of a list: it is searched some sixty times, which keeps Python's lock meanwhile."""

_MOST_BEFORE = 10_000
"""Most tokens before VALUES: a table, and its columns."""
_VALUES = "VALUES"
_ROW_LITERAL = r"(?:'(?:[^']++|'')*+'|[+-]?\d++(?:\.\d*+)?(?:[eE][+-]?\d++)?|(?i:NULL|TRUE|FALSE))"
_ROW = rf"\s*+\(\s*+{_ROW_LITERAL}\s*+(?:,\s*+{_ROW_LITERAL}\s*+)*+\)"
_LITERAL_ROWS = re.compile(rf"{_ROW}(?:\s*+,{_ROW}){{0,2000}}+")
_LITERAL_ROW = re.compile(_ROW)
_SEPARATOR = re.compile(r"\s*+(?:(?P<comma>,)|;?\s*+\Z)")


class PartialQuery(NamedTuple):
    """A query that gives some of the rows; `is_literal` where they are made of plain literals alone."""

    sql: str
    is_literal: bool


def insert_head(text: str) -> list[Token] | None:
    """Return the tokens of a long INSERT up to VALUES, whose token spans the rest of the text; None for any other statement.

    >>> insert_head("INSERT INTO t VALUES (1)") is None
    True
    """
    if len(text) < LONG:
        return None
    head: list[Token] = []
    for token in tokens_of(text):
        if not head and token.word != "INSERT":
            return None
        if token.word == _VALUES:
            return [*head, token._replace(stop=len(text))]
        head.append(token)
        if token.word in {"SELECT", "WITH"} or len(head) > _MOST_BEFORE:
            return None
    return None


def pieces(query: str) -> Iterator[PartialQuery]:
    """A query in parts that give its rows one after another: a long VALUES list in several ones, any other as it is.

    >>> list(pieces("VALUES (1), (2)"))
    [PartialQuery(sql='VALUES (1), (2)', is_literal=False)]
    """
    if len(query) < LONG or query[: len(_VALUES)].upper() != _VALUES:
        yield PartialQuery(query, is_literal=False)
        return
    at, has_more = len(_VALUES), True
    while has_more:
        literal = _LITERAL_ROWS.match(query, at)
        if literal is not None and literal.end() - at > LONG:
            literal = _LITERAL_ROW.match(query, at)
        stop = _end_of_rows(query, at) if literal is None else literal.end()
        if stop - at > LONGEST_PLANNED:
            raise LimitExceeded(
                f"a row of VALUES has {stop - at} characters; expected at most {LONGEST_PLANNED}: send its values as parameters"
            )
        yield PartialQuery(f"{_VALUES} {query[at:stop]}", is_literal=literal is not None)
        at, has_more = _after_comma(query, stop)


def _after_comma(query: str, start: int) -> tuple[int, bool]:
    """Return the start of the next row, and whether there is one; raise `SqlError` for anything but a comma or the end."""
    simple = _SEPARATOR.match(query, start)
    if simple is not None:
        return simple.end(), simple["comma"] is not None
    token = next(iter(tokens_of(query[start:])), None)  # behind comments
    if token is None or token.is_sign(";"):
        return len(query), False
    if not token.is_sign(","):
        raise SqlError(
            f"expected a comma or the end after a row of VALUES, got {token.text!r}"
            f" at character {start + token.start + 1} of the list"
        )
    return start + token.stop, True


def _end_of_rows(query: str, start: int) -> int:
    """Return the end of a run of bracketed rows that begins at a place."""
    depth = stop = 0
    for token in tokens_of(query[start:]):
        sign = token.text if token.kind is Kind.SIGN else ""
        if depth == 0 and sign != "(" and (sign != "," or not stop or stop > PIECE):
            break
        depth += (sign == "(") - (sign == ")")
        stop = token.stop if depth == 0 and sign == ")" else stop
    return start + stop
