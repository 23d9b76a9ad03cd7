"""The functions that the service adds to DataFusion's, in one table: what each becomes, what it gives, and which systems know it.

SHOW FUNCTIONS, completion, `server/docs/functions.md`, the rewrites (`macros.py`) and the advice about unknown names come from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from types import MappingProxyType

from lance_flight.engine.functions.date_patterns import strftime_of
from lance_flight.engine.functions.macros import Macro, NotTaken, Read, signature_of
from lance_flight.errors import SqlError

SYSTEMS: Mapping[str, str] = MappingProxyType(
    {"D": "DuckDB", "P": "PostgreSQL", "F": "Snowflake", "S": "Spark", "M": "MySQL", "T": "SQL Server"}
)
"""Letters of the systems that know a function, in its row: S is Spark's, and F that of Snowflake."""

_UNITS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(["year", "years", "yr", "yyyy", "yy", "y"], "year"),
        **dict.fromkeys(["quarter", "quarters", "qq", "q"], "quarter"),
        **dict.fromkeys(["month", "months", "mon", "mm"], "month"),
        **dict.fromkeys(["week", "weeks", "wk", "ww"], "week"),
        **dict.fromkeys(["day", "days", "dd", "d"], "day"),
        **dict.fromkeys(["hour", "hours", "hh", "h"], "hour"),
        **dict.fromkeys(["minute", "minutes", "mi", "n"], "minute"),
        **dict.fromkeys(["second", "seconds", "sec", "ss", "s"], "second"),
        **dict.fromkeys(["millisecond", "milliseconds", "ms"], "millisecond"),
        **dict.fromkeys(["microsecond", "microseconds", "us", "mcs"], "microsecond"),
    }
)
_PARTS_OF_SECONDS: Mapping[str, str] = MappingProxyType(
    {"milliseconds": "msec msecs ms", "microseconds": "usec usecs us", "nanoseconds": "nsec nsecs ns"}
)
"""Parts that DataFusion 55 reads without the fraction of an INTERVAL, and their other names."""
_PARTS = frozenset([*_UNITS.values(), "dow", "doy", "epoch", "isodow", "isoyear"])
"""Words that no column is called where a unit is expected."""
_OF_MONTHS = re.compile(r"\b(?:years?|quarters?|months?|mons?|decades?|centur(?:y|ies))\b", re.IGNORECASE)
_COUNTED = re.compile(r"(\d{1,9})\s+(\w+)")
_DAYS = 10_959
"""Days from 1970-01-01 to 2000-01-03, from which DuckDB counts buckets; those of months begin in 2000-01."""
_BETWEEN: Mapping[str, int] = MappingProxyType(
    {
        "year": 30,
        "quarter": 120,
        "month": 360,
        "day": _DAYS,
        "hour": _DAYS * 24,
        "minute": _DAYS * 1_440,
        "second": _DAYS * 86_400,
        "millisecond": _DAYS * 86_400_000,
    }
)
"""Units between the two origins, of which weeks are no whole number."""


def _letters_of(table: str) -> dict[str, str]:
    return dict(name.split("=") for name in table.split())


_SAME = {letter: f"%{letter}" for letter in "YymdHIMSpbBaAjT%"} | {f"-{letter}": f"%-{letter}" for letter in "dmHIMSj"}
_STRFTIME = _SAME | _letters_of("f=%6f g=%3f n=%9f F=%F G=%G V=%V u=%u w=%w U=%U W=%W")
_STRPTIME = _SAME | _letters_of("f=%f F=%F z=%z")
_MYSQL = {letter: f"%{letter}" for letter in "YymdHIbajpST%"} | _letters_of("c=%-m e=%-d h=%I k=%-H l=%-I i=%M f=%6f")
_MYSQL |= {"r": "%I:%M:%S %p"}
_SPARK = _letters_of(
    "yyyy=%Y yy=%y MMMM=%B MMM=%b MM=%m M=%-m dd=%d d=%-d DDD=%j EEEE=%A EEE=%a E=%a HH=%H H=%-H hh=%I h=%-I"
    " mm=%M m=%-M ss=%S s=%-S SSS=%3f SSSSSS=%6f a=%p"
)
_LETTER = re.compile(r"%(-?.)?", re.DOTALL)
_JAVA = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*")
_BRACES = re.compile(r"\{\{|\}\}|\{(?P<place>\d{0,2})(?::(?P<spec>[^{}]*))?\}|[{}]")
_SPEC = re.compile(r"(?:.?[<>^=])?[+ -]?#?0?\d{0,3}[,_]?(?:\.\d{1,2})?[bcdeEfFgGosxX%]?")
_PERCENTS = re.compile(r"%%|%[-+ 0#]*\d{0,3}(?:\.\d{1,2})?[cdeEfFgGiosuxX]|%")


def _unit(text: str) -> str:
    found = _UNITS.get(text.lower().removeprefix("sql_tsi_"))
    if found is None:
        raise SqlError(f"knows no unit {text!r}; expected {', '.join(dict.fromkeys(_UNITS.values()))}")
    return found


def _part(text: str) -> str:
    if text.lower() not in _PARTS:
        raise NotTaken(f"knows no unit {text!r}; expected {', '.join(sorted(_PARTS))}")
    return text.lower()


def _named(names: str, text: str) -> str:
    if text.lower() not in names.split():
        raise NotTaken(f"takes {names!r}, got {text!r}")
    return text


def _interval(text: str) -> str:
    unit = _unit(text)
    return "3 months" if unit == "quarter" else f"1 {unit}"


def _truncate(text: str) -> str:
    if text.lower() not in _UNITS or _UNITS[text.lower()] not in {"year", "quarter", "month", "week"}:
        raise NotTaken(f"knows no unit {text!r}; expected year, quarter, month or week")
    return _UNITS[text.lower()]


def _width(text: str, *, of_months: bool) -> str:
    if (_OF_MONTHS.search(text) is not None) != of_months:
        raise NotTaken("takes a literal interval, as INTERVAL '15 minutes'")
    return text


def _even(text: str) -> str:
    """Return a width whose buckets begin alike from 1970 and from 2000, so that conditions on them prune."""
    match = _COUNTED.fullmatch(text.strip())
    units = None if match is None else _BETWEEN.get(_UNITS.get(match[2].lower(), ""))
    if match is None or units is None or units % max(int(match[1]), 1):
        raise NotTaken("takes a literal interval, as INTERVAL '15 minutes'")
    return text


def _step(text: str) -> str:
    if text.isdigit():
        raise NotTaken("takes numbers as well")
    return text


def _letters(known: Mapping[str, str], advice: str, text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        if found[1] not in known:
            raise SqlError(f"does not read {found[0]!r} in the pattern {text!r}{advice}")
        return known[found[1]]

    return _LETTER.sub(letter, text)


def _date_format(text: str) -> str:
    if "%" in text:
        return _letters(
            _MYSQL, ", which other systems read in other ways; write to_char(ts, …) with the letters of strftime", text
        )

    def letters(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1].replace("''", "'") or "'"
        if found[0] not in _SPARK:
            raise SqlError(
                f"does not read {found[0]!r} in the pattern {text!r}; write to_char(ts, …) with the letters of strftime"
            )
        return _SPARK[found[0]]

    return _JAVA.sub(letters, text)


def _postgres(text: str) -> str:
    """Return a pattern of PostgreSQL in strftime's letters; one with these is DataFusion's, which leaves out hours without minutes."""
    if "%" in text and not ("%H" in text and "%M" not in text):
        raise NotTaken("takes the letters of strftime as well")
    pattern = text if "%" in text else strftime_of(text)
    twice = next((letter for letter in _LETTER.findall(pattern) if pattern.count(f"%{letter}") > 1), None)
    if twice is not None and "%" not in text:
        raise SqlError(f"reads %{twice} twice in the pattern {text!r}; minutes are MI, in 'YYYY-MM-DD HH24:MI:SS'")
    return pattern


def _braces(text: str) -> str:
    for match in _BRACES.finditer(text):
        if match[0] in {"{", "}"} or _SPEC.fullmatch(match["spec"] or "") is None:
            raise SqlError(
                f"does not read {match[0]!r} in the pattern {text!r}; expected {{}}, {{:.2f}}, {{:>8}} and the like"
            )
    return text


def _percents(text: str) -> str:
    if any(match[0] == "%" for match in _PERCENTS.finditer(text)):
        raise SqlError(f"does not read a % in the pattern {text!r}; expected %s, %d, %05d, %.2f and the like, %% for %")
    return text


def _weekday(text: str) -> str:
    names = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    found = [number for number, name in enumerate(names, 1) if len(text) > 1 and name.startswith(text.lower())]
    if not found:
        raise SqlError(f"knows no day {text!r}; expected {', '.join(names)}, or two letters of one")
    return str(found[0])


def _sha2(text: str) -> str:
    if text not in {"0", "224", "256", "384", "512"}:
        raise SqlError(f"takes 224, 256, 384 or 512 bits, got {text}")
    return "256" if text == "0" else text


def _digits(text: str) -> str:
    if not text.isdigit() or int(text) > 30:  # noqa: PLR2004 - what MySQL takes
        raise SqlError(f"takes a number of digits up to 30, got {text}")
    return text


_READERS: Mapping[str, Read] = MappingProxyType(
    {
        "unit": _unit,
        "part": _part,
        "epoch": partial(_named, "epoch"),
        **{name[:-1]: partial(_named, f"{name[:-1]} {name} {short}") for name, short in _PARTS_OF_SECONDS.items()},
        "interval": _interval,
        "even": _even,
        "trunc": _truncate,
        "days": partial(_width, of_months=False),
        "months": partial(_width, of_months=True),
        "step": _step,
        "strftime": partial(_letters, _STRFTIME, "; write to_char(ts, …) for more"),
        "strptime": partial(_letters, _STRPTIME, ""),
        "postgres": _postgres,
        "mysql": partial(_letters, _MYSQL, ""),
        "date_format": _date_format,
        "braces": _braces,
        "percents": _percents,
        "digits": _digits,
        "weekday": _weekday,
        "sha2": _sha2,
        "text": str,
    }
)
"""How literals of signatures are read: `'pattern:strftime'` is a parameter `pattern` that the reader `strftime` reads."""

_TABLE = r"""
# Parts of dates and times
year(ts) ; date_part('year', ts) ; D F S M T ; the year
quarter(ts) ; date_part('quarter', ts) ; D F S M ; the quarter, 1 to 4
month(ts) ; date_part('month', ts) ; D F S M T ; the month, 1 to 12, whatever the year
week, weekofyear, weekiso(ts) ; date_part('week', ts) ; D F S M ; the week of ISO 8601
day, dayofmonth, day_of_month(ts) ; date_part('day', ts) ; D F S M T ; the day of the month
dayofyear, day_of_year(ts) ; date_part('doy', ts) ; D F S M ; the day of the year
dayofweek, day_of_week, weekday(ts) ; date_part('dow', ts) ; D F ; the day of the week, 0 is Sunday; Spark and MySQL count from 1 under dayofweek
isodow, dayofweekiso, dayofweek_iso(ts) ; date_part('isodow', ts) ; D F ; the day of the week, 1 is Monday and 7 Sunday
isoyear, yearofweek, yearofweekiso(ts) ; date_part('isoyear', ts) ; D F ; the year that the week of ISO 8601 belongs to
yearweek(ts) ; date_part('isoyear', ts) * 100 + date_part('week', ts) ; D ; year and week of ISO 8601, as 202401
decade(ts) ; date_part('year', ts) / 10 ; D ; the year divided by ten
century(ts) ; ; D ; the century, or the whole ones of an interval
millennium(ts) ; ; D ; the millennium, or the whole ones of an interval
hour(ts) ; date_part('hour', ts) ; D F S M ; the hour, 0 to 23
minute(ts) ; date_part('minute', ts) ; D F S M ; the minute
second(ts) ; date_part('second', ts) ; D F S M ; the whole seconds
millisecond(ts) ; ; D ; seconds and their fraction, in milliseconds
microsecond(ts) ; ; D ; seconds and their fraction, in microseconds
nanosecond(ts) ; ; D ; seconds and their fraction, in nanoseconds
dayname(ts) ; CASE date_part('dow', ts) WHEN 0 THEN 'Sunday' WHEN 1 THEN 'Monday' WHEN 2 THEN 'Tuesday' WHEN 3 THEN 'Wednesday' WHEN 4 THEN 'Thursday' WHEN 5 THEN 'Friday' WHEN 6 THEN 'Saturday' END ; D M ; the English name of the day; Snowflake shortens it
monthname(ts) ; CASE date_part('month', ts) WHEN 1 THEN 'January' WHEN 2 THEN 'February' WHEN 3 THEN 'March' WHEN 4 THEN 'April' WHEN 5 THEN 'May' WHEN 6 THEN 'June' WHEN 7 THEN 'July' WHEN 8 THEN 'August' WHEN 9 THEN 'September' WHEN 10 THEN 'October' WHEN 11 THEN 'November' WHEN 12 THEN 'December' END ; D M ; the English name of the month; Snowflake shortens it
epoch(ts) ; ; D ; seconds since 1970-01-01 UTC, or of an interval, with their fraction
epoch_ms(ts) ; ; D ; milliseconds since 1970-01-01 UTC; of a number the timestamp
epoch_us(ts) ; ; D ; microseconds since 1970-01-01 UTC
epoch_ns(ts) ; ; D ; nanoseconds since 1970-01-01 UTC
unix_timestamp, to_epoch, to_unix_timestamp, unix_seconds(ts) ; CAST(floor(epoch(ts)) AS BIGINT) ; S M ; whole seconds since 1970-01-01 UTC
unix_timestamp() ; CAST(floor(epoch(now())) AS BIGINT) ; S M ; whole seconds since 1970-01-01 UTC, now
unix_timestamp(s, 'pattern:date_format') ; CAST(floor(epoch(parse_moment(s, pattern))) AS BIGINT) ; S ; whole seconds since 1970-01-01 UTC, of a text by a pattern
unix_millis(ts) ; epoch_ms(ts) ; S ; milliseconds since 1970-01-01 UTC
unix_micros(ts) ; epoch_us(ts) ; S ; microseconds since 1970-01-01 UTC
unix_date(d) ; CAST(d AS DATE) - DATE '1970-01-01' ; S ; days since 1970-01-01
julian(ts) ; epoch(ts) / 86400 + 2440588 ; D ; days since the year 4713 before Christ
datename, date_name(ts) ; !to_char(ts, '%A') ; T ;

# Arithmetic with dates and times
date_diff, datediff, timestampdiff('unit', a, b) ; date_diff(unit, a, b) ; D F T ; the starts of a unit that are passed from a to b, MySQL's timestampdiff counts whole units
date_trunc, datetrunc('word:part', ts) ; date_trunc(word, ts) ; F T ; the start of a unit that is a word without quotes, as in date_trunc(month, ts)
date_part, datepart('name:epoch', ts) ; epoch(ts) ; D P ; seconds since 1970-01-01 UTC, or of an interval, with their fraction
date_part, datepart('ms:millisecond', ts) ; millisecond(ts) ; D P ; seconds and their fraction, in milliseconds
date_part, datepart('us:microsecond', ts) ; microsecond(ts) ; D P ; seconds and their fraction, in microseconds
date_part, datepart('ns:nanosecond', ts) ; nanosecond(ts) ; D P ; seconds and their fraction, in nanoseconds
date_part, datepart('word:part', ts) ; date_part(word, ts) ; F T ; a part of a moment whose name is a word without quotes, as in date_part(year, ts)
datediff(a, b) ; CAST(a AS DATE) - CAST(b AS DATE) ; S M ; days from b to a
date_sub, datesub('unit', a, b) ; date_span(unit, a, b) ; D ; the whole units from a to b
date_sub, subdate(ts, n) ; ts - days_of(n) ; S M ; an earlier moment: days, or an interval
date_add, adddate(ts, n) ; ts + days_of(n) ; D S M ; a later moment: days, or an interval
dateadd, date_add, timestampadd('unit:interval', n, ts) ; ts + INTERVAL '{unit}' * n ; F T S ; a moment n units later
add_months(ts, n) ; ts + INTERVAL '1 month' * n ; F S ; n months later; a day that the month lacks becomes its last
age(a, b) ; ; D P ; the interval from b to a, in years, months and days
age(a) ; age(CAST(current_date AS TIMESTAMP), a) ; D P ; the interval from a to the start of today
months_between(a, b) ; ; F S ; months from b to a, with parts of 31 days
last_day, eomonth(d) ; ; D F S M T ; the last day of the month
time_bucket('width:even', ts) ; date_bin(INTERVAL '{width}', ts) ; D ; the start of the bucket: weeks begin on Mondays
time_bucket('width:days', ts) ; date_bin(INTERVAL '{width}', ts, TIMESTAMP '2000-01-03') ; D ; the start of the bucket: weeks begin on Mondays
time_bucket('width:months', ts) ; date_bin(INTERVAL '{width}', ts, TIMESTAMP '2000-01-01') ; D ; the start of the bucket, of whole months or years
next_day(d, 'weekday') ; CAST(d AS DATE) + days_of((CAST(weekday AS INT) - date_part('isodow', d) + 6) % 7 + 1) ; F S ; the first such day of the week after d
time_slice(ts, n, unit) ; !time_bucket(INTERVAL '1 month', ts) ; F ;
window(ts, w) ; !time_bucket(INTERVAL '1 hour', ts) ; S ;
previous_day(d, 'weekday') ; CAST(d AS DATE) - days_of((date_part('isodow', d) - CAST(weekday AS INT) + 6) % 7 + 1) ; F ; the last such day of the week before d
trunc(d, 'part:trunc') ; CAST(date_trunc(part, CAST(d AS TIMESTAMP)) AS DATE) ; F S ; the date on which a year, quarter, month or week begins
timezone('z:text', ts) ; ts AT TIME ZONE z ; D P ; the moment of a local time of a zone, or the local time of a moment
convert_timezone('source:text', 'target:text', ts) ; (ts AT TIME ZONE source) AT TIME ZONE target ; F S ; the local time of one zone as that of another
from_utc_timestamp(ts, 'z:text') ; (ts AT TIME ZONE 'UTC') AT TIME ZONE z ; S ; the local time of a zone, of a time in UTC
to_utc_timestamp(ts, 'z:text') ; (ts AT TIME ZONE z) AT TIME ZONE 'UTC' ; S ; the time in UTC, of a local time of a zone
to_days(n) ; INTERVAL '1 day' * n ; D ; an interval of n days
to_hours(n) ; INTERVAL '1 hour' * n ; D ; an interval of n hours
to_minutes(n) ; INTERVAL '1 minute' * n ; D ; an interval of n minutes
to_seconds(n) ; INTERVAL '1 second' * n ; D ; an interval of n seconds
to_weeks(n) ; INTERVAL '1 week' * n ; D ; an interval of n weeks
to_months(n) ; INTERVAL '1 month' * n ; D ; an interval of n months
to_years(n) ; INTERVAL '1 year' * n ; D ; an interval of n years
make_interval(days) ; !INTERVAL '1 day' * a ; P ;

# Dates and times of text, and text of them
strftime, format_date(ts, 'pattern:strftime') ; moment_text(ts, pattern) ; D ; text by a pattern of strftime's letters
strftime('pattern:strftime', ts) ; moment_text(ts, pattern) ; D ; the same, with the pattern first
date_format(ts, 'pattern:date_format') ; moment_text(ts, pattern) ; S M ; text by a pattern of Spark, 'yyyy-MM-dd HH:mm', or MySQL, '%Y-%m-%d %H:%i'
strptime(s, 'pattern:strptime') ; parse_moment(s, pattern) ; D ; the timestamp of a text by a pattern of strftime's letters; an error for another text
try_strptime(s, 'pattern:strptime') ; try_parse_moment(s, pattern) ; D ; the same; NULL for another text
to_date(s, 'pattern:postgres') ; CAST(parse_moment(s, pattern) AS DATE) ; P F ; the date of a text by a pattern of PostgreSQL, as 'DD.MM.YYYY'
to_timestamp(s, 'pattern:postgres') ; arrow_cast(parse_moment(s, pattern), 'Timestamp(µs, "UTC")') ; P F ; the timestamp of a text by a pattern of PostgreSQL
str_to_date(s, 'pattern:mysql') ; parse_moment(s, pattern) ; M ; the timestamp of a text by a pattern of MySQL
make_timestamp(y, m, d, h, mi, s) ; ; D P ; the timestamp of its parts
make_time(h, mi, s) ; CAST(make_timestamp(1970, 1, 1, h, mi, s) AS TIME) ; D P ; the time of its parts
transaction_timestamp, statement_timestamp, get_current_timestamp() ; now() ; D P ; the moment at which the statement began
make_timestamp(n) ; CAST(to_timestamp_micros(n) AS TIMESTAMP(6)) ; D ; the timestamp of microseconds since 1970
timestamp_seconds(n) ; to_timestamp_seconds(n) ; S ; the timestamp of seconds since 1970
timestamp_millis(n) ; to_timestamp_millis(n) ; S ; the timestamp of milliseconds since 1970
timestamp_micros(n) ; to_timestamp_micros(n) ; S ; the timestamp of microseconds since 1970
date_from_unix_date(n) ; DATE '1970-01-01' + days_of(n) ; S ; the date of days since 1970
current_timezone() ; 'UTC' ; S ; the zone of timestamps with a zone
date(ts) ; CAST(ts AS DATE) ; D S M ; the date
time(ts) ; CAST(ts AS TIME) ; M ; the time of day
datetime, to_timestamp_ntz(s) ; CAST(s AS TIMESTAMP) ; F M ; a timestamp without a zone
getdate, getutcdate, sysdate, systimestamp, sysdatetime, clock_timestamp, transaction_timestamp, statement_timestamp, get_current_timestamp() ; now() ; F S T ; the time when the statement began
localtimestamp() ; CAST(now() AS TIMESTAMP) ; D P S M ; the same, without a zone
curdate() ; current_date() ; S M ; today
localtime, curtime() ; current_time() ; M ; the time of day
date_from_parts, datefromparts(y, m, d) ; make_date(y, m, d) ; F T ; the date of its parts
makedate(y, n) ; make_date(y, 1, 1) + INTERVAL '1 day' * (n - 1) ; M ; the n-th day of a year

# Numbers
pmod(a, b) ; (a % b + b) % b ; S ; the remainder, from 0 to b
hypot(a, b) ; sqrt(a * a + b * b) ; S ; the length of a vector
fdiv(a, b) ; floor(CAST(a AS DOUBLE) / b) ; D ; the quotient, rounded down
try_divide, safe_divide(a, b) ; CASE WHEN b = 0 THEN CAST(NULL AS DOUBLE) ELSE CAST(a AS DOUBLE) / b END ; S ; a quotient, NULL where b is 0
mod, modulo(a, b) ; a % b ; D P F S M ; the remainder, with the sign of a
div(a, b) ; (a - a % b) / b ; P ; the whole quotient
sign, sgn(a) ; CAST(nanvl(signum(a), 0) AS INT) ; D P F S M T ; -1, 0 or 1
ceiling(a) ; ceil(a) ; D P S M T ; the next whole number
log(a) ; log10(a) ; D P ; the logarithm with base 10
log(b, a) ; log10(a) / log10(b) ; D P F S M ; the logarithm with base b
square(a) ; a * a ; T F ; the square
ifnull, nvl(a, b) ; coalesce(a, b) ; D F S M ; a, or b where it is NULL
zeroifnull(a) ; coalesce(a, 0) ; F ; 0 for NULL
nullifzero(a) ; nullif(a, 0) ; F ; NULL for 0
div0(a, b) ; CASE WHEN b = 0 THEN CAST(0 AS DOUBLE) ELSE CAST(a AS DOUBLE) / b END ; F ; a quotient, 0 where b is 0
div0null(a, b) ; CASE WHEN b = 0 OR b IS NULL THEN CAST(0 AS DOUBLE) ELSE CAST(a AS DOUBLE) / b END ; F ; a quotient, 0 where b is 0 or NULL
width_bucket(a, low, high, n) ; CASE WHEN a < low THEN 0 WHEN a >= high THEN n + 1 ELSE CAST(floor(CAST(a - low AS DOUBLE) * n / (high - low)) AS BIGINT) + 1 END ; P F S ; the number of the bucket of a among n from low to high
bitand, bit_and_of(a, b) ; a & b ; F ; the bits of both
bitor(a, b) ; a | b ; F ; the bits of either
bitxor, xor(a, b) ; (a | b) - (a & b) ; D F ; the bits of one
bitnot(a) ; -a - 1 ; F ; the other bits
bitshiftleft, shiftleft(a, n) ; a << n ; F S ; the bits, n places to the left
bitshiftright, shiftright(a, n) ; a >> n ; F S ; the bits, n places to the right
getbit, bit_get(a, n) ; (a >> n) & 1 ; F S ; one bit, the last of them is number 0
try_add, try_subtract, try_multiply(a, b) ; !CAST(a AS DECIMAL(38, 0)) + b ; S ;
bit_count(a) ; ; D S M ; the number of bits that are 1
isinf, is_inf(a) ; abs(a) = CAST('inf' AS DOUBLE) ; D ; whether a number is infinite
isfinite(a) ; NOT isnan(a) AND abs(a) < CAST('inf' AS DOUBLE) ; D P ; whether a number is finite
is_nan(a) ; isnan(a) ; S ; whether a number is NaN
even(a) ; CAST(signum(a) AS INT) * ceil(abs(a) / 2.0) * 2 ; D ; the next even number, away from 0
e() ; exp(1) ; D S ; the number e
format_number(a, 'digits') ; format_text('{:,.{digits}f}', CAST(a AS DOUBLE)) ; S M ; text with commas between thousands, and so many digits

# Conditions
if, iff, iif(c, a, b) ; CASE WHEN c THEN a ELSE b END ; D F S M T ; a where c is true, b where it is false or NULL
booland, boolor, boolxor, boolnot(a, b) ; !NOT (a > 0), or a > 0 AND b > 0, or a > 0 OR b > 0 ; F ;
equal_null(a, b) ; a IS NOT DISTINCT FROM b ; F S ; whether both are equal, or both NULL
isnull(a) ; a IS NULL ; S ; whether a value is NULL
isnull(a, b) ; coalesce(a, b) ; T ; b for NULL
notnull, isnotnull(a) ; a IS NOT NULL ; D S ; whether a value is not NULL
decode(a, s, r) ; CASE WHEN a IS NOT DISTINCT FROM s THEN r END ; F ; r where a is s, or both are NULL
decode(a, s, r, other) ; CASE WHEN a IS NOT DISTINCT FROM s THEN r ELSE other END ; F S ; r where a is s, or both are NULL, else other
decode(a, s, r, t, q) ; CASE WHEN a IS NOT DISTINCT FROM s THEN r WHEN a IS NOT DISTINCT FROM t THEN q END ; F ; the result behind the value that a is
decode(a, s, r, t, q, other) ; CASE WHEN a IS NOT DISTINCT FROM s THEN r WHEN a IS NOT DISTINCT FROM t THEN q ELSE other END ; F S ; the result behind the value that a is, else other
choose, elt(n, a) ; !CASE WHEN a = 1 THEN 'x' ELSE 'y' END ; T ;
to_varchar, to_string, str, cstr(a) ; CAST(a AS VARCHAR) ; F ; text
to_double, to_float(a) ; CAST(a AS DOUBLE) ; F ; a double
to_boolean(a) ; CAST(a AS BOOLEAN) ; F ; a boolean
try_to_date(s) ; TRY_CAST(s AS DATE) ; F ; the date of a text; NULL for another text
try_to_timestamp(s) ; TRY_CAST(s AS TIMESTAMP) ; F S ; the timestamp of a text; NULL for another text
try_to_double(s) ; TRY_CAST(s AS DOUBLE) ; F ; the number of a text; NULL for another text
try_to_boolean(s) ; TRY_CAST(s AS BOOLEAN) ; F ; the boolean of a text; NULL for another text
try_to_number, try_to_decimal, try_to_numeric(a) ; !TRY_CAST(s AS DECIMAL(18, 2)) ; F ;
to_number, to_decimal, to_numeric(a) ; !CAST(s AS DECIMAL(18, 2)) ; F ;
isnumeric(s) ; TRY_CAST(s AS DOUBLE) IS NOT NULL ; T ; whether a text is a number
typeof(a) ; ; D ; the SQL name of a type
pg_typeof(a) ; !typeof(a) ; P ;
convert(t, a) ; !CAST(s AS INT) ; T ;

# Text
len(s) ; ; D F T ; the characters of a text, the bytes of binary, the elements of a list
octet_length(a) ; ; D P F S M ; the bytes of a text or binary
bit_length(a) ; octet_length(a) * 8 ; D P F S M ; the bits of a text or binary
lengthb, byte_length, strlen(s) ; octet_length(s) ; D ; the bytes of a text
ucase(s) ; upper(s) ; D S M ; in capitals
lcase(s) ; lower(s) ; D S M ; in small letters
proper(s) ; initcap(s) ; ; each word with a capital
mid(s, n, k) ; substr(s, n, k) ; M ; k characters from the n-th on
space(n) ; repeat(' ', n) ; F S M T ; n spaces
replicate(s, n) ; repeat(s, n) ; T ; the text n times
stuff(s, n, k, t) ; overlay(s, t, n, k) ; T ; t in place of k characters from the n-th on
insert(s, n, k, t) ; overlay(s, t, n, k) ; F M ; t in place of k characters from the n-th on
char, nchar(n) ; chr(n) ; F S M T ; the character of a code point
unicode, ord(s) ; ascii(s) ; D F T ; the code point of the first character
charindex, locate(t, s) ; strpos(s, t) ; F S M T ; the place of t in s, 0 without any
charindex, locate(t, s, n) ; CASE WHEN strpos(substr(s, n), t) > 0 THEN strpos(substr(s, n), t) + n - 1 ELSE strpos(substr(s, n), t) END ; F S M T ; the place of t in s from the n-th character on
patindex(p, s) ; !regexp_instr(s, 'a+') ; T ;
startswith, prefix(s, t) ; starts_with(s, t) ; D F S ; whether s begins with t
endswith, suffix(s, t) ; ends_with(s, t) ; D F S ; whether s ends with t
split, string_split, str_split(s, t) ; CASE WHEN s = '' THEN make_array('') WHEN t = '' THEN string_to_array(s, NULL) WHEN t IS NULL THEN NULL ELSE string_to_array(s, t) END ; D F ; the list of the parts between t, which is no pattern; of the characters where t is empty
string_split_regex, str_split_regex, regexp_split_to_array(s, p) ; split_regex(s, p) ; D P ; the list of the parts between matches of a pattern
regexp_extract(s, p, n = 0) ; extract_regex(s, p, n) ; D ; the first match, or its n-th group; '' without one. Spark takes group 1 by itself
regexp_substr(s, p) ; nullif(extract_regex(s, p, 0), '') ; F M ; the first match; NULL without one
regexp_extract_all(s, p, n = 0) ; extract_all_regex(s, p, n) ; D ; the list of all matches, or of their n-th groups
regexp_matches, regexp_contains, rlike(s, p) ; regexp_like(s, p) ; D S ; whether a part of s matches; PostgreSQL's gives groups
regexp_full_match(s, p) ; regexp_like(s, '^(?:' || p || ')$') ; D ; whether all of s matches
edit_distance, editdist3, editdistance(s, t) ; levenshtein(s, t) ; D F ; the edits between two texts
jaro_winkler_similarity(s, t) ; ; D ; how alike two texts are, 0 to 1
jaro_similarity(s, t) ; ; D ; how alike two texts are, 0 to 1, without weight on their beginning
soundex(s) ; ; P F S M T ; the code of how an English word sounds
strip_accents(s) ; ; D ; the letters without their accents
nfc_normalize(s) ; ; D ; the text in Unicode's composed form
hex(a) ; ; D S M ; the bytes of a text, or a whole number, in hexadecimal capitals
encode(s) ; utf8_bytes(s) ; D ; the bytes of a text in UTF-8
decode(a) ; CAST(a AS VARCHAR) ; D ; the text of bytes in UTF-8
unhex, from_hex(s) ; decode(s, 'hex') ; D S M ; the bytes of hexadecimal digits
base64, to_base64, base64_encode(s) ; encode(utf8_bytes(s), 'base64pad') ; D F S M ; bytes as base64
unbase64, from_base64(s) ; decode(s, 'base64pad') ; D S M ; the bytes of base64
url_encode(s) ; ; D S ; a text for a URL
url_decode(s) ; ; D S ; the text of a part of a URL
format('pattern:braces', rest...) ; format_text(pattern, rest) ; D ; text by a pattern with {}, as '{} {:.2f} {:,}'
printf, format_string('pattern:percents', rest...) ; print_text(pattern, rest) ; D S ; text by a pattern with %, as '%s %05d %.2f'
md5_hex(s) ; md5(s) ; F ; the MD5 hash in hexadecimal
sha1, sha, sha1_hex(s) ; ; D F S M ; the SHA-1 hash in hexadecimal, of systems that still ask for it
sha2, sha2_hex(s) ; encode(digest(s, 'sha256'), 'hex') ; F ; the SHA-256 hash in hexadecimal
sha2(s, 'bits:sha2') ; encode(digest(s, 'sha{bits}'), 'hex') ; F S M ; the SHA-2 hash in hexadecimal, of 224, 256, 384 or 512 bits
hash(a) ; !murmur3(a) ; D F S ;
newid, gen_random_uuid, generate_uuid, uuid_string, uuidv4() ; uuid() ; D P F T ; a random UUID
hamming, mismatches, damerau_levenshtein(s, t) ; !levenshtein(s, 'abc') ; D ;
jaccard(s, t) ; !jaro_similarity(s, 'abc') ; D ;
bin, to_binary(a) ; !hex(a) ; D S M ;
strtok(s, t, n) ; !split_part(s, ',', 2) ; F ;
regexp_split_to_table(s, p) ; unnest(split_regex(s, p)) ; D P ; a row for each part between matches of a pattern
rand_between, uniform(a, b) ; !a + random() * (b - a) ; ;

# Aggregates
count_if, countif(c) ; count(*) FILTER (WHERE c) ; D F S ; the rows for which c is true
sum_if, sumif(a, c) ; sum(a) FILTER (WHERE c) ; ; the sum over the rows for which c is true
avg_if, avgif(a, c) ; avg(a) FILTER (WHERE c) ; ; the mean over the rows for which c is true
arg_max, max_by, argmax(a, b) ; first_value(a ORDER BY b DESC NULLS LAST) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL) ; D F S ; a of the row with the greatest b
arg_min, min_by, argmin(a, b) ; first_value(a ORDER BY b ASC NULLS LAST) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL) ; D F S ; a of the row with the least b
arg_max_null(a, b) ; first_value(a ORDER BY b DESC NULLS LAST) FILTER (WHERE b IS NOT NULL) ; D ; a of the row with the greatest b, also if NULL
arg_min_null(a, b) ; first_value(a ORDER BY b ASC NULLS LAST) FILTER (WHERE b IS NOT NULL) ; D ; a of the row with the least b, also if NULL
mode(a) ; mode_of(array_agg(a)) ; D F S ; the most frequent value; of several the least
mode() WITHIN GROUP (ORDER BY a) ; mode_of(array_agg(a)) ; P F ; the most frequent value; of several the least
first, arbitrary(a) ; first_value(a) ; D S ; the value of the first row; write ORDER BY inside
last(a) ; last_value(a) ; D S ; the value of the last row; write ORDER BY inside
listagg, group_concat, string_agg, strings_agg, wm_concat(s) ; string_agg(s, ',') ; D M ; all texts, with commas between
listagg, group_concat, strings_agg(s, t) ; string_agg(s, t) ; D F S M ; all texts, with t between
list, collect_list, groupArray, array_aggregate(a) ; array_agg(a) ; D S ; the list of all values, NULL too; Spark leaves NULL out
collect_set(a) ; array_agg(DISTINCT a) FILTER (WHERE a IS NOT NULL) ; S ; the list of the different values
histogram(a) ; histogram_of(array_agg(a)) ; D ; a map from each value to its number
count_distinct(a) ; count(DISTINCT a) ; S ; the number of different values
approx_count_distinct, ndv, hll(a) ; approx_distinct(a) ; D F S ; about the number of different values
approx_quantile, percentile_approx, approx_percentile(a, q[]) ; quantile_of(array_agg(a), q) ; D S ; the list of the values at shares of the rows
approx_quantile, percentile_approx, approx_percentile(a, q) ; approx_percentile_cont(a, q) ; D F S ; about the value at a share q of the rows
quantile, quantile_disc(a, q) ; quantile_of(array_agg(a), q) ; D ; the value at a share q of the rows, one of them; for a list of shares a list
quantile_cont(a, q) ; quantile_cont_of(array_agg(a), q) ; D ; the value at a share q of the rows, between two of them; for a list of shares a list
percentile_cont(q) WITHIN GROUP (ORDER BY a) ; quantile_cont_of(array_agg(a), q) ; D P F ; the value at a share q of the rows, between two of them; for a list of shares a list
percentile_disc(q) WITHIN GROUP (ORDER BY a) ; quantile_of(array_agg(a), q) ; D P F ; the value at a share q of the rows, one of them; for a list of shares a list
percentile(a, q) ; quantile_cont_of(array_agg(a), q) ; S ; the value at a share q of the rows, between two of them; for a list of shares a list
variance(a) ; var_samp(a) ; D P F S M ; the variance of a sample
varp(a) ; var_pop(a) ; T ; the variance of all
stdev(a) ; stddev(a) ; T ; the standard deviation of a sample
stdevp(a) ; stddev_pop(a) ; T ; the standard deviation of all
every, logical_and, booland_agg(c) ; bool_and(c) ; P F S ; whether c is true of all rows
logical_or, boolor_agg(c) ; bool_or(c) ; F S ; whether c is true of some row
product(a) ; array_product(array_agg(a)) ; D ; the product of all values
geometric_mean, geomean(a) ; exp(avg(ln(a))) ; D ; the geometric mean
skewness(a) ; skewness_of(array_agg(a)) ; D F S ; the skewness of a sample
kurtosis(a) ; kurtosis_of(array_agg(a)) ; D F ; the excess kurtosis of a sample
entropy(a) ; entropy_of(array_agg(a)) ; D ; the entropy of the values, in bits
fsum, kahan_sum, sumkahan(a) ; sum(a) ; D ; the sum
favg(a) ; avg(a) ; D ; the mean
count_star() ; count(*) ; D ; the number of rows
sem(a) ; stddev_pop(a) / sqrt(count(a)) ; D ; the standard error of the mean
weighted_avg, wavg(a, w) ; sum(CAST(a AS DOUBLE) * w) FILTER (WHERE w IS NOT NULL) / sum(w) FILTER (WHERE a IS NOT NULL) ; D ; the mean with weights
ratio_to_report(a) ; !a / sum(a) OVER () ; F ;
conditional_true_event(c) ; !sum(CASE WHEN a > 1 THEN 1 ELSE 0 END) OVER (ORDER BY b) ; F ;
nextval, currval, lastval, monotonically_increasing_id, seq4, seq8(s) ; !row_number() OVER (), or uuid() ; D P F S ;
try_avg(a) ; avg(a) ; S ; the mean
try_sum(a) ; !sum(CAST(a AS DOUBLE)) ; S ;
mad(a) ; !median(abs(a - b)), with b from a query below: the median of a ; D ;
reservoir_quantile(a, q) ; !approx_quantile(a, 0.5) ; D ;
fill(a) ; !last_value(a IGNORE NULLS) OVER (ORDER BY b) ; D ;
approx_top_k(a, n) ; !count(*), with GROUP BY a ORDER BY count(*) DESC LIMIT n ; F ;
grouping_id(rest...) ; grouping(rest) ; D S T ; which columns of GROUP BY a row is summed over, as bits

# Lists, structs and maps
list_value, list_pack, array_construct, array(rest...) ; make_array(rest) ; D F S ; a list of its arguments
list_aggr, list_aggregate(l, f) ; !list_sum(list), or list_avg(list) and the like ; D ;
array_has_any, list_has_any, arrays_overlap, arrayoverlap(l, m) ; CASE WHEN m IS NOT NULL AND (l IS NOT NULL OR array_length(array_compact(m)) > 0) THEN array_has_any(l, array_compact(m)) END ; D S ; whether an element of both is equal; NULL is equal to none
array_has_all, list_has_all, arraycontains(l, m) ; CASE WHEN m IS NOT NULL AND (l IS NOT NULL OR array_length(array_compact(m)) > 0) THEN array_has_all(l, array_compact(m)) END ; D ; whether all elements of the second that are not NULL are in the first
arraycontained(l, m) ; CASE WHEN l IS NOT NULL AND (m IS NOT NULL OR array_length(array_compact(l)) > 0) THEN array_has_all(m, array_compact(l)) END ; ; `l <@ m`: whether all elements of the first that are not NULL are in the second
list_count(l) ; len(array_compact(l)) ; D ; the elements that are not NULL
list_unique, array_unique(l) ; len(array_distinct(array_compact(l))) ; D ; the number of different elements
list_sort, array_sort(l) ; array_sort(l, 'ASC', 'NULLS LAST') ; D S ; the elements from the least to the greatest, NULL last
list_sort, array_sort(l, o) ; array_sort(l, o, 'NULLS LAST') ; D ; the elements in the order 'ASC' or 'DESC', NULL last
list_distinct(l) ; array_distinct(array_compact(l)) ; D ; the different elements that are not NULL
list_reverse_sort, array_reverse_sort(l) ; array_sort(l, 'DESC', 'NULLS LAST') ; D ; the elements from the greatest to the least
list_first(l) ; l[1] ; D ; the first element
list_last(l) ; l[-1] ; D ; the last element
array_size, size(l) ; len(l) ; F S ; the elements of a list
list_filter, filter(l, f) ; array_filter(l, f) ; D S ; the elements for which a lambda is true, as x -> x > 1
list_transform, transform, list_apply, array_apply, apply(l, f) ; array_transform(l, f) ; D S ; what a lambda gives for each element, as x -> x + 1
list_comprehension(f, l) ; array_transform(l, f) ; D ; what [f FOR x IN l] gives
list_comprehension(f, l, c) ; array_transform(array_filter(l, c), f) ; D ; what [f FOR x IN l IF c] gives
list_any_match, any_match(l, f) ; array_any_match(l, f) ; S ; whether a lambda is true of an element
list_reduce, reduce(l, f) ; !list_sum(list), or unnest(list) in FROM with an aggregate around it ; D S ;
forall, array_all_match(l, f) ; !NOT array_any_match(list, x -> NOT (x > 1)) ; S ;
explode(l) ; unnest(l) ; S ; a row for each element
explode_outer, posexplode, posexplode_outer, inline, stack(l) ; !unnest(list), or FROM t LEFT JOIN unnest(t.list) AS u(x) ON true ; S ;
list_min(l) ; array_min(l) ; D ; the least element
list_sum, array_sum(l) ; sum_of(l) ; D S ; the sum of the elements: exact for whole numbers and decimals
list_string_agg(l) ; array_to_string(l, ',') ; D ; the elements with commas between
sort_array(l) ; array_sort(l, 'ASC', 'NULLS FIRST') ; S ; the elements from the least to the greatest, NULL first
slice(l, n, k) ; array_slice(l, n, n + k - 1) ; S ; k elements from the n-th on
map_from_arrays(k, v) ; map(k, v) ; S ; a map of keys and values
map_extract, element_at(m, k) ; CASE WHEN m IS NOT NULL THEN array_slice(map_values(m), coalesce(CAST(array_position(map_keys(m), k) AS BIGINT), 1), coalesce(CAST(array_position(map_keys(m), k) AS BIGINT), 0)) END ; D ; a list of the value of a key, empty where the map has no such key
map_contains, map_contains_key(m, k) ; array_has(map_keys(m), k) ; D S ; whether a map has a key
columns(c) ; !a, with each column by its name, or * EXCLUDE (b) ; D ;
sequence(a, b) ; generate_series(a, b) ; S ; the numbers from a to b
sequence(a, b, s) ; generate_series(a, b, s) ; S ; the numbers or moments from a to b in steps of s
struct_pack(rest...) ; named_struct(rest) ; D ; a struct: struct_pack(a := 1, b := 'x')
object_construct(rest...) ; named_struct(rest) ; F ; a struct of names and values
struct_extract(s, 'name:text') ; get_field(s, name) ; D ; a field of a struct
json_extract_string, get_json_object(doc, path) ; ; D S M ; the text at a path, as '$.a.b[0]'
json_value(doc, path) ; CASE WHEN json_type(doc, path) NOT IN ('OBJECT', 'ARRAY') THEN json_extract_string(doc, path) END ; D M P ; the text of a scalar at a path; NULL for an object and an array
json_array_length(doc, path = '$') ; json_array_length(doc, path) ; D P S M ; the elements of the array at a path
json_keys, json_object_keys(doc, path = '$') ; json_keys(doc, path) ; D S M ; the list of the keys of the object at a path
json_type, json_typeof(doc, path = '$') ; json_type(doc, path) ; D ; OBJECT, ARRAY, VARCHAR, UBIGINT, BIGINT, DOUBLE, BOOLEAN or NULL
json_valid(doc) ; ; D M ; whether a text is JSON
list_cosine_similarity, array_cosine_similarity(a, b) ; 1 - cosine_distance(a, b) ; D ; how alike the directions of two vectors are
list_cosine_distance, array_cosine_distance(a, b) ; cosine_distance(a, b) ; D ; the cosine distance of two vectors
list_dot_product, list_inner_product, array_inner_product, array_dot_product(a, b) ; dot_product(a, b) ; D ; the inner product of two vectors
list_select, list_where, list_grade_up(l, m) ; !list_filter(list, x -> x > 1), or array_slice(list, 1, 2) ; D ;
struct_insert(s, v) ; !named_struct('a', a, 'b', b) ; D ;
map_concat(m, n) ; !MAP {'a': a, 'b': b} ; D S ;
json_merge_patch, json_pretty, json_contains, json_structure, json_transform, json_deep_merge(doc) ; !json_extract(s, '$.a'), or json_keys(s) and json_type(s) ; D ;
parse_json, from_json, try_parse_json(s) ; !s ->> 'a', for a document is a text, and json_valid(s) tells whether it is one ; F S ;
json_extract_path_text, json_extract_path, jsonb_extract_path_text, get_path, json_tuple(doc, key) ; !s -> 'a' ->> 'b', or s ->> '$.a.b' ; P F S ;
to_json, row_to_json, json_object, json_array, json_build_object, jsonb_build_object, json_agg, jsonb_agg, json_group_array, json_group_object, object_agg(a) ; !named_struct('a', a), or array_agg(a): clients get structs and lists, and write JSON of them ; D P F S ;
jsonb_array_elements, json_array_elements, jsonb_each, json_each(doc) ; !json_extract(s, '$.a[0]'), or lists and structs as columns ; P ;

# Of the service
murmur3(a) ; ; ; the hash of the transform bucket
murmur3_multi(a, rest...) ; ; ; the hash of the transform multi_bucket
bucket(n, a) ; abs(murmur3(a)) % n ; ; the bucket of a partition field bucket(n, a)
multi_bucket(n, rest...) ; abs(murmur3_multi(rest)) % n ; ; the bucket of a partition field multi_bucket(n, …)
truncate(n, a) ; !left(s, 4), or a - a % 10 of a whole number, or trunc(a, 2) for digits ; ;
json_get_string(doc, key) ; ; ; the text at a key of a document
json_get_int(doc, key) ; ; ; the whole number at a key of a document
json_get_float(doc, key) ; ; ; the number at a key of a document
json_get_bool(doc, key) ; ; ; the boolean at a key of a document
json_extract(doc, path) ; ; D M ; the JSON at a path of a document
json_exists(doc, path) ; ; D ; whether a document has something at a path
cosine_distance(a, b) ; ; ; the cosine distance of two vectors
inner_product(a, b) ; ; ; the inner product of two vectors, negated as a distance
highlight(s, query) ; ; ; a text with what a search found in it marked
database() ; current_database() ; S M ; the catalog
schema() ; current_schema() ; M ; the schema of the session
"""


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its names, how it is called, its `macro` (None: it is computed here) or what to write `instead`, and the systems that know it."""

    names: tuple[str, ...]
    family: str
    macro: Macro
    systems: str
    meaning: str
    instead: str = ""

    @property
    def signature(self) -> str:
        """Return how it is called, by its first name."""
        return signature_of(self.macro)


@cache
def functions() -> tuple[Function, ...]:
    """Return all functions of the table, in its order."""
    found, family = [], ""
    for line in _TABLE.strip().splitlines():
        if line.startswith("# "):
            family = line.removeprefix("# ")
        elif line:
            signature, body, systems, meaning = (part.strip() for part in line.split(" ;"))
            names, _, parameters = signature.partition("(")
            first, *others = names.split(", ")
            macro = Macro.of(f"{first}({parameters}", body.removeprefix("!"), _READERS)
            instead = body.removeprefix("!") if body.startswith("!") else ""
            found.append(Function((first, *others), family, macro, systems.replace(" ", ""), meaning, instead))
    return tuple(found)


@cache
def macros() -> Mapping[str, Sequence[Macro]]:
    """Return the macros of each name; other names of a function that is computed here are macros as well."""
    found: dict[str, list[Macro]] = {}
    for function in functions():
        if function.instead:
            continue
        first, parameters = function.names[0], function.macro.parameters
        body = function.macro.body or f"{first}({', '.join(parameter.name for parameter in parameters)})"
        for name in function.names:
            if function.macro.body or name != first:
                found.setdefault(name.lower(), []).append(Macro(name, parameters, body, function.macro.within))
    return MappingProxyType(found)


@cache
def advice() -> Mapping[str, str]:
    """Return what to write in place of each function that is not offered."""
    return MappingProxyType(
        {name.lower(): function.instead for function in functions() if function.instead for name in function.names}
    )


@cache
def calling(called: frozenset[str]) -> frozenset[str]:
    """Return the macros that call one of some functions.

    >>> sorted(calling(frozenset({"uuid"})))[:2]
    ['gen_random_uuid', 'generate_uuid']
    """
    return frozenset(
        name for name, known in macros().items() if any(not called.isdisjoint(macro.calls) for macro in known)
    )


def by_family() -> Mapping[str, Sequence[Function]]:
    """Return the functions that are offered, by their family."""
    offered = [function for function in functions() if not function.instead]
    return {family: tuple(functions) for family, functions in groupby(offered, key=lambda item: item.family)}


def computed_names() -> frozenset[str]:
    """Return the names of the functions that are computed here."""
    return frozenset(function.names[0] for function in functions() if not function.macro.body)


@cache
def table_macros() -> Mapping[str, Sequence[Macro]]:
    """Return the macros that stand behind FROM: DataFusion makes no rows of moments in microseconds."""
    rows = "(SELECT unnest(generate_series(a, b, INTERVAL '{step}')) AS value)"
    moments = [Macro.of(f"{name}(a, b, 'step')", rows, _READERS) for name in ("generate_series", "sequence", "range")]
    moments[-1] = replace(moments[-1], body=rows.replace("generate_series", "range"))
    return MappingProxyType({macro.name: (macro, *(macros().get(macro.name, ()))) for macro in moments})
