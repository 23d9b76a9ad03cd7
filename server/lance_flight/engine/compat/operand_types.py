"""Operands that are compared with each other, or are values of one expression, in a text whose types only a plan knows.

DataFusion 55 compares a decimal with a double as DECIMAL(30, 15), which 1e300, NaN and infinity are not, and in which 1e-20 is zero.
So operands are planned as arguments of functions that refuse them, which says their types, and decimals beside doubles are cast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, pairwise

import pyarrow as pa

from lance_flight.engine.compat.checked_arithmetic import EXACT, Factors, calls_of
from lance_flight.engine.compat.wrong_comparisons import DOUBLE, REAL, UNSIGNED_NAN
from lance_flight.engine.functions.date_spans import INTERVAL_LENGTH, INTERVAL_OF
from lance_flight.engine.functions.vector_functions import DISTANCES
from lance_flight.engine.sql.clause_words import DIRECTIONS, QUERIES
from lance_flight.engine.sql.comparisons import SIGNS, Operands
from lance_flight.engine.sql.tokens import Edit, Kind, Token, edit_text, place_in, tokenize
from lance_flight.errors import Unsupported
from lance_flight.model.arrow_types import UNIT_NAMES, is_bytes, is_number
from lance_flight.model.type_names import datetime_precision, type_name

OPERAND = "operand"
"""The function around each operand."""
MOST_OPERANDS = 200
INTERVALS = re.compile(r"\bINTERVAL\b|__(?:age|days_of|interval_times)_call\d+", re.IGNORECASE)
"""Matches what makes an interval."""
_PART = re.compile(r"\b(?:EXTRACT|DATE_PART)\s*\(", re.IGNORECASE)
_ZONED = re.compile(
    r"(?P<minutes>'\d{4,}-\d\d?-\d\d?[ T]\d\d?:\d\d)(?P<seconds>:\d\d(?:\.\d+)?)?\s*(?P<zone>Z|[+-]\d\d(?::?\d\d)?)'",
    re.IGNORECASE,
)
"""Matches a text of a moment with its zone."""
_SIGN_OR_WORD = re.compile(r"[<>=]|\b(?:BETWEEN|IN|FROM)\b", re.IGNORECASE)
_COMPARISONS = frozenset(["=", "<", ">", "<=", ">=", "<>", "!="])
_OF_ONE_TYPE = frozenset(["COALESCE", "NULLIF", "GREATEST", "LEAST", "NVL", "IFNULL"])
_MEETS = re.compile(rf"[-<>=]|\b(?:BETWEEN|IN|DISTINCT\s+FROM|CASE|{'|'.join(sorted(_OF_ONE_TYPE))})\b", re.IGNORECASE)
_QUANTIFIERS = frozenset(["ANY", "SOME", "ALL"])
_FRAMES = frozenset(["RANGE", "ROWS", "GROUPS"])
_WITHOUT_DISTANCES = frozenset(["RANGE", "BETWEEN", "UNBOUNDED", "PRECEDING", "AND", "CURRENT", "ROW", "FOLLOWING"])
"""Words of a frame that counts no distance between keys."""
_SET_OPERATORS = frozenset(["UNION", "EXCEPT", "INTERSECT"])

Span = tuple[int, int]
"""First token of an operand, and the token after it."""


def with_operands(text: str, *, of_bits: bool = False) -> tuple[str, list[list[str]]]:
    """Return a text with each operand in a function of its own, and the names of the functions of operands that meet.

    With `of_bits` operands are those whose bits DataFusion compares: keys of windows, and what IN, CASE, nullif and DISTINCT compare.

    >>> with_operands("SELECT a FROM t WHERE a + 1 < b AND c IN (1, d)")[0]
    'SELECT a FROM t WHERE __operand_call0(a + 1) < __operand_call1(b) AND __operand_call2(c) IN (__operand_call3(1), __operand_call4(d))'
    """
    factors, groups = _operands(text, of_bits=of_bits)
    found, flat = named_alike(text, factors, list(chain(*groups)))
    named = iter(flat)
    return found, [[next(named) for _ in group] for group in groups]


def _operands(text: str, *, of_bits: bool) -> tuple[Operands, list[list[Span]]]:
    """Return the operands that meet, in groups."""
    reader = _Reader(tokenize(text))
    groups_of_spans = _groups_of_bits(reader) if of_bits else _groups(reader)
    return reader, [
        group for group in groups_of_spans if all(start < stop for start, stop in group) and (of_bits or len(group) > 1)
    ]


def with_doubles(text: str, names: Sequence[Sequence[str]], types: Mapping[str, pa.DataType]) -> str:
    """Return the text with casts of the decimals that meet doubles; the same text if there are none."""
    beside = {
        name
        for group in names
        if any(pa.types.is_floating(types[name]) for name in group if name in types)
        for name in group
        if name in types and pa.types.is_decimal(types[name])
    }
    return _with(text, names, dict.fromkeys(beside, ("CAST(", " AS DOUBLE)")), of_bits=False)


def with_one_zero(text: str, names: Sequence[Sequence[str]], types: Mapping[str, pa.DataType]) -> str:
    """Return the text without the signs of zeros where operands beside doubles are compared by their bits."""
    around = {
        name: ("(", f"){DOUBLE if any(types.get(each) == pa.float64() for each in group) else REAL}")
        for group in names
        if any(pa.types.is_floating(types[name]) for name in group if name in types)
        for name in group
        if name not in types or is_number(types[name])
    }
    return _with(text, names, around, of_bits=True)


def may_meet_moments(text: str) -> bool:
    """Return whether a query may compare a date with a timestamp, subtract it, or take values of one expression from both."""
    return _MEETS.search(text) is not None


def with_moments(text: str) -> tuple[str, list[str]]:
    """Return a text with each operand that may be a moment in a function, and the names of the functions.

    >>> with_moments("SELECT a - b FROM t WHERE c = d")[0]
    'SELECT __operand_call2(a) - __operand_call3(b) FROM t WHERE __operand_call0(c) = __operand_call1(d)'
    """
    reader, groups = _moments(text)
    return named_alike(text, reader, list(chain(*groups)))


def with_timestamps(text: str, names: Sequence[str], types: Mapping[str, pa.DataType]) -> str:
    """Return the text with casts of the dates that meet timestamps of microseconds, or of fewer digits."""
    around: dict[Span, tuple[str, str]] = {}
    for kinds in _kinds(_moments(text)[1], names, types):
        units = {kind.unit for kind in kinds.values() if pa.types.is_timestamp(kind)}
        if units and "ns" not in units:
            around |= {span: ("CAST(", " AS TIMESTAMP(6))") for span, kind in kinds.items() if pa.types.is_date(kind)}
    return wrap_spans(text, around)


def with_members(text: str) -> tuple[str, list[str]]:
    """Return a text with each operand that is compared, or is a value of one expression or list, in a function, and the names of the functions.

    >>> with_members("SELECT [a, b] FROM t WHERE c = TIME '10:00:00'")[0]
    "SELECT [__operand_call2(a), __operand_call3(b)] FROM t WHERE __operand_call0(c) = __operand_call1(TIME '10:00:00')"
    """
    reader, groups = _members(text)
    return named_alike(text, reader, list(chain(*groups)))


def with_one_kind(text: str, names: Sequence[str], types: Mapping[str, pa.DataType]) -> str:
    """Return the text with casts of times, and of binary values, that meet others of their kind: DataFusion 55 has no common type of them.

    A written time has the unit of the columns that it meets, where that has its digits: so these prune.
    """
    around: dict[Span, tuple[str, str]] = {}
    reader, groups = _members(text)
    for kinds in _kinds(groups, names, types):
        times = {span: kind for span, kind in kinds.items() if pa.types.is_time(kind)}
        binaries = {span: kind for span, kind in kinds.items() if is_bytes(kind)}
        if len(set(times.values())) > 1:
            written = {
                span for span in times if reader.word_at(span[0]) == "TIME" and span[1] - span[0] == _TIME_TOKENS
            }
            units = {kind for span, kind in times.items() if span not in written}
            unit = next(iter(units)) if len(units) == 1 else None
            if unit is not None and all(_has_digits_of(unit, reader.text(start + 1)) for start, _ in written):
                around |= {span: ("arrow_cast(", f", '{_arrow_name(unit)}')") for span in written}
            else:
                around |= dict.fromkeys(times, ("CAST(", " AS TIME)"))
        nulls = [span for span, kind in kinds.items() if pa.types.is_null(kind)]
        if len(set(binaries.values())) > 1 or (binaries and nulls):
            around |= dict.fromkeys([*binaries, *nulls], ("CAST(", " AS BYTEA)"))
    return wrap_spans(text, around)


def _members(text: str) -> tuple[_Reader, list[list[Span]]]:
    """Return the operands that are compared, and the values of one expression or list, in groups."""
    reader = _Reader(tokenize(text))
    groups = [*_groups(reader), *_elements(reader)]
    return reader, [group for group in groups if len(group) > 1 and all(start < stop for start, stop in group)]


def _elements(reader: _Reader) -> Iterator[list[Span]]:
    """Yield the elements of each list that is written."""
    for at, token in enumerate(reader.tokens):
        is_list = token.is_sign("[") and (reader.word_at(at - 1) == "ARRAY" or not reader.ends_operand(at - 1))
        if is_list or (token.is_sign("(") and reader.word_at(at - 1) == "MAKE_ARRAY"):
            yield reader.read_items(at)


_TIME_TOKENS = 2
"""Tokens of a written time."""


def _has_digits_of(kind: pa.DataType, written: str) -> bool:
    """Return whether a type of times has the digits behind the point of a written one.

    >>> _has_digits_of(pa.time32("ms"), "'10:00:00.120'"), _has_digits_of(pa.time32("s"), "'10:00:00.5'")
    (True, False)
    """
    digits = datetime_precision(kind)
    return digits is not None and len(written.strip("'").partition(".")[2].rstrip("0")) <= digits


def _arrow_name(kind: pa.DataType) -> str:
    return f"Time{kind.bit_width}({UNIT_NAMES[kind.unit]})"


def with_group_frames(text: str) -> str:
    """Return a text whose windows count rows of equal keys as groups, where they have no frame of their own or one without distances.

    These are the same rows, and DataFusion 55 has frames of RANGE for keys of few types.

    >>> with_group_frames("SELECT sum(a) OVER (ORDER BY b DESC), max(a) OVER (ORDER BY b RANGE UNBOUNDED PRECEDING) FROM t ORDER BY b")
    'SELECT sum(a) OVER (ORDER BY b DESC GROUPS UNBOUNDED PRECEDING), max(a) OVER (ORDER BY b GROUPS UNBOUNDED PRECEDING) FROM t ORDER BY b'
    """
    reader = _Reader(tokenize(text))
    edits: list[Edit] = []
    for at, token in enumerate(reader.tokens):
        if token.word != "BY" or reader.word_at(at - 1) != "ORDER" or not reader.is_in_window(at):
            continue
        place = at
        while place < len(reader.tokens) and not reader.is_sign(place, ")") and reader.word_at(place) not in _FRAMES:
            place = max(place, reader.partners.get(place, place)) + 1
        behind, frame = reader.tokens[place], set()
        while place < len(reader.tokens) and not reader.is_sign(place, ")"):
            frame.add(reader.word_at(place))
            place += 1
        if not frame:
            edits.append((behind.start, behind.start, " GROUPS UNBOUNDED PRECEDING"))
        elif behind.word == "RANGE" and frame <= _WITHOUT_DISTANCES:
            edits.append((behind.start, behind.stop, "GROUPS"))
    return edit_text(text, edits)


def may_compare_zoned_texts(text: str) -> bool:
    """Return whether a query may compare a text with the zone of a moment."""
    return _ZONED.search(text) is not None and _MEETS.search(text) is not None


def with_local_texts(text: str, names: Sequence[str], types: Mapping[str, pa.DataType]) -> str:
    """Return the text with texts of moments as casts read them: those that meet dates and local times have no zone, the others have seconds."""
    edits: dict[Span, Edit] = {}
    reader, groups = _moments(text)
    for kinds in _kinds(groups, names, types):
        timestamps = [kind for kind in kinds.values() if pa.types.is_timestamp(kind)]
        is_local = any(kind.tz is None for kind in timestamps) or any(map(pa.types.is_date, kinds.values()))
        for start, stop in kinds if is_local or timestamps else ():
            token = reader.tokens[start]
            if stop == start + 1 and token.kind in {Kind.STRING, Kind.LITERALS}:
                new = _ZONED.sub(_without_zone if is_local else _with_seconds, text[token.start : token.stop])
                edits[start, stop] = token.start, token.stop, new
    return edit_text(text, sorted(edits.values()))


def _without_zone(found: re.Match[str]) -> str:
    return f"{found['minutes']}{found['seconds'] or ''}'"


def _with_seconds(found: re.Match[str]) -> str:
    return f"{found['minutes']}{found['seconds'] or ':00'}{found['zone']}'"


def _kinds(
    groups: Sequence[Sequence[Span]], names: Sequence[str], types: Mapping[str, pa.DataType]
) -> Iterator[dict[Span, pa.DataType]]:
    """Yield the types of the operands of each group; that of NULL for one whose type is not known."""
    named = iter(names)
    for group in groups:
        yield {span: types.get(name, pa.null()) for span, name in zip(group, named, strict=False)}


def _moments(text: str) -> tuple[Operands, list[list[Span]]]:
    """Return the operands that meet, and those of differences, in groups."""
    reader, groups = _operands(text, of_bits=False)
    factors = Factors(reader.tokens)
    signs = [at for at, token in enumerate(reader.tokens) if token.is_sign("-") and factors.is_binary(at)]
    return reader, [*groups, *([(factors.left_of(at, "+"), at), (at + 1, factors.right_of(at, "+"))] for at in signs)]


def may_compare_intervals(text: str) -> bool:
    """Return whether a query may compare an interval."""
    return INTERVALS.search(text) is not None and _SIGN_OR_WORD.search(text) is not None


def with_compared(text: str) -> tuple[str, list[str]]:
    """Return a text with each operand that is compared with an interval in a function, and the names of the functions.

    >>> with_compared("SELECT a FROM t WHERE b - c > INTERVAL '1 day' AND a < 3")[0]
    "SELECT a FROM t WHERE __operand_call0(b - c) > __operand_call1(INTERVAL '1 day') AND a < 3"
    """
    reader, groups = _compared_with_intervals(text)
    return named_alike(text, reader, list(chain(*groups)))


def with_interval_lengths(
    text: str, names: Sequence[str], types: Mapping[str, pa.DataType]
) -> tuple[str, dict[str, pa.DataType]]:
    """Return the text with the lengths of intervals in place of those that are compared, and the type of the argument of each new call.

    DataFusion 55 compares months, then days, then times: to it a day is more than 25 hours.
    """
    compared: dict[Span, str] = {}
    named = iter(names)
    for group in _compared_with_intervals(text)[1]:
        spans = {span: name for span, name in zip(group, named, strict=False) if _is_span(types, name)}
        if any(pa.types.is_interval(types[name]) for name in spans.values()):
            compared |= spans
    return with_calls(text, INTERVAL_LENGTH, compared, types)


def _compared_with_intervals(text: str) -> tuple[_Reader, list[list[Span]]]:
    """Return the operands that are compared, in groups of which one begins with an interval."""
    reader = _Reader(tokenize(text))
    groups = [group for group in _comparisons(reader) if all(start < stop for start, stop in group)]
    return reader, [group for group in groups if any(_is_interval(reader, start) for start, _ in group)]


def _is_span(types: Mapping[str, pa.DataType], name: str) -> bool:
    return name in types and (pa.types.is_interval(types[name]) or pa.types.is_duration(types[name]))


def _is_interval(reader: _Reader, at: int) -> bool:
    while reader.is_sign(at, "(") or reader.is_sign(at, "-"):
        at += 1
    return INTERVALS.fullmatch(reader.text(at)) is not None


def may_compute(text: str) -> bool:
    """Return whether a query may have arithmetic of two operands."""
    return _COMPUTES.search(text) is not None


def with_terms(text: str) -> tuple[str, list[str]]:
    """Return a text with each operand of arithmetic in a function, and the names of the functions.

    >>> with_terms("SELECT a * b / (c + 1) - d FROM t")[0]
    'SELECT __operand_call6(__operand_call2(__operand_call0(a) * __operand_call1(b)) / __operand_call3((__operand_call4(c) + __operand_call5(1)))) - __operand_call7(d) FROM t'
    """
    factors = Factors(tokenize(text))
    return named_alike(text, factors, [span for _, operands in _terms(factors) for span in operands])


def with_exact_unsigned(text: str, names: Sequence[str], types: Mapping[str, pa.DataType]) -> str:
    """Return the text with unsigned numbers in arithmetic as DuckDB and PostgreSQL have it.

    DataFusion 55 wraps a sum, difference or product of two, which are decimals here, as those of one and a BIGINT are, and BIGINT of
    shorter ones. Beside a BIGINT it makes a fraction of a quotient.
    """
    of_quotients: dict[Span, tuple[str, str]] = {}
    of_terms: dict[Span, tuple[str, str]] = {}
    terms = list(_terms(Factors(tokenize(text))))
    for (sign, _), kinds in zip(terms, _kinds([operands for _, operands in terms], names, types), strict=True):
        is_long = pa.uint64() in kinds.values()
        unsigned = [span for span, kind in kinds.items() if pa.types.is_unsigned_integer(kind)]
        signed = [span for span, kind in kinds.items() if pa.types.is_signed_integer(kind)]
        if sign == "/" and is_long:
            of_quotients |= dict.fromkeys(signed, ("CAST(", " AS BIGINT UNSIGNED)"))
        elif sign != "/" and len(unsigned) > 1:
            of_terms |= dict.fromkeys(unsigned, ("CAST(", f" AS {'DECIMAL(20, 0)' if is_long else 'BIGINT'})"))
    # A term of decimals is one already.
    changed = of_quotients.keys() | of_terms.keys()
    innermost = {
        span: cast
        for span, cast in of_terms.items()
        if not any(span != other and _is_within(other, span) for other in changed)
    }
    return wrap_spans(text, of_quotients | innermost)


def _is_within(span: Span, other: Span) -> bool:
    return other[0] <= span[0] and span[1] <= other[1]


def _terms(factors: Factors) -> Iterator[tuple[str, list[Span]]]:
    """Yield each sign of arithmetic with its two operands."""
    for at, token in enumerate(factors.tokens):
        if token.kind is Kind.SIGN and token.text in {"+", "-", "*", "/"} and factors.is_binary(at):
            kind = "+" if token.text in "+-" else "*"
            yield token.text, [(factors.left_of(at, kind), at), (at + 1, factors.right_of(at, kind))]


def may_order_nested(text: str, plan: str) -> bool:
    """Return whether a query may ask which of two lists or structs is greater, by the types in its plan."""
    found = [plan[max(0, match.start() - _MOST_NAMED) : match.start()] for match in _NESTED_COLUMN.finditer(plan)]
    if not found:
        return False
    names = {_NO_NAME.split(before.rstrip(")").lower())[-1] for before in found}
    reader, groups = _ordered(text)
    spans = chain(*groups)
    return any(
        token.text[-_MOST_NAMED:].lower() in names or _MAKES_NESTED.search(token.text) is not None
        for start, stop in spans
        for token in reader.tokens[start:stop]
    )


def with_ordered(text: str) -> tuple[str, list[str]]:
    """Return a text with each value that may be called less than another in a function, and the names of the functions.

    >>> with_ordered("SELECT max(a), greatest(b, c) FROM t WHERE d < e AND f = g")[0]
    'SELECT max(__operand_call2(a)), greatest(__operand_call3(b), __operand_call4(c)) FROM t WHERE __operand_call0(d) < __operand_call1(e) AND f = g'
    """
    reader, groups = _ordered(text)
    return named_alike(text, reader, list(chain(*groups)))


def check_ordered(text: str, names: Sequence[str], types: Mapping[str, pa.DataType]) -> None:
    """Refuse an order of lists, structs and maps: to DataFusion 55 a NULL in them is the least, and in ORDER BY the greatest."""
    reader, groups = _ordered(text)
    for group, kinds in zip(groups, _kinds(groups, names, types), strict=True):
        nested = next((kind for kind in kinds.values() if pa.types.is_nested(kind)), None)
        if nested is not None:
            place = place_in(text, reader.tokens[group[0][0]].start)
            raise Unsupported(
                f"which of two values of {type_name(nested)} is less depends on NULLs in them; compare their elements, as l[1] < 2 or"
                f" s['x'] < 2, or write first(a ORDER BY a) for the least, and arg_max(a, a['x']) for that with the greatest x{place}"
            )


def _ordered(text: str) -> tuple[_Reader, list[list[Span]]]:
    """Return what is compared by `<`, `>` or BETWEEN, and the arguments of greatest, least, min and max, in groups."""
    reader = _Reader(tokenize(text))
    groups = [group for group in _comparisons(reader) if _is_of_order(reader, group[0][1])]
    for at, token in enumerate(reader.tokens):
        if token.word in _ORDERING and reader.is_sign(at + 1, "(") and not reader.is_name(at):
            groups.append(reader.read_items(at + 1))
    return reader, [group for group in groups if group and all(start < stop for start, stop in group)]


def _is_of_order(reader: _Reader, operator: int) -> bool:
    """Return whether the operator at a place tells which operand is less."""
    words = [reader.word_at(operator), reader.word_at(operator + 1)]
    return "BETWEEN" in words or reader.join_tokens(operator, reader.sign_stop(operator)) in {"<", ">", "<=", ">="}


_COMPUTES = re.compile(r"[\w\")\]]\s*[-+*/]\s*[\w\"(.$'-]")
_ORDERING = frozenset(["GREATEST", "LEAST", "MIN", "MAX"])
_MAKES_NESTED = re.compile(r"[\[{]|array|list|map|row|struct", re.IGNORECASE)
_NESTED_COLUMN = re.compile(r":(?:List|LargeList|FixedSizeList|Struct|Map)\(")
"""Matches what is behind the name of a column of lists, structs or maps in the text of a plan."""
_NO_NAME, _MOST_NAMED = re.compile(r"\W"), 128
"""What divides names, and the last signs of a name that tell it."""


def may_take_parts(text: str) -> bool:
    """Return whether a query may take a part of a difference of timestamps."""
    return _PART.search(text) is not None


def with_measured(text: str, *, has_durations: bool) -> tuple[str, list[str]]:
    """Return a text with each operand that a part is taken of in a function, and the names of the functions.

    Where no column of the query is a duration, only a difference may be one.

    >>> with_measured("SELECT date_part('hour', b - a), EXTRACT(DAY FROM c) FROM t", has_durations=False)[0]
    "SELECT date_part('hour', __operand_call0(b - a)), EXTRACT(DAY FROM c) FROM t"
    """
    reader = _Reader(tokenize(text))
    return named_alike(text, reader, list(_measured(reader, has_durations=has_durations)))


def with_parts_of_spans(
    text: str, names: Sequence[str], types: Mapping[str, pa.DataType], *, has_durations: bool
) -> tuple[str, dict[str, pa.DataType]]:
    """Return the text with intervals in place of the durations that a part is taken of, and the type of the argument of each new call.

    DataFusion 55 takes all hours of a duration, where the hours of two days and an hour are one.
    """
    measured = zip(_measured(_Reader(tokenize(text)), has_durations=has_durations), names, strict=True)
    spans = {span: name for span, name in measured if name in types and pa.types.is_duration(types[name])}
    return with_calls(text, INTERVAL_OF, spans, types)


def _measured(reader: _Reader, *, has_durations: bool) -> Iterator[Span]:
    for at, token in enumerate(reader.tokens):
        if token.word not in {"EXTRACT", "DATE_PART"} or not reader.is_sign(at + 1, "("):
            continue
        closed = reader.partners.get(at + 1, at + 1)
        items = list(reader.read_items(at + 1))
        begun = at + 4 if token.word == "EXTRACT" and reader.word_at(at + 3) == "FROM" else items[-1][0]
        if has_durations or any(reader.is_sign(place, "-") for place in range(begun, closed)):
            yield begun, closed


def may_make_nan(text: str) -> bool:
    """Return whether a query may compute a NaN, and compare it."""
    return _MAKES_NAN.search(text) is not None and _COMPARES.search(text) is not None


def with_results(text: str) -> tuple[str, list[str]]:
    """Return a text with each value that may be a new NaN in a function, and the names of the functions.

    Values that are written alike in one SELECT share a function: they are one for GROUP BY.

    >>> with_results("SELECT a / b + 1 FROM t GROUP BY a / b + 1 ORDER BY ln(c) * 2")[0]
    'SELECT __operand_call0(a / b + 1) FROM t GROUP BY __operand_call0(a / b + 1) ORDER BY __operand_call1(ln(c)) * 2'
    """
    factors = Factors(tokenize(text))
    return named_alike(text, factors, _results(factors))


def with_one_nan(text: str, names: Sequence[str], types: Mapping[str, pa.DataType]) -> str:
    """Return the text without the sign of NaN in values that are floats."""
    unsigned = {
        span: UNSIGNED_NAN.format("REAL" if types[name] == pa.float32() else "DOUBLE")
        for span, name in zip(_results(Factors(tokenize(text))), names, strict=True)
        if name in types and pa.types.is_floating(types[name])
    }
    return wrap_spans(text, {span: ("nanvl(", after) for span, after in unsigned.items()})


def may_sum(text: str) -> bool:
    """Return whether a query may have a sum or a mean."""
    return _SUMMED.search(text) is not None


def with_summed(text: str) -> tuple[str, list[str]]:
    """Return a text with what is summed in functions that tell its types, and the names of the functions.

    >>> with_summed("SELECT sum(a * b), avg(c) OVER (w) FROM t HAVING sum(a * b) > 1")[0]
    'SELECT sum(__operand_call0(a * b)), avg(__operand_call1(c)) OVER (w) FROM t HAVING sum(__operand_call0(a * b)) > 1'
    """
    factors = Factors(tokenize(text))
    return named_alike(text, factors, [span for _, span, _ in _find_sums(factors)])


def with_wide_sums(text: str, names: Sequence[str], types: Mapping[str, pa.DataType]) -> str:
    """Return the text with sums and means of long decimals that have room for all rows, and are refused where the result is too long.

    DataFusion 55 wraps a sum beyond 128 bits, and one of BIGINT UNSIGNED beyond 64. The result has the type that it had; a mean of more than 34 digits has fewer of its four
    digits more behind the point, as in Spark.
    """
    factors = Factors(tokenize(text))
    around: dict[Span, tuple[str, str]] = {}
    for (word, span, call), name in zip(_find_sums(factors), names, strict=True):
        kind = types.get(name)
        if kind is not None and pa.types.is_decimal128(kind) and kind.precision > _ROOM_FOR_ROWS:
            around[span] = "CAST(", f" AS DECIMAL({_WIDE}, {kind.scale}))"
            around[call] = "CAST(", f" AS DECIMAL{(_DIGITS, kind.scale) if word == 'SUM' else _mean(kind)})"
        elif kind == pa.uint64() and word == "SUM":
            around[span] = "CAST(", " AS DECIMAL(20, 0))"
            around[call] = "CAST(", " AS BIGINT UNSIGNED)"
    return wrap_spans(text, around)


def _find_sums(factors: Factors) -> Iterator[tuple[str, Span, Span]]:
    """Yield of each sum and mean its word, its argument and all of it; but of integers, which have a check of their own."""
    for at, inner, closed, stop in calls_of(factors, _SUMS):
        if not factors.text(inner).startswith(f"__{EXACT}_call"):
            yield factors.word_at(at), (inner, closed), (at, stop)


def _mean(kind: pa.Decimal128Type) -> tuple[int, int]:
    """Return the digits of a mean, and those behind its point: at least six, or all, where there are too few for both."""
    digits, scale = min(kind.precision + 4, _DIGITS), min(kind.scale + 4, _DIGITS)
    return digits, max(min(scale, _DIGITS - kind.precision + kind.scale), min(scale, 6))


def _with(text: str, names: Sequence[Sequence[str]], around: Mapping[str, tuple[str, str]], *, of_bits: bool) -> str:
    """Return a text with texts around the operands of some names."""
    _, groups = _operands(text, of_bits=of_bits)
    named_spans = zip(chain(*groups), chain(*names), strict=True)
    return wrap_spans(text, {span: around[name] for span, name in named_spans if name in around})


def named_alike(text: str, operands: Operands, spans: Sequence[Span]) -> tuple[str, list[str]]:
    """Return a text with functions around spans, which share a name where they are written alike in one SELECT, and these names."""
    scopes = Scopes.of(operands.tokens)
    names: dict[tuple[str | int, ...], str] = {}
    shared = [
        names.setdefault(scopes.key(operands.tokens[start:stop], start), f"__{OPERAND}_call{len(names)}")
        for start, stop in spans
    ]
    around = {span: (f"{name}(", ")") for span, name in zip(spans, shared, strict=True)}
    return wrap_spans(text, around), shared


def with_calls(
    text: str, function: str, named: Mapping[Span, str], types: Mapping[str, pa.DataType]
) -> tuple[str, dict[str, pa.DataType]]:
    """Return a text with calls of a typed function around spans, and the type of the argument of each call.

    Each is named after the function that told the type of its span.
    """
    calls = {name: name.replace(OPERAND, function) for name in named.values()}
    around = {span: (f"{calls[name]}(", ")") for span, name in named.items()}
    return wrap_spans(text, around), {call: types[name] for name, call in calls.items()}


def wrap_spans(text: str, around: Mapping[Span, tuple[str, str]]) -> str:
    """Return a text with texts around spans of tokens, which may be within each other."""
    tokens = tokenize(text)
    opened = [(tokens[start].start, -stop, before) for (start, stop), (before, _) in around.items()]
    closed = [(tokens[stop - 1].stop, -start, after) for (start, stop), (_, after) in around.items()]
    edits = [(at, 1, order, new) for at, order, new in opened] + [(at, 0, order, new) for at, order, new in closed]
    return edit_text(text, [(at, at, new) for at, _, _, new in sorted(edits)])


def _groups(reader: _Reader) -> Iterator[list[Span]]:
    """Yield the operands that meet, of each comparison, BETWEEN, list of IN, CASE, and call of a function of one type."""
    yield from _comparisons(reader)
    for at, token in enumerate(reader.tokens):
        word = "" if reader.is_name(at) else token.word
        if word in _OF_ONE_TYPE and reader.is_sign(at + 1, "("):
            yield reader.read_items(at + 1)
        elif word == "CASE" and at in reader.partners:
            yield from reader.case(at)


def _comparisons(reader: _Reader) -> Iterator[list[Span]]:
    """Yield the operands of each comparison, BETWEEN and list of IN."""
    for at, token in enumerate(reader.tokens):
        word = "" if reader.is_name(at) else token.word
        if token.kind is Kind.SIGN and token.text in SIGNS and not reader.is_sign_before(at):
            stop = reader.sign_stop(at)
            if reader.join_tokens(at, stop) in _COMPARISONS and reader.word_at(stop) not in _QUANTIFIERS:
                yield [(reader.start_of_operand(at), at), (stop, reader.compared_right(stop))]
        elif word == "FROM" and reader.is_comparison(at):
            operator = at - 2 if reader.word_at(at - 2) == "IS" else at - 3
            yield [(reader.left(operator - 1), operator), (at + 1, reader.compared_right(at + 1))]
        elif word == "BETWEEN" and reader.word_at(at - 1) not in _FRAMES and not reader.is_sign(at + 1, "("):
            yield reader.between(at)
        elif word == "IN" and reader.is_sign(at + 1, "(") and reader.word_at(at + 2) not in QUERIES:
            operator = at - (reader.word_at(at - 1) == "NOT")
            yield [(reader.start_of_operand(operator), operator), *reader.read_items(at + 1)]


def _groups_of_bits(reader: _Reader) -> Iterator[list[Span]]:
    """Yield the operands that DataFusion compares by their bits, but for columns by themselves and lists of literals of a column.

    These are known to be columns of tables, or not (`engine.compat.wrong_comparisons`), where no query is within another one.
    """
    is_nested = sum(token.word == "SELECT" for token in reader.tokens) > 1
    for at, token in enumerate(reader.tokens):
        word, found = "" if reader.is_name(at) else token.word, []
        if word == "IN" and reader.is_sign(at + 1, "(") and reader.word_at(at + 2) not in QUERIES:
            operator = at - (reader.word_at(at - 1) == "NOT")
            listed = [
                span
                for span in reader.read_items(at + 1)
                if reader.kind(span[0]) not in {Kind.LITERALS, Kind.PARAMETERS}
            ]
            found = [(reader.start_of_operand(operator), operator), *listed]
        elif word == "NULLIF" and reader.is_sign(at + 1, "("):
            found = reader.read_items(at + 1)
        elif word == "CASE" and at in reader.partners:
            found = next(iter(list(reader.case(at))[1:]), [])
        elif word == "DISTINCT" and reader.is_sign(at - 1, "(") and reader.word_at(at - 2) not in QUERIES:
            found = [(at + 1, reader.ends(at + 1))]
        elif word == "BY" and reader.word_at(at - 1) in {"PARTITION", "ORDER"} and reader.is_in_window(at):
            for key in reader.keys(at + 1):
                if reader.is_asked(key, is_nested=is_nested):
                    yield [key]
        if found and len(found) <= _MOST_LISTED and any(reader.is_asked(span, is_nested=is_nested) for span in found):
            yield found


_MOST_LISTED = 50


def _results(factors: Factors) -> list[Span]:
    """Return the values that may be a new NaN: sums, products and quotients of two values, as wide as they are, and calls.

    A value of a distance is none of them: by its form a search is found.
    """
    spans = dict.fromkeys(span for span in _all_results(factors) if not _has_distance(factors.tokens[slice(*span)]))
    return [span for span in spans if not any(_is_part(factors, span, other) for other in spans)]


def _all_results(factors: Factors) -> Iterator[Span]:
    for at, token in enumerate(factors.tokens):
        if token.kind is Kind.SIGN and token.text in "+-*/%" and _makes_nan(factors, at):
            stop = factors.right_of(at, "+")
            while factors.text(stop) in {"+", "-"} and factors.is_binary(stop):
                stop = factors.right_of(stop, "+")
            yield factors.left_of(at, "+"), stop
        elif token.word in _NAN_CALLS and factors.is_sign(at + 1, "(") and not factors.is_sign(at - 1, "."):
            yield at, factors.after_call(factors.partners.get(at + 1, at + 1) + 1)


def _has_distance(tokens: Sequence[Token]) -> bool:
    return any(_DISTANCE.fullmatch(token.text) for token in tokens)


def _makes_nan(factors: Factors, at: int) -> bool:
    """Return whether an operator makes a NaN of what is none: not beside a number other than zero."""
    sign, (before, after) = factors.text(at), (_is_finite(factors, at + step) for step in (-1, 1))
    if not factors.is_binary(at):
        return sign == "-" and factors.kind(at + 1) is not Kind.NUMBER and not factors.ends_operand(at - 1)
    if sign in "/%":
        return not after
    is_factor = factors.text(at - 2) in {"*", "/", "%"}, factors.text(at + 2) in {"*", "/", "%"}
    return not (before and not is_factor[0]) and not (after and (sign == "*" or not is_factor[1]))


def _is_finite(factors: Factors, at: int) -> bool:
    """Return whether a token is a number other than zero, or begins an interval."""
    is_number = factors.kind(at) is Kind.NUMBER and re.search("[1-9]", factors.text(at)) is not None
    return is_number or factors.word_at(at) in {"INTERVAL", "DATE", "TIMESTAMP"}


def _is_part(factors: Factors, span: Span, other: Span) -> bool:
    """Return whether a value is an operand of another one, at most in brackets: a NaN in it is none for that one either."""
    if span == other or not other[0] <= span[0] < span[1] <= other[1]:
        return False
    opened = [at for at in range(other[0], span[0]) if factors.partners.get(at, at) >= span[1]]
    return all(factors.is_sign(at, "(") and not factors.ends_operand(at - 1) for at in opened)


_NAN_CALLS = frozenset(
    [
        *(
            "ACOS",
            "ACOSH",
            "ASIN",
            "ASINH",
            "ATAN2",
            "ATANH",
            "COS",
            "COT",
            "LN",
            "LOG",
            "LOG10",
            "LOG2",
            "POW",
            "POWER",
        ),
        *("SIN", "SQRT", "TAN", "AVG", "MEAN", "SUM"),
        *(
            "CORR",
            "COVAR",
            "COVAR_POP",
            "COVAR_SAMP",
            "STDDEV",
            "STDDEV_POP",
            "STDDEV_SAMP",
            "VAR",
            "VAR_POP",
            "VAR_SAMP",
        ),
    ]
)
_SUMS = frozenset(["SUM", "AVG", "MEAN"])
_SUMMED = re.compile(r"\b(?:sum|avg|mean)\s*\(", re.IGNORECASE)
_ROOM_FOR_ROWS, _WIDE, _DIGITS = 28, 66, 38
"""Digits of a decimal whose sums DataFusion gives ten digits more, of one with ten digits more than 56, and of the longest of 128 bits."""
_DISTANCE = re.compile(rf"__(?:{'|'.join(DISTANCES)})_call\d+")
_MAKES_NAN = re.compile(rf"[-+*/%]|\b(?:{'|'.join(sorted(_NAN_CALLS))})\s*\(", re.IGNORECASE)
_COMPARES = re.compile(
    r"[<>=]|\b(?:BETWEEN|CASE|DISTINCT|EXCEPT|GREATEST|GROUP|HAVING|IN|INTERSECT|JOIN|LEAST|MAX|MIN|NULLIF|ORDER|OVER|UNION|WITH)\b",
    re.IGNORECASE,
)


_CLAUSES = frozenset(["SELECT", "FROM", "WHERE", "HAVING", "QUALIFY", "WINDOW", "LIMIT", "OFFSET"])
_CLAUSES_BY = frozenset(["GROUP", "ORDER", "SORT"])
"""Words that begin a clause of a query, those of the second before BY."""


@dataclass(slots=True)
class _Level:
    """Level of brackets: the number of its SELECT, the clause there, and whether a query stands right inside."""

    number: int
    clause: str
    is_query: bool


@dataclass(frozen=True, slots=True)
class Scopes:
    """Number of the SELECT that each token stands in, its clause there, and the names that each SELECT writes without a dot behind them."""

    numbers: Sequence[int]
    clauses: Sequence[str]
    names: AbstractSet[tuple[int, str]]

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> Scopes:
        numbers, clauses, last = [], [], 0
        levels, is_behind_distinct = [_Level(0, "", is_query=True)], False
        for token, following in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
            begins = token.word in _SET_OPERATORS or (token.is_sign("(") and following.word in QUERIES)
            last += begins
            if token.is_sign("("):
                levels.append(_Level(last if begins else levels[-1].number, levels[-1].clause, is_query=begins))
            elif token.is_sign(")") and len(levels) > 1:
                levels.pop()
            elif begins:
                levels[-1].number = last
            is_clause = token.word in _CLAUSES or (token.word in _CLAUSES_BY and following.word == "BY")
            if is_clause and levels[-1].is_query and not (token.word == "FROM" and is_behind_distinct):
                levels[-1].clause = token.word
            is_behind_distinct = token.word == "DISTINCT"
            numbers.append(levels[-1].number)
            clauses.append(levels[-1].clause)
        pairs = zip(pairwise(tokens), numbers, strict=False)
        return cls(numbers, clauses, {(number, one.text) for (one, after), number in pairs if not after.is_sign(".")})

    def key(self, call: Sequence[Token], place: int) -> tuple[str | int, ...]:
        """Return what calls have in common that stand in one SELECT and are written alike: their types are the same there.

        `t.ts` and `ts` are alike where the SELECT has t among its relations, and the call names no other one.
        """
        scope, ends = self.numbers[place], call[1:]
        qualifiers = {one.text for one, after in zip(call, ends, strict=False) if after.is_sign(".")}
        if len(qualifiers) == 1 and (scope, *qualifiers) in self.names:
            call = [
                one
                for one, after in zip(call, [*ends, call[-1]], strict=True)
                if not (one.is_sign(".") or after.is_sign("."))
            ]
        return (scope, *(f"{token.kind}{token.word or token.text}" for token in call))


class _Reader(Operands):
    """Finds the operands that meet."""

    def is_sign_before(self, at: int) -> bool:
        """Return whether a sign is a part of the operator that the token before begins."""
        return self._is_sign_of_operator(at - 1) and self.tokens[at - 1].stop == self.tokens[at].start

    def sign_stop(self, at: int) -> int:
        """Return the token after an operator."""
        stop = at + 1
        while (
            self.kind(stop) is Kind.SIGN
            and self.text(stop) in SIGNS
            and self.tokens[stop - 1].stop == self.tokens[stop].start
        ):
            stop += 1
        return stop

    def join_tokens(self, start: int, stop: int) -> str:
        """Return the text of tokens."""
        return "".join(token.text for token in self.tokens[start:stop])

    def compared_right(self, at: int) -> int:
        """Return the token after the right operand of a comparison, which ends at another one."""
        stop, place = self.right(at), at
        while place < stop and not (self.kind(place) is Kind.SIGN and self.text(place) in SIGNS):
            place = max(place, self.partners.get(place, place)) + 1
        return min(place, stop)

    def between(self, at: int) -> list[Span]:
        """Return the operands of BETWEEN."""
        operator, middle = at - (self.word_at(at - 1) == "NOT"), at + 1
        while middle < len(self.tokens) and self.word_at(middle) != "AND":
            middle = max(middle, self.partners.get(middle, middle)) + 1
        return [
            (self.start_of_operand(operator), operator),
            (at + 1, middle),
            (middle + 1, self.compared_right(middle + 1)),
        ]

    def case(self, at: int) -> Iterator[list[Span]]:
        """Yield the values of CASE, and what it compares."""
        begun, kind, place, end = at + 1, "CASE", at + 1, self.partners[at]
        values: dict[str, list[Span]] = {"CASE": [], "WHEN": [], "THEN": [], "ELSE": []}
        while place <= end:
            word = self.word_at(place)
            if place == end or (word in values and not self.is_name(place)):
                values[kind] += [(begun, place)] if begun < place else []
                begun, kind = place + 1, word
            place = place + 1 if place == end else max(place, self.partners.get(place, place)) + 1
        yield [*values["THEN"], *values["ELSE"]]
        if values["CASE"]:
            yield [*values["CASE"], *values["WHEN"]]

    def is_asked(self, span: Span, *, is_nested: bool) -> bool:
        """Return whether the type of an operand has to be asked: it is computed, or may be a column of a query."""
        start, stop = span
        is_column = all(self.kind(at) in {Kind.WORD, Kind.NAME} or self.is_sign(at, ".") for at in range(start, stop))
        is_literal = all(
            self.kind(at) in {Kind.NUMBER, Kind.STRING, Kind.LITERALS} or self.text(at) in "-+,"
            for at in range(start, stop)
        )
        return not is_literal and (is_nested or not is_column)

    def is_in_window(self, at: int) -> bool:
        """Return whether the bracket around a token is that of OVER, or of a window with a name."""
        opened = at
        while opened >= 0 and not self.is_sign(opened, "("):
            opened = (self.partners.get(opened, opened) if self.text(opened) in ")]}" else opened) - 1
        return self.word_at(opened - 1) == "OVER" or (
            self.word_at(opened - 1) == "AS" and (self.word_at(opened - 3) == "WINDOW" or self.is_sign(opened - 3, ","))
        )

    def ends(self, at: int) -> int:
        """Return the token after an expression in brackets or a list."""
        while at < len(self.tokens) and not (self.kind(at) is Kind.SIGN and self.text(at) in ",)"):
            if self.word_at(at) == "ORDER":
                break
            at = max(at, self.partners.get(at, at)) + 1
        return at

    def keys(self, at: int) -> Iterator[Span]:
        """Yield the keys of PARTITION BY or ORDER BY that begin at a token."""
        begun = at
        while at < len(self.tokens):
            ends = (self.kind(at) is Kind.SIGN and self.text(at) in ",)") or (
                self.word_at(at) in _AFTER_KEY and not self.is_name(at)
            )
            if ends and begun < at:
                yield begun, at
            while ends and self.word_at(at) in DIRECTIONS:
                at += 1
            if ends and not self.is_sign(at, ","):
                return
            begun = at + 1 if ends else begun
            at = max(at, self.partners.get(at, at)) + 1

    def _is_sign_of_operator(self, at: int) -> bool:
        return self.kind(at) is Kind.SIGN and self.text(at) in _SIGNS


_AFTER_KEY = DIRECTIONS | {"ORDER", "ROWS", "RANGE", "GROUPS"}
_SIGNS = frozenset("<>=!-@|&#~*+/%^?")
