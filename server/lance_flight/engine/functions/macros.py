"""Macros: calls of functions whose body is SQL over their parameters, replaced by that body before the other rewrites.

`year(ts)` becomes `date_part('year', ts)`, so that it prunes, is typed and is bounded as that is. Arguments are put in brackets where
they are not an argument again. What follows a call of an aggregate (FILTER, OVER), and DISTINCT and ORDER BY within it, go to the
aggregates of the body. `engine.sql.select_lists` has named the select items before.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from lance_flight.engine.sql.clause_words import DIRECTIONS
from lance_flight.engine.sql.references import relation_places, text_literal
from lance_flight.engine.sql.tokens import Edit, Kind, TextPlaces, Token, closing_places, edit_text, place_in, tokenize
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

MOST_GROWTH = 4 << 20
"""Most characters of all bodies of one statement: some say an argument twice, also within another one that does."""
_SIGNATURE = re.compile(
    r"(?P<name>\w+)\((?P<parameters>.*?)\)(?: WITHIN GROUP \(ORDER BY (?P<within>\w+)\))?", re.DOTALL
)
_NO_CALL_AFTER = frozenset(["AS", "INTO", "TABLE", "UPDATE", "VIEW", "INTERVAL"])
_NO_FUNCTIONS = frozenset(["cast", "try_cast", "filter"])
_LISTS = frozenset(["ARRAY", "MAKE_ARRAY", "LIST_VALUE"])
_BETWEEN_VALUES = frozenset(["percentile_cont"])
"""Functions whose value at a share of rows that fall is that at the rest of 1 of rows that rise."""
_LITERALS: Mapping[str, AbstractSet[Kind]] = {"unit": {Kind.STRING, Kind.NUMBER, Kind.WORD}, "word": {Kind.WORD}}
"""Kinds of tokens that parameters of some names take."""
_MARK = re.compile(r"\{(\w+)\}")

Read = Callable[[str], str]
"""Returns what stands in the body for a literal; `SqlError` for a wrong one, `NotTaken` where another signature may take it."""


class NotTaken(SqlError):
    """An argument of another kind than a signature takes."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a macro: a value; a list that is written (`is_list`); a literal or a word, which `read` reads; or all that is left (`is_rest`)."""

    name: str
    default: str | None = None
    read: Read | None = None
    is_rest: bool = False
    is_list: bool = False

    @classmethod
    def of(cls, text: str, readers: Mapping[str, Read]) -> Parameter:
        """Read one parameter of a signature: `a`, `sep = ','`, `'p:width'` (a literal `p` that the reader `width` reads), `list[]`, `rest...`.

        That of a `unit` may be a word without quotes, and that of a `word` must be one.
        """
        name, _, default = text.partition(" = ")
        if name.startswith("'"):
            named, _, reader = name.strip("'").partition(":")
            return cls(named, default or None, readers[reader or named])
        is_rest, is_list = name.endswith("..."), name.endswith("[]")
        return cls(name.rstrip(".[]"), default or None, is_rest=is_rest, is_list=is_list)


@dataclass(frozen=True)
class Macro:
    """A function with a body: SQL over its parameters, which are words of it, or `{names}` in its texts for those that are literals.

    A `within` parameter is the key of WITHIN GROUP.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: str
    within: str | None = None

    @classmethod
    def of(cls, signature: str, body: str, readers: Mapping[str, Read]) -> Macro:
        """Read a signature.

        >>> Macro.of("nvl(a, b = 0)", "coalesce(a, b)", {}).counts
        range(1, 3)
        """
        match = _SIGNATURE.fullmatch(signature)
        if match is None:
            raise SqlError(f"{signature!r} is no signature; expected name(parameter, …)")
        parameters = tuple(Parameter.of(name, readers) for name in match["parameters"].split(", ") if name)
        return cls(match["name"], parameters, body, match["within"])

    @cached_property
    def counts(self) -> range:
        """Return how many arguments it takes."""
        needed = sum(parameter.default is None and not parameter.is_rest for parameter in self.parameters)
        return range(
            needed, 10_000 if any(parameter.is_rest for parameter in self.parameters) else len(self.parameters) + 1
        )

    @cached_property
    def tokens(self) -> Sequence[Token]:
        """Tokens of the body."""
        return tokenize(self.body)

    @cached_property
    def is_one_call(self) -> bool:
        """True if the body is one call, which needs no brackets around it."""
        tokens, closing = self.tokens, closing_places(self.tokens)
        if not (len(tokens) > 1 and tokens[0].word and tokens[1].is_sign("(")):
            return False
        last = closing.get(1, 0)
        if last + 1 < len(tokens) and tokens[last + 1].word == "FILTER":
            last = closing.get(last + 2, 0)
        return last == len(tokens) - 1

    @cached_property
    def repeated(self) -> frozenset[str]:
        """Return the parameters that the body names more than once."""
        words = [token.text.lower() for token in self.tokens if token.word]
        return frozenset(parameter.name for parameter in self.parameters if words.count(parameter.name) > 1)

    @cached_property
    def calls(self) -> frozenset[str]:
        """Names of the functions that the body calls."""
        named = {one.text.lower() for one, after in pairwise(self.tokens) if after.is_sign("(") and one.word}
        return frozenset(named - _NO_FUNCTIONS)


@dataclass(slots=True)
class Modifiers:
    """Words in and behind the call of an aggregate, beside its arguments."""

    quantifier: str = ""
    order: str = ""
    nulls: str = ""
    condition: str = ""
    over: str = ""

    def __bool__(self) -> bool:
        return bool(self.quantifier or self.order or self.nulls or self.condition or self.over)


@dataclass(slots=True)
class _Call:
    """A call in a text: its macros, the texts of its arguments, and its tokens from `first` to before `stop`."""

    name: str
    macros: Sequence[Macro]
    first: int
    stop: int = 0
    arguments: list[tuple[int, int]] = field(default_factory=list)
    within: tuple[int, int] | None = None
    modifiers: Modifiers = field(default_factory=Modifiers)
    chosen: tuple[Macro, dict[str, str]] | None = None
    places: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Macros:
    """Macros by name; each may have several signatures.

    `is_aggregate` tells which functions of bodies are aggregates, `volatile` which functions give another value each time: an argument that
    calls one is computed once. `is_other` tells of names that have functions for other arguments. `tables` are the macros behind FROM, `instead` tells
    what to write in place of functions that are not offered.
    """

    named: Mapping[str, Sequence[Macro]]
    is_aggregate: Callable[[str], bool]
    volatile: Callable[[], frozenset[str]]
    is_other: Callable[[str], bool]
    tables: Mapping[str, Sequence[Macro]] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)

    def expand(self, text: str) -> str:
        r"""Return a text with the body of each macro in place of its calls.

        >>> year = Macro.of("year(ts)", "date_part('year', ts)", {})
        >>> Macros({"year": [year]}, lambda _: False, frozenset, lambda _: False).expand("SELECT year(a || b) + 1 FROM t")
        "SELECT date_part('year', a || b) + 1 FROM t"
        """
        return edit_text(text, self.edits(text, tokenize(text)))

    def edits(self, text: str, tokens: Sequence[Token]) -> list[Edit]:
        """Return the edits that write the bodies; aggregates of PIVOT are left until it is written in their words."""
        words = {token.text.lower() for token in tokens if token.word}
        if all(map(words.isdisjoint, (self.named, self.tables, self.instead))):
            return []
        reader = _Reader(text, tokens, self)
        reader.read()
        return list(reader.edits(0, len(tokens)))

    def explain_missing(self, text: str, message: str) -> str:
        """Return what a message about functions that a text does not call adds: which macro calls them."""
        try:
            tokens = tokenize(text)
        except (SqlError, LimitExceeded):
            return ""
        called = {one.text.lower() for one, after in pairwise(tokens) if one.word and after.is_sign("(")}
        if message.partition(" ")[0] in called:  # it is about the macro already
            return ""
        for macro in (each for name in sorted(called) for each in self.named.get(name, ())):
            if any(re.search(rf"\b{name}\b", message) for name in macro.calls - called):
                return f"; {signature_of(macro)} is {macro.body}"
        return ""


class _Reader(TextPlaces):
    def __init__(self, text: str, tokens: Sequence[Token], macros: Macros) -> None:
        super().__init__(text, tokens)
        self._macros = macros
        self._opening = {stop: start for start, stop in self._closing.items()}
        self._room = MOST_GROWTH
        self._relations = relation_places(self)
        self._found: dict[int, tuple[int, str]] = {}
        self._places: list[int] = []
        """The negatives of the tokens at which calls begin that are written, the least first."""
        self._pivots = [self._pivot(at) for at, token in enumerate(tokens) if token.word == "PIVOT"]

    def _pivot(self, at: int) -> range:
        """Return the tokens of the aggregates of a PIVOT: those in its brackets, or behind USING."""
        if self.is_sign(at + 1, "("):
            return range(at, self._closing.get(at + 1, at))
        begun = at
        while begun < len(self.tokens) and self.word_at(begun) != "USING":
            begun = self._closing.get(begun, begun) + 1
        return range(begun, len(self.tokens))

    def read(self) -> None:
        """Write the body of each call, the last call first: those within a call's arguments are behind its name."""
        named = (self._macros.named, self._macros.tables, self._macros.instead)
        for at in range(len(self.tokens) - 1, -1, -1):
            token = self.tokens[at]
            if token.word and any(token.text.lower() in names for names in named):
                call = self._call(at)
                if call is not None:
                    self._found[at] = call.stop, self._write_body(call)
                    self._places.append(-at)

    def edits(self, first: int, stop: int) -> Iterator[Edit]:
        """Yield the edits of the outermost calls among some tokens, of those that are written."""
        done = first
        for place in reversed(self._places[bisect_right(self._places, -stop) : bisect_right(self._places, -first)]):
            if -place >= done:
                done, new = self._found[-place]
                yield self.tokens[-place].start, self.tokens[done - 1].stop, new

    def _between(self, first: int, stop: int) -> str:
        """Return the text of some tokens with their calls expanded."""
        if first >= stop:
            return ""
        start, end = self.tokens[first].start, self.tokens[stop - 1].stop
        edits = [(one - start, other - start, new) for one, other, new in self.edits(first, stop)]
        return edit_text(self._text[start:end], edits)

    # --- reading

    def _call(self, at: int) -> _Call | None:
        """Return the call of a macro that begins at a token; None for a name of anything else."""
        token = self.tokens[at]
        name = token.text.lower()
        is_relation = at - 1 in self._relations
        macros = (self._macros.tables if is_relation else self._macros.named).get(name, ())
        instead = "" if is_relation else self._macros.instead.get(name, "")
        closed = self._closing.get(at + 1)
        if not (token.word and (macros or instead)) or closed is None or not self.is_sign(at + 1, "("):
            return None
        if (
            (self.kind(at - 1) is Kind.SIGN and self.text(at - 1) in {".", "::"})
            or self.word_at(at - 1) in _NO_CALL_AFTER
            or (not is_relation and self.ends_operand(at - 1) and not self._ends_quantifier(at - 1))
            or any(at in pivot for pivot in self._pivots)
            or (self.word_at(closed + 1) == "AS" and self._begins_query(closed + 2))
        ):
            return None
        if not macros:
            raise SqlError(f"Invalid function {token.text!r}; write {instead}")
        call = _Call(name, macros, at, closed + 1)
        self._read_arguments(call, at + 1, closed)
        self._read_suffixes(call)
        try:
            call.chosen = self._choose_macro(call)
        except NotTaken:
            if self._macros.is_other(name):
                return None
            raise
        return call

    def _ends_quantifier(self, at: int) -> bool:
        """Return whether the bracket of DISTINCT ON (…) or TOP (…) ends at a token, behind which the first item stands."""
        opened = self._opening.get(at, 0)
        before = self.word_at(opened - 1)
        return self.is_sign(at, ")") and (
            before == "TOP" or (before == "ON" and self.word_at(opened - 2) == "DISTINCT")
        )

    def _begins_query(self, at: int) -> bool:
        """Return whether the query of WITH begins, so that the name before its columns is no call."""
        at += self.word_at(at) == "NOT"
        at += self.word_at(at) == "MATERIALIZED"
        return self.is_sign(at, "(")

    def _read_arguments(self, call: _Call, opened: int, closed: int) -> None:
        begun = place = opened + 1
        if self.word_at(place) in {"DISTINCT", "ALL"} and not self.is_sign(place + 1, ","):
            call.modifiers.quantifier = self.word_at(place)
            begun = place = place + 1
        end = closed
        while place < closed:
            if self.is_sign(place, ","):
                call.arguments.append((begun, place))
                begun = place + 1
            elif self.word_at(place) == "ORDER" and self.word_at(place + 1) == "BY":
                end = self._separator(place, closed)
                call.modifiers.order = self._between(place + 2, end)
                break
            elif self.word_at(place) == "SEPARATOR" and place > begun:
                end = place
                break
            place = self._closing.get(place, place) + 1
        last = min(place, closed)
        if begun < last or call.arguments:
            call.arguments.append((begun, last))
        if self.word_at(end) == "SEPARATOR":
            call.arguments.append((end + 1, closed))

    def _separator(self, at: int, closed: int) -> int:
        while at < closed and self.word_at(at) != "SEPARATOR":
            at = self._closing.get(at, at) + 1
        return at

    def _read_suffixes(self, call: _Call) -> None:
        while True:
            at = call.stop
            word, after = self.word_at(at), self.word_at(at + 1)
            if word == "FILTER" and self.is_sign(at + 1, "(") and self.word_at(at + 2) == "WHERE":
                closed = self._closing.get(at + 1, at + 1)
                call.modifiers.condition = self._between(at + 3, closed)
            elif word == "WITHIN" and after == "GROUP" and self.is_sign(at + 2, "("):
                closed = self._closing.get(at + 2, at + 2)
                call.within = at + 5, closed
            elif word == "OVER" and self.is_sign(at + 1, "("):
                closed = self._closing.get(at + 1, at + 1)
                call.modifiers.over = self._between(at, closed + 1)
            elif word == "OVER":
                closed = at + 1
                call.modifiers.over = self._between(at, at + 2)
            elif word in {"IGNORE", "RESPECT"} and after == "NULLS":
                closed = at + 1
                call.modifiers.nulls = f"{word} NULLS"
            else:
                return
            call.stop = closed + 1

    # --- writing

    def _write_body(self, call: _Call) -> str:
        """Return the body of a call's macro with its arguments."""
        macro, given = call.chosen or self._choose_macro(call)
        self._check_once(call, macro)
        edits = [*self._argument_edits(macro, given), *self._modifier_edits(call, macro)]
        new = edit_text(macro.body, edits)
        self._room -= max(0, len(new) - sum(map(len, given.values())))
        if self._room < 0:
            raise LimitExceeded(
                f"the functions of the statement have more than {MOST_GROWTH:,} characters in the words of DataFusion;"
                " write those that are within one another in queries of their own"
            )
        return new if macro.is_one_call else f"({new})"

    def _choose_macro(self, call: _Call) -> tuple[Macro, dict[str, str]]:
        """Return the macro that takes the arguments of a call, and what stands for each of its parameters."""
        refusal: SqlError = NotTaken(f"takes {self._take_arguments(call)}, got {len(call.arguments)} arguments")
        for macro in call.macros:
            if len(call.arguments) in macro.counts and (macro.within is None or call.within is not None):
                try:
                    return macro, self._given_arguments(call, macro)
                except NotTaken as exc:
                    refusal = exc
                except (SqlError, Unsupported) as exc:
                    raise self._error(call, str(exc)) from exc
        raise self._error(call, str(refusal), type(refusal))

    def _take_arguments(self, call: _Call) -> str:
        return " or ".join(dict.fromkeys(signature_of(macro).removeprefix(macro.name) for macro in call.macros))

    def _given_arguments(self, call: _Call, macro: Macro) -> dict[str, str]:
        given: dict[str, str] = {}
        places = iter(call.arguments)
        for parameter in macro.parameters:
            if parameter.is_rest:
                given[parameter.name] = ", ".join(self._read_named(*place) for place in places)
                continue
            place = next(places, None)
            if place is None:
                given[parameter.name] = parameter.default or ""
            elif parameter.is_list and not self._is_list(place[0]):
                raise NotTaken(f"takes a list for {parameter.name}, as [0.25, 0.75]")
            elif parameter.read is None:
                given[parameter.name] = self._between(*place)
            else:
                given[parameter.name] = self._literal(parameter, *place)
            call.places[parameter.name] = (0, 0) if place is None else place
        if macro.within is not None and call.within is not None:
            first, stop = call.within
            is_falling = self.word_at(stop - 1) == "DESC" and call.name.lower() in _BETWEEN_VALUES
            if is_falling and not self._is_list(call.places["q"][0]):
                given["q"] = f"1 - {_bracket(given['q'])}"
                stop -= 1
            stop -= self.word_at(stop - 1) == "ASC"
            if self.word_at(stop - 1) in DIRECTIONS:
                raise SqlError("takes no DESC and NULLS in WITHIN GROUP; write 1 - q in place of q for DESC")
            given[macro.within] = self._between(first, stop)
        elif call.within is not None:
            call.modifiers.order = call.modifiers.order or self._between(*call.within)
        return given

    def _is_list(self, at: int) -> bool:
        """Return whether a list is written at a token: `[…]`, `ARRAY[…]` or `array(…)`."""
        return self.is_sign(at, "[") or (self.word_at(at) in _LISTS and self.text(at + 1) in {"[", "("})

    def _read_named(self, first: int, stop: int) -> str:
        """Return an argument; one with a name (`a := 1`, `a => 1`) as its name, a comma and its value."""
        for sign, length in ((":", 2), ("=", 2)):
            follows = self.text(first + 2) in {"=", ">"}
            if self.kind(first) in {Kind.WORD, Kind.NAME} and self.is_sign(first + 1, sign) and follows:
                return f"{text_literal(self.text(first))}, {self._between(first + 1 + length, stop)}"
        return self._between(first, stop)

    def _literal(self, parameter: Parameter, first: int, stop: int) -> str:
        tokens = self.tokens[first : min(stop, first + len(("INTERVAL", "1", "DAY", "more")))]
        if parameter.read is not None and len(tokens) in {2, 3} and tokens[0].word == "INTERVAL":
            return parameter.read(" ".join(token.text for token in tokens[1:]))
        kinds = _LITERALS.get(parameter.name, {Kind.STRING, Kind.NUMBER})
        if parameter.read is None or len(tokens) != 1 or tokens[0].kind not in kinds:
            said = tokens[0].text if len(tokens) == 1 else "an expression"
            raise NotTaken(f"takes a literal for {parameter.name}, got {said}")
        return parameter.read(tokens[0].text)

    @cached_property
    def _changing(self) -> list[int]:
        """Return the tokens at which functions are called that give another value each time."""
        volatile = self._macros.volatile()
        named = (at for at, token in enumerate(self.tokens) if token.word and token.text.lower() in volatile)
        return [at for at in named if self.is_sign(at + 1, "(")]

    def _check_once(self, call: _Call, macro: Macro) -> None:
        """Refuse an argument that would give another value each time that the body names it."""
        for name in macro.repeated & call.places.keys():
            first, stop = call.places[name]
            changing = self._changing[bisect_left(self._changing, first) : bisect_left(self._changing, stop)]
            if changing:
                called = self.text(changing[0]).lower()
                raise self._error(call, f"would compute {called}() more than once; name its value in a query in FROM")

    def _argument_edits(self, macro: Macro, given: Mapping[str, str]) -> Iterator[Edit]:
        literals = {parameter.name for parameter in macro.parameters if parameter.read is not None}
        tokens = macro.tokens
        for at, token in enumerate(tokens):
            name = token.text.lower()
            if token.kind is Kind.STRING and "{" in token.text:
                new = text_literal(_MARK.sub(lambda found: given.get(found[1], found[0]), token.text))
            elif not token.word or name not in given or (at + 1 < len(tokens) and tokens[at + 1].is_sign("(")):
                continue
            elif name in literals:
                new = text_literal(given[name])
            else:
                rest = any(parameter.is_rest and parameter.name == name for parameter in macro.parameters)
                new = given[name] if rest or _is_argument(tokens, at) else _bracket(given[name])
                if not new and at > 0 and tokens[at - 1].is_sign(","):
                    yield tokens[at - 1].start, token.stop, ""
                    continue
            yield token.start, token.stop, new

    def _modifier_edits(self, call: _Call, macro: Macro) -> Iterator[Edit]:
        """Yield the edits that write what stands in and behind a call to the aggregates of the body."""
        if not call.modifiers:
            return
        closing, tokens = closing_places(macro.tokens), macro.tokens
        places = [at for at, token in enumerate(tokens[:-1]) if token.word and self._macros.is_aggregate(token.text)]
        called = [at + 1 for at in places if tokens[at + 1].is_sign("(")]
        if not called:
            raise self._error(call, "is no aggregate; it takes no DISTINCT, ORDER BY, FILTER and OVER")
        for opened in called:
            yield from self._aggregate_edits(call, tokens, opened, closing)

    def _aggregate_edits(
        self, call: _Call, tokens: Sequence[Token], opened: int, closing: Mapping[int, int]
    ) -> Iterator[Edit]:
        modifiers, closed = call.modifiers, closing[opened]
        is_ordered = any(token.word == "ORDER" for token in tokens[opened:closed])
        if is_ordered and (modifiers.order or modifiers.over or modifiers.quantifier == "DISTINCT"):
            raise self._error(call, "takes no DISTINCT, ORDER BY and OVER: it is the value beside another one")
        start, stop = tokens[opened].stop, tokens[closed].stop
        yield start, start, f"{modifiers.quantifier} " if modifiers.quantifier else ""
        yield tokens[closed].start, tokens[closed].start, f" ORDER BY {modifiers.order}" if modifiers.order else ""
        yield stop, stop, f" {modifiers.nulls}" if modifiers.nulls else ""
        last = closed
        if closed + 1 < len(tokens) and tokens[closed + 1].word == "FILTER":
            where, last = tokens[closed + 3].stop, closing[closed + 2]
            yield where, where, f" ({modifiers.condition}) AND" if modifiers.condition else ""
        elif modifiers.condition:
            yield stop, stop, f" FILTER (WHERE {modifiers.condition})"
        yield tokens[last].stop, tokens[last].stop, f" {modifiers.over}" if modifiers.over else ""

    def _error(self, call: _Call, said: str, kind: type[SqlError] = SqlError) -> SqlError:
        return kind(f"{call.name} {said}{place_in(self._text, self.tokens[call.first].start)}")


def signature_of(macro: Macro) -> str:
    """Return how a macro is called.

    >>> signature_of(Macro.of("f(a, b = 0)", "a + b", {}))
    'f(a [, b])'
    """
    shown = ""
    for parameter in macro.parameters:
        name = (
            f"'{parameter.name}'"
            if parameter.read is not None
            else f"{parameter.name}, …"
            if parameter.is_rest
            else f"[{parameter.name}, …]"
            if parameter.is_list
            else parameter.name
        )
        comma = ", " if shown else ""
        shown += f" [{comma}{name}]" if parameter.default is not None else f"{comma}{name}"
    within = f" WITHIN GROUP (ORDER BY {macro.within})" if macro.within else ""
    return f"{macro.name}({shown.strip()}){within}"


def _is_argument(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a parameter is a whole argument of a call of the body."""
    return (
        0 < at < len(tokens) - 1
        and tokens[at - 1].text in {"(", ",", "["}
        and tokens[at + 1].text in {")", ",", "]"}
        and tokens[at - 1].kind is tokens[at + 1].kind is Kind.SIGN
    )


def _bracket(text: str) -> str:
    return text if _ONE_TOKEN.fullmatch(text) else f"({text})"


_ONE_TOKEN = re.compile(r"\w+|\$\w+|'[^']*'|\"[^\"]*\"")
