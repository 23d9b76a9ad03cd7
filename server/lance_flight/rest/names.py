"""Names and expressions of requests, translated to our SQL: identifiers joined by a delimiter, field paths, and Lance's dialect of SQL.

Lance finds the names of columns whatever their case, and takes backticks around those that need quotes.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lance_flight.engine.sql.references import enclose, quote_parts, text_literal
from lance_flight.engine.sql.tokens import Edit, Kind, Token, closing_places, edit_text, spelled_out
from lance_flight.errors import InvalidInput, SqlError, Unsupported

DELIMITER = "$"
PUBLIC = "public"
"""Schema of the tables of the root, which no identifier of the catalog names."""
MOST_PARTS, MOST_CHARACTERS, LONGEST_DELIMITER = 64, 4_000, 8


def parse_id(text: str, delimiter: str = DELIMITER) -> tuple[str, ...]:
    """Split an identifier; `InvalidInput` names one that is too long, or has a name that no table can have.

    >>> parse_id("a$flights"), parse_id("$"), parse_id("a.flights", ".")
    (('a', 'flights'), (), ('a', 'flights'))
    """
    if not 0 < len(delimiter) <= LONGEST_DELIMITER:
        raise InvalidInput(f"delimiter {delimiter!r}; expected 1 to {LONGEST_DELIMITER} characters")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"an identifier of {len(text)} characters; expected at most {MOST_CHARACTERS}")
    if text in ("", delimiter):
        return ()
    parts = tuple(text.split(delimiter))
    if len(parts) > MOST_PARTS:
        raise InvalidInput(f"an identifier of {len(parts)} names; expected at most {MOST_PARTS}")
    for part in parts:
        if not part or part in (".", "..") or not set(part).isdisjoint("/\\@\x00") or not part.isprintable():
            raise InvalidInput(
                f"name {part!r} in identifier {text!r}; expected one without / \\ @ and control characters"
            )
    return parts


@dataclass(frozen=True, slots=True)
class TableId:
    """Table that a request names: its schema, its name, and the point in its history that is read, if it says one."""

    db_schema: str
    name: str
    at: str | None = None

    @classmethod
    def of(cls, parts: tuple[str, ...]) -> TableId:
        """Return the table of an identifier; `InvalidInput` for the root."""
        if not parts:
            raise InvalidInput("the identifier names the root; expected a table")
        return cls(schema_of(parts[:-1]), parts[-1])

    def pin(self, version: int | None, branch: str | None, tag: str | None = None) -> TableId:
        """Return the table at a version, on a branch, at a version of a branch, or at a tag; `Unsupported` for a tag and one of these."""
        names = [name for name in (None if branch == "main" else branch, tag) if name not in (None, "")]
        wrong = [name for name in names if not set(str(name)).isdisjoint('@$"')]
        if wrong:
            raise InvalidInput(f"{wrong[0]!r} is no name of a tag or branch; expected one without @ $ and quotes")
        if tag in names and (len(names) > 1 or version is not None):
            raise Unsupported(f"tag {tag!r} beside a version or a branch; expected the tag alone")
        points = [*names, *([] if version is None else [str(version)])]
        return TableId(self.db_schema, self.name, "@".join(map(str, points)) or None)

    @property
    def pinned_name(self) -> str:
        """The name without its schema, at its point in history: `t`, `t@12`, `t@branch@12`."""
        return self.name if self.at is None else f"{self.name}@{self.at}"

    @property
    def sql(self) -> str:
        """The name in SQL, at its point in history."""
        return quote_parts(self.db_schema, self.pinned_name)

    @property
    def argument(self) -> str:
        """The name as an argument of a search function."""
        return text_literal(self.sql)

    def metadata(self, kind: str) -> str:
        """Return the name of a metadata table in SQL: `t$snapshots`."""
        return quote_parts(self.db_schema, f"{self.pinned_name}${kind}")


def schema_of(parts: tuple[str, ...]) -> str:
    """Return the schema that a namespace is in SQL.

    >>> schema_of(()), schema_of(("a", "b"))
    ('public', 'a.b')
    """
    return ".".join(parts) or PUBLIC


def namespace_of(db_schema: str) -> tuple[str, ...]:
    """Return the names of a schema's namespace; none for that of the root."""
    return () if db_schema == PUBLIC else tuple(db_schema.split("."))


def fold_column(name: str, names: Sequence[str]) -> str:
    """Return the name of a column as a table has it, whatever the case of its letters; itself for one that the table lacks.

    >>> fold_column("ID", ["id"]), fold_column("ID", ["id", "ID"])
    ('id', 'ID')
    """
    return name if name in names else {known.lower(): known for known in reversed(names)}.get(name.lower(), name)


def column_sql(path: object) -> str:
    """Return the SQL of a Lance field path: names joined by dots, those with dots in backticks."""
    if not isinstance(path, str) or not path:
        raise InvalidInput(f"column {path!r}; expected a name")
    return quote_parts(*field_path(path))


def field_path(path: str) -> list[str]:
    """Split a Lance field path.

    >>> field_path("meta.`a.b`.c")
    ['meta', 'a.b', 'c']
    """
    parts, rest = [], path
    while rest:
        if rest.startswith("`"):
            end = rest.find("`", 1)
            while 0 < end < len(rest) - 1 and rest[end + 1] == "`":
                end = rest.find("`", end + 2)
            if end < 0:
                raise InvalidInput(f"column {path!r} has a backtick without its end")
            parts.append(rest[1:end].replace("``", "`"))
            rest = rest[end + 1 :]
            if rest and not rest.startswith("."):
                raise InvalidInput(f"column {path!r}; expected names joined by dots")
            rest = rest[1:]
        else:
            name, _, rest = rest.partition(".")
            parts.append(name)
    return parts


MOST_EXPRESSION = 4 << 20
_CASTS: Mapping[str, str] = MappingProxyType({"CAST": "arrow_cast", "TRY_CAST": "arrow_try_cast"})
_INTEGERS: Mapping[str, str] = MappingProxyType(
    {"TINYINT": "Int8", "SMALLINT": "Int16", "INT": "Int32", "INTEGER": "Int32", "BIGINT": "Int64"}
)
"""Types of Arrow by their names in SQL."""
_OPERATORS = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "LIKE",
        "ILIKE",
        "BETWEEN",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "FROM",
        "DISTINCT",
        "SELECT",
        "WHERE",
    ]
)
"""Words before a bracket that are no function."""
_PREFIXES, _LITERALS = frozenset(["NOT", "CASE"]), frozenset(["NULL", "TRUE", "FALSE"])
_COMPARISONS = frozenset(["=", "<", ">", "<=", ">=", "<>", "!="])
_RELATIONS = frozenset(["TARGET", "SOURCE"])
"""Names of the two tables of a merge."""


def expression(text: object, names: Collection[str], relation: str = "", *, is_condition: bool = False) -> str:
    """Return an expression of Lance in our SQL, in brackets; `SqlError` for one that is not a single expression.

    `names` are the columns of the table. Those without a relation are of `relation`, if one is given. Casts to integers cut numbers
    off, where ours round. In a condition `regexp_match` tells whether a text matches.

    >>> expression("`my col` = 'a' AND price > 2", ["my col", "Price"]).split()
    ['("my', 'col"', '=', "'a'", 'AND', '"Price"', '>', '2', ')']
    >>> expression("and = meta.Id AND in NOT IN (1)", ["and", "id", "in"]).split()
    ['("and"', '=', 'meta."Id"', 'AND', '"in"', 'NOT', 'IN', '(1)', ')']
    >>> expression("date > date '2026-01-01'", ["date"]).split()
    ['("date"', '>', 'date', "'2026-01-01'", ')']
    >>> print(expression("cast(a as int) = f(b)::bigint OR (a)::text::int = 1", ["a", "b"]).strip(")"))
    (arrow_cast("a" ,'Int32') = arrow_cast(f("b"),'Int64') OR arrow_cast(("a")::text,'Int32') = 1
    <BLANKLINE>
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"{text!r} is no expression of SQL; expected a text")
    if len(text) > MOST_EXPRESSION:
        raise InvalidInput(f"an expression of {len(text)} characters; expected at most {MOST_EXPRESSION}")
    tokens = spelled_out(text)
    _check_single(tokens, text)
    folded = {name.lower(): name for name in reversed(list(names))}
    edits = list(_integer_casts(tokens))
    if is_condition:
        edits += [(token.start, token.stop, "regexp_like") for token in tokens if token.word == "REGEXP_MATCH"]
    for place, is_field in _places_of_names(tokens, folded, _RELATIONS if relation else ()):
        token, is_inside = tokens[place], place > 0 and tokens[place - 1].is_sign(".")
        is_folded = token.kind is Kind.WORD and not is_field
        name = token.text if token.text in names else folded.get(token.text.lower()) if is_folded else None
        if name is not None or is_field or token.kind is Kind.NAME:
            before = f"{relation}." if relation and name is not None and not is_inside else ""
            edits.append((token.start, token.stop, before + quote_parts(name or token.text)))
    return enclose(edit_text(text, edits))


def _places_of_names(
    tokens: Sequence[Token], columns: Container[str], relations: Container[str]
) -> Iterator[tuple[int, bool]]:
    """Yield where names of columns and of fields inside them stand, and whether it is a field.

    A word behind an operand is an operator, whatever columns there are: two operands never stand side by side.
    """
    is_behind = False
    for place, token in enumerate(tokens):
        is_relation = token.word in relations and _word_after(tokens, place) == "."
        if place and tokens[place - 1].is_sign("."):
            yield place, tokens[place - 2].word not in relations
            is_behind = True
        elif token.kind is Kind.NAME or (not is_behind and not is_relation and _is_column(tokens, place, columns)):
            yield place, False
            is_behind = True
        else:
            is_behind = _ends_operand(tokens, place, is_behind=is_behind)


def _is_column(tokens: Sequence[Token], place: int, columns: Container[str]) -> bool:
    """Return whether a token is the name of a column, where an operand is to stand."""
    token = tokens[place]
    if token.kind is not Kind.WORD or token.word in _LITERALS or _is_type_or_function(tokens, place):
        return False
    if token.word in _PREFIXES:
        return _word_after(tokens, place) in _COMPARISONS
    return token.word not in _OPERATORS or token.text.lower() in columns


def _ends_operand(tokens: Sequence[Token], place: int, *, is_behind: bool) -> bool:
    """Return whether an operand ends with a token that is no name; one may end before it (`is_behind`)."""
    token = tokens[place]
    if token.kind is Kind.SIGN:
        return token.text in ")]"
    if token.kind is not Kind.WORD:
        return True
    if is_behind:
        return token.word in ("NOT", "END")  # behind NOT is another operator: x NOT IN (1)
    if token.word == "CASE":
        return _word_after(tokens, place) == "WHEN"
    return token.word not in _OPERATORS


def _word_after(tokens: Sequence[Token], place: int) -> str:
    return tokens[place + 1].text.upper() if place + 1 < len(tokens) else ""


def _integer_casts(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Yield what makes casts to integers those of Arrow: `CAST(x AS INT)`, `TRY_CAST(x AS INT)` and `x::INT`."""
    closing = closing_places(tokens, "([", ")]")
    opening = {close: start for start, close in closing.items()}
    begins: dict[int, int] = {}
    for place, token in enumerate(tokens):
        function, following = _CASTS.get(token.word), tokens[place + 1 : place + 2]
        if function is not None and following and following[0].is_sign("("):
            end = closing.get(place + 1, 0)
            kind = _INTEGERS.get(tokens[end - 1].word) if end else None
            if kind is not None and tokens[end - 2].word == "AS":
                yield token.start, token.stop, function
                yield tokens[end - 2].start, tokens[end - 1].stop, f",'{kind}'"
        elif token.is_sign("::") and following and place:
            begins[place] = _operand(tokens, place - 1, opening, begins)
            if following[0].word not in _INTEGERS:
                continue
            begin = tokens[begins[place]].start
            yield begin, begin, "arrow_cast("
            yield token.start, following[0].stop, f",'{_INTEGERS[following[0].word]}')"


def _operand(tokens: Sequence[Token], last: int, opening: Mapping[int, int], begins: Mapping[int, int]) -> int:
    """Return the place at which the operand of `::` begins, whose last token is at `last`; `begins` has those of casts before."""
    place = opening.get(last, last)
    while place > 0:
        before = tokens[place - 1]
        is_name = before.kind is Kind.NAME or (before.kind is Kind.WORD and before.word not in _OPERATORS)
        if tokens[place].text in ("(", "[") and is_name:
            place -= 1
        elif tokens[place].is_sign("[") and place - 1 in opening:
            place = opening[place - 1]
        elif before.is_sign(".") and place > 1:
            place -= 2
        else:
            return begins.get(place - 1, place)
    return place


def _is_type_or_function(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a word is the name of a function, or a type: `f(`, `date '2026-01-01'`, `CAST(… AS date)`."""
    following = tokens[place + 1] if place + 1 < len(tokens) else None
    is_before = following is not None and (following.is_sign("(") or following.kind is Kind.STRING)
    return is_before or (place > 0 and (tokens[place - 1].word == "AS" or tokens[place - 1].is_sign("::")))


def _check_single(tokens: Sequence[Token], text: str) -> None:
    """Refuse a text that would end the brackets around it, or has parameters."""
    depth = 0
    for token in tokens:
        if token.kind is Kind.PARAMETER:
            raise SqlError(f"{text[:200]!r} has the parameter {token.text}; expected values")
        if token.kind is Kind.SIGN:
            depth += (token.text in "([") - (token.text in ")]")
            if depth < 0 or token.text == ";":
                raise SqlError(f"{text[:200]!r} is no single expression: {token.text!r} at {token.start + 1}")
    if depth:
        raise SqlError(f"{text[:200]!r} is no expression: {depth} brackets have no end")
