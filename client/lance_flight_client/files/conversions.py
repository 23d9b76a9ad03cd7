"""Texts of a file as values of a type: numbers with either decimal sign, moments of several formats, words for NULL."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.model.arrow_types import is_number, storage_of

NULL_WORDS = (
    "", "#N/A", "#N/A N/A", "#NA", "-", "--", "?", "(null)", "<NA>", "N/A", "NA", "NULL", "Null", "None", "none", "\\N",
    "n/a", "na", "null",
)  # fmt: skip
"""Texts that are NULL among numbers and moments."""
_NO_NUMBERS = ("NaN", "nan", "NaT")
"""Texts that are NULL among moments, too."""
_GROUPS = r"[ \x{a0}\x{202f}'’]"
_TRUE, _FALSE = r"^(?i)(t|yes|y)$", r"^(?i)(f|no|n)$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Way from texts to values of a type: the decimal sign of numbers, and the format of moments (None: ISO 8601)."""

    kind: pa.DataType
    decimal: str = "."
    is_grouped: bool = False
    format: str | None = None
    is_guess: bool = False

    def of(self, kind: pa.DataType) -> Conversion:
        """Return the same way to another type."""
        return replace(self, kind=kind, is_guess=self.is_guess and kind == self.kind)

    @property
    def read_as(self) -> pa.DataType:
        """The type that a file's reader gives to the column."""
        return self.kind if is_bytes(self.kind) else pa.utf8()

    def values(self, texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the values of texts, NULL for those that are none, and which these are."""
        kind = storage_of(self.kind)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return texts.cast(kind), pa.repeat(pa.scalar(False), len(texts))
        if is_bytes(kind):
            return _bytes(texts, kind), pa.repeat(pa.scalar(False), len(texts))
        trimmed = pc.utf8_trim_whitespace(texts)
        words = NULL_WORDS if is_number(kind) else (*NULL_WORDS, *_NO_NUMBERS)
        known = pc.if_else(pc.is_in(trimmed, pa.array(words, pa.utf8())), pa.scalar(None, pa.utf8()), trimmed)
        parsed = self._parse(known, kind)
        return parsed, pc.and_(known.is_valid(), parsed.is_null())

    def _parse(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        if pa.types.is_boolean(kind):
            plain = pc.replace_substring_regex(pc.replace_substring_regex(texts, _TRUE, "true"), _FALSE, "false")
            return _cast(plain, kind)
        if is_number(kind):
            return _cast(self._plain_numbers(texts, kind), kind)
        if pa.types.is_nested(kind):
            return pa.array([_parse_document(text, kind) for text in texts.to_pylist()], kind)
        if pa.types.is_time(kind):
            moments = pc.binary_join_element_wise(pa.scalar("1970-01-01", pa.utf8()), texts, " ")
            return _cast(moments, pa.timestamp("ns")).cast(kind)
        if pa.types.is_duration(kind):
            return _parse_durations(texts, kind)
        if self.format is not None and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            return _parse_moments(texts, self.format).cast(kind)
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return _cast(pc.replace_substring_regex(texts, r"\s+([+-]\d\d:?\d\d|Z)$", r"\1"), kind)
        return _cast(texts, kind)

    def _plain_numbers(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """Return numbers as Arrow reads them, and NULL for what looks like none."""
        plain = texts
        if self.is_grouped:
            other = re.escape("." if self.decimal == "," else ",")
            sign = re.escape(self.decimal)
            shape = rf"^[+-]?\d{{1,3}}(({other}\d{{3}})+|({_GROUPS}\d{{3}})+)?({sign}\d*)?$"
            is_group = pc.match_substring_regex(plain, shape)
            plain = pc.if_else(is_group, pc.replace_substring_regex(plain, rf"{other}|{_GROUPS}", ""), plain)
        if self.decimal == ",":
            # A point that separates no groups is no decimal sign.
            has_point = pc.match_substring(plain, ".")
            plain = pc.if_else(has_point, pa.scalar(None, pa.utf8()), pc.replace_substring(plain, ",", "."))
        plain = pc.replace_substring_regex(plain, r"^\+", "")
        if pa.types.is_integer(kind):
            shape = r"^-?(0|[1-9]\d*)$" if self.is_guess else r"^-?\d+$"
            plain = pc.if_else(pc.match_substring_regex(plain, shape), plain, pa.scalar(None, pa.utf8()))
        elif self.is_guess:
            padded = pc.match_substring_regex(plain, r"^-?0\d")
            plain = pc.if_else(padded, pa.scalar(None, pa.utf8()), plain)
        return plain


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether a type is one of bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


_HEX = r"^\\x([0-9a-fA-F]{2})*$"


def are_bytes(texts: pa.Array) -> bool:
    r"""Return whether texts, of which there are some, are all bytes as an export writes them: `\x00ff`."""
    return bool(len(texts)) and bool(pc.all(pc.match_substring_regex(texts, _HEX)).as_py())


def _bytes(column: pa.Array, kind: pa.DataType) -> pa.Array:
    r"""Return bytes: those of `\x00ff`, as an export writes them, and any others as they are."""
    plain = column.cast(pa.large_binary())
    is_hex = pc.fill_null(pc.match_substring_regex(plain, _HEX), fill_value=False)
    if pc.any(is_hex).as_py():
        texts = zip(plain.to_pylist(), is_hex.to_pylist(), strict=True)
        plain = pa.array([bytes.fromhex(text[2:].decode()) if each else text for text, each in texts], plain.type)
    return plain.cast(kind)


def _parse_document(text: str | None, kind: pa.DataType) -> Any:
    """Return the list, struct or map that a text of JSON has; None for one that has another, or more."""
    try:
        value = None if text is None else _shape_value(json.loads(text), kind)
        pa.scalar(value, kind)
    except (ValueError, TypeError, pa.ArrowException):
        return None
    return value


def _shape_value(value: Any, kind: pa.DataType) -> Any:
    """Return a value of JSON with the pairs of maps as Arrow takes them; `ValueError` for one that a type has no place for."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        kinds = {each.name: each.type for each in kind}
        if not isinstance(value, dict) or not value.keys() <= kinds.keys():
            raise ValueError("not a struct of these fields")  # Arrow leaves out others
        return {name: _shape_value(each, kinds[name]) for name, each in value.items()}
    if not isinstance(value, list):
        raise TypeError("not a list")
    if pa.types.is_map(kind):
        return [(key, _shape_value(item, kind.item_type)) for key, item in value]
    return [_shape_value(each, kind.value_type) for each in value]


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast texts; those that cannot be become NULL."""
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, kind)
    half = len(texts) // 2
    return pa.concat_arrays([_cast(texts.slice(0, half), kind), _cast(texts.slice(half), kind)])


def _parse_moments(texts: pa.Array, format: str) -> pa.Array:
    """Return the moments of texts in a format of strptime, NULL for those that are in another, or no days of a calendar."""
    if format.endswith("%H:%M:%S"):
        # Programs leave out seconds that are zero.
        texts = pc.replace_substring_regex(texts, r"([ T]\d{1,2}:\d\d)$", r"\1:00")
    moments = pc.strptime(texts, format, "s", error_is_null=True)
    # The reader of the machine takes the 31st of February for a day of March.
    is_same = pc.equal(_normal(pc.strftime(moments, format)), _normal(texts))
    return pc.if_else(is_same, moments, pa.scalar(None, moments.type))


_SECONDS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DIGITS = 9
"""Digits of the fractions of a second that durations are read with."""
_DURATION = (
    r"^(?P<sign>[+-])?(?:(?P<days>\d{1,15}) days?(?:,? |$))?"
    r"(?:(?P<hours>\d{1,9}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d)(?P<part>\.\d{1,9})?)?"
    r"|(?P<same>-)?(?P<all>\d{1,15})(?P<rest>\.\d{1,9})? sec(?:ond)?s?)?$"
)
"""Durations as an export writes them (`-1 days -10800.5 seconds`), as Python and PostgreSQL do (`1 day, 3:00:00.5`), and as clocks do."""


def _parse_durations(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the durations of texts; NULL for those that are in another form, or finer or longer than the type holds."""
    groups = pc.extract_regex(texts, _DURATION)
    named = {field.name: pc.struct_field(groups, field.name) for field in groups.type}
    has_days, has_clock, has_seconds = (pc.not_equal(named[name], "") for name in ("days", "hours", "all"))
    is_less, has_sign = pc.equal(named["sign"], "-"), pc.equal(named["same"], "-")
    # Of a time behind days below zero only a sign of its own tells whether it is below zero, too.
    is_clear = pc.if_else(
        pc.and_(is_less, has_days), pc.and_not(pc.equal(has_seconds, has_sign), has_clock), pc.invert(has_sign)
    )
    is_known = pc.and_(pc.or_(pc.or_(has_days, has_clock), has_seconds), is_clear)

    def number(name: str) -> pa.Array:
        return pc.if_else(pc.equal(named[name], ""), "0", named[name]).cast(pa.decimal256(40, 0))

    seconds = number("seconds")
    for name, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("all", 1)):
        seconds = pc.add(seconds, pc.multiply(number(name), pa.scalar(size, pa.decimal256(6, 0))))
    digits = pc.utf8_ltrim(pc.binary_join_element_wise(named["part"], named["rest"], ""), ".")
    fraction = pc.utf8_rpad(digits, _DIGITS, "0").cast(pa.int64())
    ticks, size = _SECONDS[kind.unit], 10**_DIGITS // _SECONDS[kind.unit]
    whole = _cast(seconds.cast(pa.string()), pa.int64())
    fits = pc.and_(
        pc.equal(pc.multiply(pc.divide(fraction, size), size), fraction), pc.less(whole, (2**63 - 1) // ticks)
    )
    total = pc.add(pc.multiply(pc.if_else(fits, whole, 0), ticks), pc.divide(fraction, size))
    signed = pc.if_else(pc.equal(named["sign"], "-"), pc.negate(total), total)
    return pc.if_else(pc.and_(is_known, fits), signed, pa.scalar(None, pa.int64())).view(kind)


def _normal(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(pc.utf8_lower(texts), r"\b0+(\d)", r"\1")


_DAYS = (
    "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y",
    "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%b %d %Y", "%d %B %Y", "%B %d, %Y",
)  # fmt: skip
_CLOCKS = (" %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
_UTC, _UTC_NS = pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")
_TIME_LIKE = re.compile(r"\d:\d\d")
_DAY_LIKE = re.compile(r"\d[./ -](\d|[A-Za-z]{3})|[A-Za-z]{3} \d")
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}([.  ’']\d{3})+),(\d{1,2}|\d{4,})|[+-]?\d{1,3}([.  ’']\d{3})+,\d+")
_DECIMAL_POINT = re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d*|[+-]?\d{1,3}(,\d{3}){2,}")
_UNCLEAR = re.compile(r"\s*[+-]?\d{1,3}[.,]\d{3}\s*")
_PADDED = re.compile(r"[+-]?0\d")
_MAY_BE_VALUES = re.compile(r"[+-]?[.,]?\d|[+-]?(?:nan|inf)|[a-z]{3,9} \d", re.IGNORECASE)
"""Beginnings of numbers and moments."""
_WHOLE = re.compile(r"[+-]?\d+")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")
_YEAR = re.compile(r"\d{4}")


@dataclass(frozen=True, slots=True)
class Guess:
    """Conversion that fits all texts of a column, and what is said of it where that was not sure."""

    conversion: Conversion
    note: str = ""


def guess(texts: pa.Array, decimal: str | None, date_format: str | None) -> Guess:
    """Guess what the texts of a column are; `decimal` and `date_format` are those of the whole file, where they are known."""
    if not len(texts.drop_null()):
        return Guess(_guess(pa.null()))
    trimmed = pc.utf8_trim_whitespace(texts.drop_null())
    known = [text for text in pc.unique(trimmed).to_pylist() if text not in NULL_WORDS]
    if not known:
        return Guess(_guess(pa.null())) if not any(trimmed.to_pylist()) else Guess(_guess(pa.utf8()))
    sample = pa.array(known, pa.utf8())
    if are_bytes(sample):
        return Guess(_guess(pa.binary()))
    if all(text.lower() in {"true", "false"} for text in known):
        return Guess(_guess(pa.bool_()))
    if not all(map(_MAY_BE_VALUES.match, known[:_FEW])):
        return Guess(_guess(pa.utf8()), _null_note(trimmed))
    if all(map(_WHOLE.fullmatch, known)):
        padded = next((text for text in known if _PADDED.match(text)), None)
        if padded is not None:
            return Guess(_guess(pa.utf8()), f"{padded!r} has leading zeros: kept as text")
        longest = max(known, key=lambda text: abs(int(text)))
        if abs(int(longest)) >= 1 << 63:
            return Guess(_guess(pa.utf8()), f"{longest!r} is longer than a BIGINT: kept as text")
    return (
        _number(sample, known, decimal)
        or _moment(sample, known, date_format)
        or Guess(_guess(pa.utf8()), _null_note(trimmed))
    )


def moments_of(texts: pa.Array) -> pa.DataType | None:
    """Return the type of texts that are all moments by ISO 8601; None for others."""
    known = pc.unique(texts.drop_null())
    first = known[0].as_py() if len(known) else ""
    if not _ISO.match(first):
        return None
    kinds = (pa.timestamp("us"), pa.timestamp("ns"), _UTC, _UTC_NS)
    return next((kind for kind in kinds if fits(known, _guess(kind))), None)


def is_unclear(texts: pa.Array) -> bool:
    """Return whether points, or commas, of all numbers may separate thousands as well as decimals: 1.234."""
    signed = [text for text in texts.drop_null().to_pylist() if "." in text or "," in text]
    return bool(signed) and all(map(_UNCLEAR.fullmatch, signed))


def _guess(kind: pa.DataType, **others: object) -> Conversion:
    return Conversion(kind=kind, is_guess=True, **others)  # type: ignore[arg-type]


def _null_note(texts: pa.Array) -> str:
    words = [word for word in ("NULL", "\\N", "N/A", "NA", "null") if word in texts.to_pylist()]
    return f"{words[0]!r} is kept as text; --null {words[0]!r} makes it NULL" if words else ""


def fits(sample: pa.Array, conversion: Conversion) -> bool:
    """Return whether all texts have values."""
    # A column of another type shows that soon, and is not looked at whole.
    parts = (sample.slice(0, 1), sample.slice(1, _FEW - 1), sample.slice(_FEW))
    return not any(pc.any(conversion.values(part)[1]).as_py() for part in parts)


_FEW = 16


def _number(sample: pa.Array, known: Sequence[str], decimal: str | None) -> Guess | None:
    is_grouped = decimal is not None
    sign = decimal or "."
    unclear = next((text for text in known if "," in text and _UNCLEAR.fullmatch(text)), None)
    if decimal is None and any(map(_DECIMAL_COMMA.fullmatch, known)):
        sign, is_grouped = ",", True
    elif decimal is None and (
        any(map(_DECIMAL_POINT.fullmatch, known)) or any(re.search(r"\d[  ’']\d{3}", t) for t in known)
    ):
        is_grouped = True
    elif decimal is None and unclear is not None:
        if all(map(re.compile(r"[+-]?\d{1,3}(,\d{3})?").fullmatch, known)):
            return Guess(
                _guess(pa.utf8()), f"{unclear!r} may have a decimal comma or thousands: kept as text; say --decimal"
            )
        return None
    for kind in (pa.int64(), pa.float64()):
        conversion = _guess(kind, decimal=sign, is_grouped=is_grouped)
        if fits(sample, conversion):
            return Guess(conversion)
    return None


def _moment(sample: pa.Array, known: Sequence[str], date_format: str | None) -> Guess | None:
    if date_format is not None:
        has_clock = any(sign in date_format for sign in ("%H", "%I", "%T", "%R", "%c"))
        given = _guess(pa.timestamp("us") if has_clock else pa.date32(), format=date_format)
        if fits(sample, given):
            return Guess(given)
    for kind in (pa.date32(), pa.time64("ns"), pa.timestamp("us"), pa.timestamp("ns"), _UTC, _UTC_NS):
        if fits(sample, _guess(kind)):
            return Guess(_guess(kind))
    if not all(map(_DAY_LIKE.search, known)):
        return None
    has_clock = any(map(_TIME_LIKE.search, known))
    has_years = all(map(_YEAR.search, known))
    days = [day_format for day_format in _DAYS if ("%Y" in day_format) == has_years]
    formats = ["".join(parts) for parts in product(days, _CLOCKS)] if has_clock else days
    kind = pa.timestamp("us") if has_clock else pa.date32()
    fitting = [
        conversion for conversion in (_guess(kind, format=format) for format in formats) if fits(sample, conversion)
    ]
    if not fitting:
        return None
    if any(not conversion.values(sample)[0].equals(fitting[0].values(sample)[0]) for conversion in fitting[1:]):
        return Guess(
            _guess(pa.utf8()),
            f"{known[0]!r} may be {' or '.join(str(conversion.format) for conversion in fitting[:2])}: kept as text; say --date-format",
        )
    return Guess(fitting[0])
