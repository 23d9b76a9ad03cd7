"""Conditions on computed values, as DataFusion plans them, never lose a row that fulfils them; random ones, and those at edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st
from lance_flight.engine.plans.scalar_expressions import logical_scans, with_stored_expressions
from lance_flight.engine.translation.evaluation import evaluate, inner_context
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionSpec
from lance_flight.model.transforms import TRANSFORMS, Identity
from lance_flight.model.zones import named_zone
from lance_flight.planning.predicates import ALWAYS, NEVER, Predicate, all_of
from lance_flight.planning.pruning import prune

from tests.examples import examples
from tests.planning.planning_oracle import Recorder, Split, answer, field, split
from tests.planning.planning_strategies import KINDS, is_date, rows_of, schemas, specs_of

_UNITS = st.sampled_from(["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
_OPS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_NUMBERS = st.sampled_from([-(2**63), -129, -11, -1, 0, 1, 2, 3, 9, 10, 126, 127, 2**63 - 1])
_TEXTS = ("", "2024", "2024-02", "2024-02-29 10", "20240131", "1969-12-31", "9999", "x")
_BINS = ("1 day", "90 minutes", "7 days", "1 microsecond", "400 days", "3 months")
_ORIGINS = (
    "",
    ", TIMESTAMP '2024-01-03T05:00:00'",
    ", TIMESTAMP '1960-02-29T00:00:01'",
    ", TIMESTAMP '2000-02-01T00:00:00'",
)


@st.composite
def _of_integers(draw: st.DrawFn, name: str) -> str:
    number, other = draw(_NUMBERS), draw(_NUMBERS)
    terms = [f"{name} + {number}", f"{number} + {name}", f"{name} - {number}", f"{number} - {name}", f"-{name}"]
    terms += [f"{name} + {number} - 3", f"coalesce({name}, {number})", f"{name} % 3", f"coalesce({name}, 1) / 5"]
    terms += [f"CAST({name} AS DOUBLE)", f"CAST({name} AS VARCHAR)", f"{name} + arrow_cast(3, '{_arrow_name(name)}')"]
    wanted = draw(st.sampled_from([str(other), f"{other}.0", "2.5", "9007199254740993.0"]))
    return f"{draw(st.sampled_from(terms))} {draw(_OPS)} {wanted}"


def _arrow_name(name: str) -> str:
    return {"i": "Int64", "i8": "Int8", "u": "UInt64"}[name]


@st.composite
def _of_texts(draw: st.DrawFn, name: str) -> str:
    width = draw(st.integers(-1, 3))
    text = draw(st.sampled_from(["", "a", "A", "ab", "ab\x00", "abc", "é", "Z", "日本"]))
    terms = [f"left({name}, {width})", f"substr({name}, 1, {max(width, 0)})", f"lower({name})", f"upper({name})"]
    terms += [
        f"{name} || 'b'",
        f"coalesce({name}, 'ab')",
        f"upper(left({name}, 1))",
        f"btrim({name})",
        f"nullif({name}, 'a')",
    ]
    patterns = [
        f"LIKE '{text}%'",
        f"LIKE '%{text}'",
        f"NOT LIKE '{text}%b'",
        f"ILIKE '{text}_%'",
        "IS NULL",
        "IS NOT NULL",
    ]
    patterns += [f"{draw(_OPS)} '{text}'", f"IN ('{text}', 'b')", f"NOT IN ('{text}', 'ab')"]
    return f"{draw(st.sampled_from(terms))} {draw(st.sampled_from(patterns))}"


@st.composite
def _of_times(draw: st.DrawFn, name: str) -> str:
    unit, op, kind = draw(_UNITS), draw(_OPS), KINDS[name]
    value, other = (draw(st.sampled_from(kind.values)) for _ in range(2))
    day = draw(st.sampled_from([f"DATE '{day}'" for day in KINDS["d"].values]))
    moment, later = kind.sql(value), kind.sql(other)
    cut = f"date_trunc('{unit}', {name})"
    found = [
        f"{cut} {op} date_trunc('{unit}', {moment})",
        f"{cut} {op} {moment}",
        f"{cut} = date_trunc('{unit}', {moment})",
    ]
    found += [f"coalesce({name}, {moment}) {op} {later}", f"{name} + INTERVAL '36 hours' {op} {moment}"]
    found += [f"{name} - INTERVAL '2 days' {op} {moment}", f"{name} - INTERVAL '1 month' {op} {moment}"]
    found += [
        f"{name} + INTERVAL '{draw(st.sampled_from([1, 2, 11, 25]))} months' {op} {moment}",
        f"last_day({name}) {op} {day}",
    ]
    number, text = draw(st.sampled_from([-800, -1, 0, 1, 40])), draw(st.sampled_from(_TEXTS))
    pattern = draw(st.sampled_from(["%Y", "%Y-%m", "%F %H", "%Y%m%d", "%m-%d", "%d.%m.%Y"]))
    found += [
        f"epoch({name}) {op} {draw(st.sampled_from([-1.5, 0, 1_706_659_200, 1e18]))}",
        f"epoch_{draw(st.sampled_from(['ms', 'us']))}({name}) {op} {draw(st.sampled_from([-1, 0, 1_706_659_200_000]))}",
        f"date_diff('{unit}', {day}, {name}) {op} {number}",
        f"date_diff('{unit}', {name}, {day}) {op} {number}",
        f"to_char({name}, '{pattern}') {op} '{text}'",
        f"to_char({name}, '{pattern}') = to_char({moment}, '{pattern}')",
    ]
    found += [f"{name}::date {op} {day}", f"to_date({name}) = {day}", f"{name}::date IN ({day}, DATE '2025-01-31')"]
    found += [f"{name}::date BETWEEN DATE '2024-02-29' AND {day}", f"NOT {name}::date = {day}"]
    if name != "d":
        stride, origin = draw(st.sampled_from(_BINS)), draw(st.sampled_from(_ORIGINS)) if name in {"ts", "tss"} else ""
        binned = f"date_bin(INTERVAL '{stride}', {name}{origin})"
        found += [f"{binned} {op} {moment}", f"{binned} = date_bin(INTERVAL '{stride}', {moment}{origin})"]
    return draw(st.sampled_from(found))


@st.composite
def _of_floats(draw: st.DrawFn, name: str) -> str:
    terms = [f"CAST({name} AS VARCHAR)", f"CAST({name} + 0 AS VARCHAR)", f"CAST(coalesce({name}, 1.5) AS VARCHAR)"]
    return (
        f"{draw(st.sampled_from(terms))} {draw(_OPS)} '{draw(st.sampled_from(['-0.0', '0.0', 'NaN', '1.5', 'inf']))}'"
    )


def _conditions_of(name: str) -> st.SearchStrategy[str] | None:
    if name in {"i", "i8", "u"}:
        return _of_integers(name)
    if name in {"s", "ls"}:
        return _of_texts(name)
    if name in {"f", "f32"}:
        return _of_floats(name)
    return _of_times(name) if is_date(KINDS[name].type) else None


@st.composite
def conditions(draw: st.DrawFn, schema: NamespaceSchema) -> str:
    """A condition of a few computed leaves."""
    known = [found for name in sorted(schema.ids) if (found := _conditions_of(name)) is not None]
    assume(known)
    leaves = [draw(draw(st.sampled_from(known))) for _ in range(draw(st.integers(1, 3)))]
    shown = [f"NOT ({leaf})" if draw(st.integers(0, 3)) == 0 else f"({leaf})" for leaf in leaves]
    return draw(st.sampled_from([" AND ", " OR "])).join(shown)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[NamespaceSchema, pa.Table, Split, str]:
    schema = draw(schemas())
    rows, spec = draw(rows_of(schema)), draw(specs_of(schema))
    return schema, rows, split(spec, schema, rows), draw(conditions(schema))


@pytest.mark.slow  # a long property
@given(worlds())
@examples(100)
def test_every_row_that_fulfils_a_computed_condition_is_in_a_kept_partition(
    world: tuple[NamespaceSchema, pa.Table, Split, str],
) -> None:
    schema, rows, parts, condition = world
    note(f"{condition}\n{[(f.rule, f.source_ids) for f in parts.partitions.spec.fields]}\n{rows.to_pydict()}")
    try:
        wanted = answer(rows, condition)
    except Exception:  # noqa: BLE001 - a query that fails gives no rows at all
        assume(False)  # noqa: FBT003
    check(schema, rows, parts, condition, wanted)


def hint(schema: NamespaceSchema, specs: Sequence[PartitionSpec], condition: str) -> Predicate:
    """All that the optimised plan of a query says of the rows that it scans."""
    context = inner_context()
    context.register_table("t", Recorder(schema.plain))
    plan = context.sql(f"SELECT * FROM t WHERE {condition}").optimized_logical_plan()
    scans = logical_scans(plan, "public") or ()
    said = [all_of([scan.pushed, scan.beyond]) for scan in scans]
    return with_stored_expressions(said[0] if said else NEVER, schema, specs)


def check(schema: NamespaceSchema, rows: pa.Table, parts: Split, condition: str, wanted: set[int]) -> set[int]:
    """Compare pruning by a condition with the rows that fulfil it; return the partitions that are kept."""
    predicate = hint(schema, [parts.partitions.spec], condition)
    (found,) = prune([parts.partitions], schema, ALWAYS, evaluate, predicate).versions
    kept = set(found.kept.tolist())
    assert parts.kept(wanted) <= kept, f"{predicate}: lost {parts.kept(wanted) - kept}; used {found.used}"
    if found.residual is None:
        inside = {row for row in range(len(rows)) if parts.place[row] in kept}
        assert inside == wanted, f"{predicate}: not fulfilled by {inside - wanted}; used {found.used}"
    return kept


def _expressions() -> list[tuple[str, pa.DataType, str, str]]:
    return [
        ("s", pa.utf8(), "lower(col0)", "lower(s) = 'ab'"),
        ("s", pa.utf8(), "upper(left(col0, 1))", "upper(left(s, 1)) IN ('A', 'É')"),
        ("i", pa.int64(), "col0 % 7", "i % 7 = -3"),
        ("i", pa.int64(), "CASE WHEN col0 > 2 THEN 1 ELSE 0 END", "CASE WHEN i > 2 THEN 1 ELSE 0 END + 1 = 2"),
        ("i8", pa.int64(), "coalesce(col0, 1) / 5", "coalesce(i8, 1) / 5 >= 2"),
        ("d", pa.int32(), "date_part('week', col0)", "date_part('week', d) = 1"),
        ("f", pa.utf8(), "CAST(col0 AS VARCHAR)", "CAST(f AS VARCHAR) || 'x' = '-0.0x'"),
        ("ts", pa.date32(), "CAST(col0 AS DATE)", "ts::date = DATE '2024-02-29'"),
        (
            "ts",
            pa.timestamp("us"),
            "date_trunc('year', col0)",
            "date_trunc('year', ts) >= TIMESTAMP '2025-01-01T00:00:00'",
        ),
        (
            "ts",
            pa.timestamp("us"),
            "date_trunc('week', col0)",
            "NOT date_trunc('week', ts) = TIMESTAMP '2024-12-30T00:00:00'",
        ),
    ]


@pytest.mark.parametrize(
    ("name", "result", "stored", "condition"), [pytest.param(*each, id=each[2]) for each in _expressions()]
)
def test_a_stored_expression_keeps_just_the_partitions_of_its_rows(
    name: str, result: pa.DataType, stored: str, condition: str
) -> None:
    schema, rows = _all_values(name)
    parts = split(PartitionSpec(id=1, fields=(field("p", Expression(stored), 0, result=result),)), schema, rows)
    wanted = answer(rows, condition)
    assert check(schema, rows, parts, condition, wanted) == parts.kept(wanted)


def _all_values(name: str) -> tuple[NamespaceSchema, pa.Table]:
    schema = NamespaceSchema.assign(pa.schema({name: KINDS[name].type}))
    return schema, pa.table({name: KINDS[name].array([None, *KINDS[name].values])}, schema=schema.plain)


@pytest.mark.slow  # a query for each value
@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week", "day", "hour"])
@pytest.mark.parametrize("name", ["d", "ts", "tss", "tz", "ny", "apia", "fixed"])
def test_a_stretch_of_time_keeps_just_its_own_moments(name: str, unit: str) -> None:
    schema, rows = _all_values(name)
    parts = split(PartitionSpec(id=1, fields=(field("p", Identity(), 0, result=KINDS[name].type),)), schema, rows)
    for value in KINDS[name].values:
        condition = f"date_trunc('{unit}', {name}) = date_trunc('{unit}', {KINDS[name].sql(value)})"
        wanted = answer(rows, condition)
        assert wanted
        assert check(schema, rows, parts, condition, wanted) == parts.kept(wanted)


@pytest.mark.parametrize("transforms", [("year", "month"), ("year", "month", "day"), ("day",), ("month",)])
@pytest.mark.parametrize("name", ["ts", "tz", "apia", "fixed"])
def test_a_month_keeps_its_own_partitions_in_every_zone(name: str, transforms: tuple[str, ...]) -> None:
    schema, rows = _all_values(name)
    rules: list[Callable[[], object]] = [TRANSFORMS[each] for each in transforms]
    fields = tuple(field(f"p{i}", rule(), 0, result=pa.int32()) for i, rule in enumerate(rules))
    parts = split(PartitionSpec(id=1, fields=fields), schema, rows)
    condition = f"date_trunc('month', {name}) = date_trunc('month', {KINDS[name].sql(KINDS[name].values[-2])})"
    wanted = answer(rows, condition)
    kept = check(schema, rows, parts, condition, wanted)
    if transforms[0] == "year" and name in {"ts", "tz"}:
        assert kept == parts.kept(wanted)


@pytest.mark.parametrize("name", ["America/New_York", "Pacific/Apia", "Australia/Lord_Howe", "+05:45", "UTC"])
def test_instants_are_all_those_whose_local_time_lies_in_a_range(name: str) -> None:
    zone = named_zone(name)
    assert zone is not None
    seconds = np.arange(-2_000_000_000, 2_000_000_000, 1_799)
    local = zone.local(seconds)
    for low in (-86_400, 0, 1_325_203_200, 1_710_054_000, 1_730_613_600):
        first, last = zone.instants(low, low + 7_200)
        inside = seconds[(local >= low) & (local <= low + 7_200)]
        assert not len(inside) or first <= inside.min() <= inside.max() <= last
