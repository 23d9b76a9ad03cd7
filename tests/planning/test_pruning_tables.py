"""Each transform × predicate by name, with exactly the partitions that could hold an answer."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.model.transforms import Bucket, Day, Hour, Identity, Month, Truncate, Year
from lance_flight.planning.predicates import And, Or, Predicate, StartsWith, equal_or_both_null, negate

from tests.planning.planning_cases import X, among, at, compare, day, null, one_column, part, partitions, pruned

COUNTRIES = ["DE", "FR", "US", "", None]
NUMBERS = [-20, -10, 0, 10, 20, None]
YEARS = [1969, 1970, 2024, 2025, 2026, None]
PREFIXES = ["", "a", "ab", "ac", "b", "zz", None]
DATES = [day("1969-12-31"), day("2024-12-31"), day("2025-01-01"), day("2025-12-10"), None]
FLOATS = [-10.0, 0.0, 10.0, float("nan"), None]
DECIMALS = [Decimal("-10.00"), Decimal("0.00"), Decimal("10.00"), None]

TEXT, INT, DATE, TIME, FLOAT, MONEY = (
    pa.utf8(),
    pa.int64(),
    pa.date32(),
    pa.timestamp("us"),
    pa.float64(),
    pa.decimal128(9, 2),
)
RANGE = And((compare(">=", at("2025-12-10T10:00:00")), compare("<", at("2025-12-11T00:00:00"))))

IDENTITY = [
    ("equal", TEXT, COUNTRIES, compare("=", "US"), ["US"]),
    ("equal to the empty text", TEXT, COUNTRIES, compare("=", ""), [""]),
    ("equal to nothing there", TEXT, COUNTRIES, compare("=", "IT"), []),
    ("not equal", TEXT, COUNTRIES, compare("!=", "US"), ["DE", "FR", ""]),
    ("less", TEXT, COUNTRIES, compare("<", "FR"), ["DE", ""]),
    ("at most", TEXT, COUNTRIES, compare("<=", "FR"), ["DE", "FR", ""]),
    ("greater", TEXT, COUNTRIES, compare(">", "FR"), ["US"]),
    ("at least", TEXT, COUNTRIES, compare(">=", "FR"), ["FR", "US"]),
    ("between", TEXT, COUNTRIES, And((compare(">=", "E"), compare("<=", "G"))), ["FR"]),
    ("in", TEXT, COUNTRIES, among("US", "DE", "IT"), ["DE", "US"]),
    ("in, with NULL", TEXT, COUNTRIES, among("US", None), ["US"]),
    ("not in", TEXT, COUNTRIES, among("US", "DE", negated=True), ["FR", ""]),
    ("not in, with NULL", TEXT, COUNTRIES, among("US", None, negated=True), []),
    ("is null", TEXT, COUNTRIES, null(), [None]),
    ("is not null", TEXT, COUNTRIES, null(negated=True), ["DE", "FR", "US", ""]),
    ("like a prefix", TEXT, COUNTRIES, StartsWith(X, "D"), ["DE"]),
    ("not like a prefix", TEXT, COUNTRIES, StartsWith(X, "D", negated=True), ["FR", "US", ""]),
    ("or", TEXT, COUNTRIES, Or((compare("=", "US"), null())), ["US", None]),
    ("not of an or", TEXT, COUNTRIES, negate(Or((compare("=", "US"), compare("<", "E")))), ["FR"]),
    ("and of contradictions", TEXT, COUNTRIES, And((compare("=", "US"), compare("=", "DE"))), []),
    ("a value and a range", TEXT, COUNTRIES, And((among("US", "DE"), compare(">", "E"))), ["US"]),
    ("equal, compared with NULL", TEXT, COUNTRIES, compare("=", pa.scalar(None, TEXT)), []),
    ("large text", pa.large_utf8(), COUNTRIES, compare("=", "US"), ["US"]),
    ("text views", pa.string_view(), COUNTRIES, compare("<", "FR"), ["DE", ""]),
    ("date, equal", DATE, DATES, compare("=", day("2025-01-01")), [DATES[2]]),
    ("date, equal to a text", DATE, DATES, compare("=", "2025-01-01"), [DATES[2]]),
    ("date, before 1970", DATE, DATES, compare("<", day("1970-01-01")), [DATES[0]]),
    ("date, before a timestamp", DATE, DATES, compare("<=", at("2025-01-01T12:00:00")), DATES[:3]),
    ("date, year", DATE, DATES, compare("=", 2025, part("year")), DATES[2:4]),
    ("date, months", DATE, DATES, among(1, 2, term=part("month")), [DATES[2]]),
    ("date, quarter", DATE, DATES, compare("=", 4, part("quarter")), [DATES[0], DATES[1], DATES[3]]),
    ("date, year and day", DATE, DATES, And((compare(">", 2000, part("year")), compare("=", 31, part("day")))), [DATES[1]]),
    ("integer, equal to a fraction", INT, NUMBERS, compare("=", 10.5), []),
    ("integer, above a fraction", INT, NUMBERS, compare(">", 9.5), [10, 20]),
    ("integer, below a fraction", INT, NUMBERS, compare("<", 10.5), [-20, -10, 0, 10]),
    ("integer, at most a negative fraction", INT, NUMBERS, compare("<=", -9.5), [-20, -10]),
    ("integer, at least a fraction", INT, NUMBERS, compare(">=", 10.5), [20]),
    ("integer, not equal to a fraction", INT, NUMBERS, compare("!=", 10.5), NUMBERS[:-1]),
    ("integer, equal to a decimal", INT, NUMBERS, compare("=", Decimal("10.00")), [10]),
    ("integer, beyond its range", pa.int8(), NUMBERS, compare("<", 1000), [-20, -10, 0, 10, 20]),
    ("integer, above its range", pa.int8(), NUMBERS, compare(">", 1000), []),
    ("unsigned", pa.uint64(), [0, 2**64 - 1, None], compare(">", pa.scalar(2**63, pa.uint64())), [2**64 - 1]),
    ("decimal, at least an integer", MONEY, DECIMALS, compare(">=", 0), DECIMALS[1:3]),
    ("decimal, equal to finer one", MONEY, DECIMALS, compare("=", Decimal("10.001")), []),
    ("boolean", pa.bool_(), [True, False, None], compare("=", pa.scalar(True)), [True]),
    ("boolean, not", pa.bool_(), [True, False, None], negate(compare("=", pa.scalar(True))), [False]),
    ("boolean, is true", pa.bool_(), [True, False, None], equal_or_both_null(X, pa.scalar(value=True)), [True]),
    ("boolean, is not true", pa.bool_(), [True, False, None], negate(equal_or_both_null(X, pa.scalar(value=True))), [False, None]),
    ("float, NaN lies at both ends", FLOAT, FLOATS, compare(">", 5.0), [10.0, FLOATS[3]]),
    ("float, between", FLOAT, FLOATS, And((compare(">", -5.0), compare("<", 5.0))), [0.0]),
    ("float, NaN equals NaN", FLOAT, FLOATS, compare("=", float("nan")), [FLOATS[3]]),
    ("float, minus zero", FLOAT, FLOATS, compare("=", -0.0), [0.0]),
    ("float, not equal to zero, which DataFusion may tell from minus zero", FLOAT, FLOATS, compare("!=", 0.0), FLOATS[:-1]),
    ("float, not in", FLOAT, FLOATS, among(0.0, 10.0, negated=True), [-10.0, 0.0, FLOATS[3]]),
    ("float, above NaN may be another NaN", FLOAT, FLOATS, compare(">", float("nan")), [FLOATS[3]]),
    ("float, not NaN may be another NaN", FLOAT, FLOATS, compare("!=", float("nan")), FLOATS[:-1]),
    ("half float", pa.float16(), [1.5, float("nan"), None], compare("<", 2.0), [1.5, float("nan")]),
    ("binary", pa.binary(), [b"", b"a", b"\xff", None], compare(">", b"a"), [b"\xff"]),
    ("fixed binary", pa.binary(2), [b"aa", b"ab", None], compare("=", pa.scalar(b"ab", pa.binary(2))), [b"ab"]),
]  # fmt: skip

YEAR = [
    ("equal", TIME, YEARS, compare("=", at("2025-12-10T10:00:00")), [2025]),
    ("in", TIME, YEARS, among(at("2025-12-10T10:00:00").as_py(), at("1969-12-31T23:59:59").as_py(), kind=TIME), [1969, 2025]),
    ("a day", TIME, YEARS, RANGE, [2025]),
    ("before a new year", TIME, YEARS, compare("<", at("2025-01-01T00:00:00")), [1969, 1970, 2024]),
    ("until a new year", TIME, YEARS, compare("<=", at("2025-01-01T00:00:00")), [1969, 1970, 2024, 2025]),
    ("from the last instant", TIME, YEARS, compare(">=", at("2024-12-31T23:59:59.999999")), [2024, 2025, 2026]),
    ("after the last instant", TIME, YEARS, compare(">", at("2024-12-31T23:59:59.999999")), [2025, 2026]),
    ("date_part", TIME, YEARS, among(1969, 2026, term=part("year")), [1969, 2026]),
    ("date_part above", TIME, YEARS, compare(">", 2024, part("year")), [2025, 2026]),
    ("not date_part", TIME, YEARS, compare("!=", 2025, part("year")), [1969, 1970, 2024, 2026]),
    ("the month of some year", TIME, YEARS, compare("=", 12, part("month")), YEARS[:-1]),
    ("not equal says only not null", TIME, YEARS, compare("!=", at("2025-12-10T10:00:00")), YEARS[:-1]),
    ("is null", TIME, YEARS, null(), [None]),
    ("is not null", TIME, YEARS, null(negated=True), YEARS[:-1]),
    ("of a date", DATE, YEARS, compare("<", day("1970-01-01")), [1969]),
    ("of a date between", DATE, YEARS, And((compare(">", day("2024-12-30")), compare("<", day("2025-01-01")))), [2024]),
    ("beyond every year", TIME, YEARS, compare(">", at("9999-12-31T23:59:59")), []),
]  # fmt: skip

MONTHS, DAYS, HOURS = [*range(1, 13), None], [*range(1, 32), None], [*range(24), None]
TIMES = [
    ("month of a day", Month(), MONTHS, RANGE, [12]),
    ("month across a year", Month(), MONTHS, And((compare(">=", at("2025-11-30T00:00:00")), compare("<", at("2026-01-01T00:00:00.000001")))), [1, 11, 12]),
    ("month of an open range", Month(), MONTHS, compare(">=", at("2025-11-30T00:00:00")), [*range(1, 13)]),
    ("month by date_part", Month(), MONTHS, among(2, 3, term=part("month")), [2, 3]),
    ("month by quarter", Month(), MONTHS, compare(">=", 4, part("quarter")), [10, 11, 12]),
    ("month with a 31st, short of July", Month(), MONTHS, And((compare("=", 31, part("day")), compare("<", 7, part("month")))), [1, 3, 5]),
    ("day of a day", Day(), DAYS, RANGE, [10]),
    ("day around a leap day", Day(), DAYS, And((compare(">", at("2024-02-28T23:59:59.999999")), compare("<", at("2024-03-02T00:00:00")))), [1, 29]),
    ("day around no leap day", Day(), DAYS, And((compare(">", at("2025-02-27T23:59:59.999999")), compare("<", at("2025-03-02T00:00:00")))), [1, 28]),
    ("day in February", Day(), DAYS, compare("=", 2, part("month")), [*range(1, 30)]),
    ("day in a February without leap day", Day(), DAYS, And((compare("=", 2, part("month")), compare("=", 2025, part("year")))), [*range(1, 29)]),
    ("day, equal", Day(), DAYS, compare("=", at("1969-12-31T23:00:00")), [31]),
    ("hour of a range", Hour(), HOURS, RANGE, [*range(10, 24)]),
    ("hour across midnight", Hour(), HOURS, And((compare(">=", at("2025-12-10T23:30:00")), compare("<", at("2025-12-11T01:00:00")))), [0, 23]),
    ("hour of more than a day", Hour(), HOURS, And((compare(">=", at("2025-12-10T23:30:00")), compare("<", at("2025-12-12T01:00:00")))), [*range(24)]),
    ("hour by date_part", Hour(), HOURS, compare("=", 0, part("hour")), [0]),
    ("hour before 1970", Hour(), HOURS, And((compare(">=", at("1969-12-31T22:15:00")), compare("<", at("1970-01-01T00:00:00")))), [22, 23]),
    ("hour is null", Hour(), HOURS, null(), [None]),
]  # fmt: skip

TRUNCATE = [
    ("number, equal", INT, 10, NUMBERS, compare("=", 17), [10]),
    ("number, equal below zero", INT, 10, NUMBERS, compare("=", -7), [0]),
    ("number, in", INT, 10, NUMBERS, among(-19, 9, 29), [-10, 0, 20]),
    ("number, above 125 of the first draft", INT, 10, [110, 120, 130, None], compare(">", 125), [120, 130]),
    ("number, above the last of a group", INT, 10, [110, 120, 130, None], compare(">", 129), [130]),
    ("number, below the first of a group", INT, 10, NUMBERS, compare("<", 10), [-20, -10, 0]),
    ("number, up to the first of a group", INT, 10, NUMBERS, compare("<=", 10), [-20, -10, 0, 10]),
    ("number, below zero", INT, 10, NUMBERS, compare("<", 0), [-20, -10, 0]),
    ("number, at most the first of a negative group", INT, 10, NUMBERS, compare("<=", -10), [-20, -10]),
    ("number, below a negative group", INT, 10, NUMBERS, compare("<", -19), [-20]),
    ("number, is null", INT, 10, NUMBERS, null(), [None]),
    ("number, not equal says only not null", INT, 10, NUMBERS, compare("!=", 10), NUMBERS[:-1]),
    ("number by one, not equal", INT, 1, NUMBERS, compare("!=", 10), [-20, -10, 0, 20]),
    ("decimal, below", MONEY, 10, DECIMALS, compare("<", Decimal("10.00"), kind=MONEY), DECIMALS[:2]),
    ("decimal, at most", MONEY, 10, DECIMALS, compare("<=", Decimal("-10.00"), kind=MONEY), DECIMALS[:1]),
    ("float, below, NaN is there with the infinities", FLOAT, 10, FLOATS, compare("<", 10.0), [-10.0, 0.0, FLOATS[3]]),
    ("float, between", FLOAT, 10, FLOATS, And((compare(">=", 1.0), compare("<", 10.0))), [0.0]),
    ("float, infinite", FLOAT, 10, FLOATS, compare("=", float("inf")), [FLOATS[3]]),
    ("float, from minus infinity", FLOAT, 10, FLOATS, And((compare(">=", float("-inf")), compare("<", 5.0))), [-10.0, 0.0, FLOATS[3]]),
    ("text, equal", TEXT, 2, PREFIXES, compare("=", "abc"), ["ab"]),
    ("text, equal to a short one", TEXT, 2, PREFIXES, compare("=", "a"), ["a"]),
    ("text, like longer than the width", TEXT, 2, PREFIXES, StartsWith(X, "abc"), ["ab"]),
    ("text, like shorter than the width", TEXT, 2, PREFIXES, StartsWith(X, "a"), ["a", "ab", "ac"]),
    ("text, like anything", TEXT, 2, PREFIXES, StartsWith(X, ""), PREFIXES[:-1]),
    ("text, below", TEXT, 2, PREFIXES, compare("<", "ab"), ["", "a"]),
    ("text, at most", TEXT, 2, PREFIXES, compare("<=", "ab"), ["", "a", "ab"]),
    ("text, above a whole short one", TEXT, 2, PREFIXES, compare(">", "a"), ["ab", "ac", "b", "zz"]),
    ("text, above a prefix", TEXT, 2, PREFIXES, compare(">", "ab"), ["ab", "ac", "b", "zz"]),
    ("text, not equal to a short one", TEXT, 2, PREFIXES, compare("!=", "a"), ["", "ab", "ac", "b", "zz"]),
    ("text, by code points beyond the BMP", TEXT, 1, ["\uffff", "\U00010000"], compare(">", "\uffff~"), ["\uffff", "\U00010000"]),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """One field over one column, its partition values, and those that a predicate should leave."""

    column: pa.DataType
    rule: Any
    result: pa.DataType
    values: list[Any]

    def check(self, predicate: Predicate, expected: list[Any]) -> None:
        found = pruned(partitions([self.rule], [self.result], self.values), one_column(self.column), predicate)
        assert [repr(self.values[row]) for row in found.kept] == [repr(value) for value in expected]


@pytest.mark.parametrize(
    ("kind", "values", "predicate", "expected"), [pytest.param(*row[1:], id=row[0]) for row in IDENTITY]
)
def test_identity(kind: pa.DataType, values: list[Any], predicate: Predicate, expected: list[Any]) -> None:
    Kept(kind, Identity(), kind, values).check(predicate, expected)


@pytest.mark.parametrize(
    ("kind", "values", "predicate", "expected"), [pytest.param(*row[1:], id=row[0]) for row in YEAR]
)
def test_year(kind: pa.DataType, values: list[Any], predicate: Predicate, expected: list[Any]) -> None:
    Kept(kind, Year(), pa.int32(), values).check(predicate, expected)


@pytest.mark.parametrize(
    ("rule", "values", "predicate", "expected"), [pytest.param(*row[1:], id=row[0]) for row in TIMES]
)
def test_month_day_hour(rule: Any, values: list[Any], predicate: Predicate, expected: list[Any]) -> None:
    Kept(TIME, rule, pa.int32(), values).check(predicate, expected)


@pytest.mark.parametrize(
    ("kind", "width", "values", "predicate", "expected"), [pytest.param(*row[1:], id=row[0]) for row in TRUNCATE]
)
def test_truncate(kind: pa.DataType, width: int, values: list[Any], predicate: Predicate, expected: list[Any]) -> None:
    Kept(kind, Truncate(width), kind, values).check(predicate, expected)


# murmur3(34) = 2017239379 and murmur3("iceberg") = 1210000089, from the appendix that decision 7 follows.
BUCKETS = [*range(16), None]
BUCKET = [
    ("equal", INT, compare("=", 34), [2017239379 % 16]),
    ("equal, narrower column", pa.int16(), compare("=", 34), [2017239379 % 16]),
    ("equal to a fraction", INT, compare("=", 34.5), []),
    ("equal to a whole float", INT, compare("=", 34.0), [2017239379 % 16]),
    ("text", TEXT, compare("=", "iceberg"), [1210000089 % 16]),
    ("in, and a range that leaves one", INT, And((among(34, 35, 36), compare("<", 35))), [2017239379 % 16]),
    ("a range of one value", INT, And((compare(">", 33), compare("<", 35))), [2017239379 % 16]),
    ("two alternatives", INT, Or((compare("=", 34), null())), [2017239379 % 16, None]),
    ("is null", INT, null(), [None]),
    ("a wide range says only not null", INT, compare(">", 34), BUCKETS[:-1]),
    ("not equal says only not null", INT, compare("!=", 34), BUCKETS[:-1]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "predicate", "expected"), [pytest.param(*row[1:], id=row[0]) for row in BUCKET])
def test_bucket(kind: pa.DataType, predicate: Predicate, expected: list[Any]) -> None:
    Kept(kind, Bucket(16), pa.int32(), BUCKETS).check(predicate, expected)
