"""Random queries that PostgreSQL, DuckDB and this service answer alike, each made of a number.

In the manner of SQLancer (https://github.com/sqlancer/sqlancer): typed expressions over the columns of a few tables, with
NULLs everywhere. What the dialects write in different ways is left out: `/` of integers, functions with other names.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.differential.tables import TABLES

NUMBER, TEXT, DAY, MOMENT, TRUTH = "number", "text", "day", "moment", "truth"
KINDS = {NUMBER: ["i", "j", "f", "m", "k", "h", "r", "w"], TEXT: ["s"], DAY: ["d"], MOMENT: ["ts"], TRUTH: ["b"]}
LITERALS = {
    NUMBER: ["0", "1", "2", "-1", "3", "1.5", "100", "CAST(NULL AS BIGINT)"],
    TEXT: ["''", "'a'", "'ab'", "'b%'", "'B'", "CAST(NULL AS VARCHAR)"],
    DAY: ["DATE '2024-02-29'", "DATE '2024-03-01'", "DATE '1969-12-31'", "CAST(NULL AS DATE)"],
    MOMENT: ["TIMESTAMP '2024-02-29 12:00:00'", "TIMESTAMP '1970-01-01 00:00:00'", "CAST(NULL AS TIMESTAMP)"],
    TRUTH: ["true", "false", "CAST(NULL AS BOOLEAN)"],
}
OF_TYPE = {
    "i": "CAST(2 AS BIGINT)",
    "j": "CAST(3 AS INT)",
    "f": "CAST(1.5 AS DOUBLE)",
    "m": "CAST(2 AS DECIMAL(9, 2))",
    "h": "CAST(5 AS SMALLINT)",
    "r": "CAST(0.5 AS REAL)",
    "w": "CAST(2.5 AS DECIMAL(30, 4))",
    "s": "'a'",
    "d": "DATE '2024-02-29'",
    "ts": "TIMESTAMP '2024-02-29 12:00:00'",
    "b": "true",
}
WHERE_ALONE = ["i > 1", "s = 'a' OR f < m", "b", "d IS NOT NULL AND j <= m", "i IN (0, 2, f)", "ts > '2024-01-01'"]
"""Conditions of one table, without brackets."""
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]


@dataclass(frozen=True, slots=True)
class Relation:
    """Relation that expressions see: its alias, and its columns by their kind; `key` is unique in it."""

    alias: str
    columns: dict[str, list[str]]
    key: str | None = "k"


class Statements:
    """Random statements of one seed; most joins, groups and windows are by one of the `keys`."""

    def __init__(self, seed: int | str, keys: Sequence[str] = ()) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - statements, no secret
        self._key = self.chance.choice(keys) if keys else None
        self._levels: list[list[Relation]] = []
        self._aliases = 0
        self._subqueries = 2

    # --- queries

    def query(self) -> str:
        """Return a query, whose rows have no order, or are in a total one where it has a LIMIT."""
        return self._pick(
            *[self._select] * 6,
            *[self._grouped] * 4,
            *[self._ordered] * 2,
            self._set_operation,
            self._with,
            self._windowed,
            self._rolled_up,
            self._joined_groups,
            self._with_twice,
            self._qualified,
            self._using,
            self._distinct_on,
            self._three_sets,
            self._top_of_each,
        )

    def partitioned_by_condition(self) -> tuple[str, list[str]]:
        """Return a query, and three that have its rows together: where a condition is true, false and NULL."""
        with self._source() as (source, _):
            columns = self._columns(2)
            condition = self.condition(3)
            whole = f"SELECT {columns} FROM {source}"
            parts = [condition, f"NOT ({condition})", f"({condition}) IS NULL"]
            return whole, [f"{whole} WHERE {part}" for part in parts]

    def counted_twice(self) -> tuple[str, str]:
        """Return a query that counts the rows of a condition by a filter, and one that computes it for each row."""
        self._subqueries = 0
        with self._source() as (source, _):
            condition = self.condition(3)
            return (
                f"SELECT count(*) FROM {source} WHERE {condition}",
                f"SELECT coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) FROM {source}",
            )

    def _select(self) -> str:
        with self._source() as (source, _):
            where = f" WHERE {self._where(3)}" if self._happens(0.8) else ""
            distinct = "DISTINCT " if self._happens(0.2) else ""
            return f"SELECT {distinct}{self._columns(self.chance.randint(1, 3))} FROM {source}{where}"

    def _grouped(self) -> str:
        with self._source() as (source, _):
            where = f" WHERE {self._where(2)}" if self._happens(0.5) else ""
            keys = [self._grouping() for _ in range(self.chance.randint(0, 2))]
            keys = [key for key in dict.fromkeys(keys) if "." in key]
            values = [*keys, *(self._aggregate() for _ in range(self.chance.randint(1, 2)))]
            having = ""
            if self._happens(0.3):
                having = f" HAVING {self._aggregate()} {self.chance.choice(COMPARISONS)} {self._number_literal()}"
            grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
            return f"SELECT {_named(values)} FROM {source}{where}{grouped}{having}"

    def _ordered(self) -> str:
        with self._source() as (source, relations):
            # Zeros of both signs are in an order.
            kind = self.chance.choice(list(KINDS))
            first = f"coalesce({self._whole() if kind == NUMBER else self.value(kind, 1)}, NULL) {self._pick('ASC', 'DESC')} {self._nulls()}"
            keys = ", ".join([first, *(f"{each.alias}.{each.key} NULLS FIRST" for each in relations)])
            where = f" WHERE {self._where(2)}" if self._happens(0.5) else ""
            offset = f" OFFSET {self.chance.randint(0, 3)}" if self._happens(0.3) else ""
            columns = self._columns(2)
            return f"SELECT {columns} FROM {source}{where} ORDER BY {keys} LIMIT {self.chance.randint(0, 6)}{offset}"

    def _windowed(self) -> str:
        with self._source() as (source, relations):
            keys = ", ".join(f"{each.alias}.{each.key} NULLS FIRST" for each in relations)
            partition = f"PARTITION BY {self._grouping()}"
            value = self._column(NUMBER)
            window = self._pick(
                f"row_number() OVER ({partition} ORDER BY {keys})",
                f"lag({value}) OVER ({partition} ORDER BY {keys})",
                f"sum({value}) OVER ({partition})",
                f"count({value}) OVER ({partition} ORDER BY {keys} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
                f"rank() OVER (ORDER BY {value} {self._nulls()})",
                f"max({value}) OVER ({partition} ORDER BY {keys})",
            )
            return f"SELECT {_named([keys.split()[0], window])} FROM {source}"

    def _set_operation(self) -> str:
        kinds = [self.chance.choice(list(KINDS)) for _ in range(self.chance.randint(1, 2))]
        operator = self._pick("UNION ALL", "UNION", "EXCEPT", "INTERSECT")
        return f"{self._of_kinds(kinds)} {operator} {self._of_kinds(kinds)}"

    def _with(self) -> str:
        kinds = [NUMBER, self.chance.choice(list(KINDS))]
        name = self._alias()
        inner = self._of_kinds(kinds)
        relation = Relation(
            name, {NUMBER: ["c0"], kinds[1]: ["c1"]} if kinds[1] != NUMBER else {NUMBER: ["c0", "c1"]}, None
        )
        with self._level([relation]):
            return f"WITH {name} AS ({inner}) SELECT {self._columns(2)} FROM {name} WHERE {self.condition(2)}"

    def _rolled_up(self) -> str:
        with self._source() as (source, relations):
            alias = relations[0].alias
            keys = self.chance.sample([f"{alias}.s", f"{alias}.b", f"{alias}.d", f"{alias}.j"], 2)
            sets = self._pick(
                f"ROLLUP ({', '.join(keys)})",
                f"CUBE ({', '.join(keys)})",
                f"GROUPING SETS (({keys[0]}), ({keys[1]}), ())",
            )
            having = (
                f" HAVING count(*) {self.chance.choice(COMPARISONS)} {self._number_literal()}"
                if self._happens(0.3)
                else ""
            )
            told = self._pick(*keys, f"grouping({keys[0]})", f"grouping({keys[0]}, {keys[1]})")
            values = [*keys, told, self._aggregate()]
            return f"SELECT {_named(values)} FROM {source} WHERE {self._where(2)} GROUP BY {sets}{having}"

    def _joined_groups(self) -> str:
        """Groups of two tables beside each other, as in reports."""
        kind = self.chance.choice([NUMBER, TEXT, DAY])
        sides = []
        for _ in range(2):
            relation = self._relation()
            table = self._table()
            with self._level([relation]):
                key = self._grouping() if self._key else f"{relation.alias}.{self.chance.choice(KINDS[kind][:2])}"
                where = f" WHERE {self._where(2)}" if self._happens(0.5) else ""
                sides.append(
                    f"(SELECT {key} AS g, {self._aggregate()} AS n FROM {table} AS {relation.alias}{where} GROUP BY {key})"
                )
        join = self.chance.choice(JOINS)
        on = "" if join == "CROSS JOIN" else " ON x.g = y.g"
        where = self._pick("", " WHERE x.n > y.n", " WHERE y.g IS NULL", " WHERE coalesce(x.n, 0) >= 1 OR y.n = 1")
        return (
            f"SELECT x.g AS c0, x.n AS c1, y.g AS c2, y.n AS c3 FROM {sides[0]} AS x {join} {sides[1]} AS y{on}{where}"
        )

    def _with_twice(self) -> str:
        """A query of WITH that is read twice, with conditions on both."""
        kinds = [NUMBER, TEXT]
        name = self._alias()
        inner = self._of_kinds(kinds) + (f" UNION ALL {self._of_kinds(kinds)}" if self._happens(0.5) else "")
        columns = {NUMBER: ["c0"], TEXT: ["c1"]}
        relations = [Relation(self._alias(), columns, None) for _ in range(2)]
        join, key = self.chance.choice(JOINS[:4]), self._pick("c0", "c1")
        with self._level(relations):
            one, other = (each.alias for each in relations)
            return (
                f"WITH {name} AS ({inner}) SELECT {self._columns(2)} FROM {name} AS {one} {join} {name} AS {other}"
                f" ON {one}.{key} = {other}.{key} WHERE {self._where(2)}"
            )

    def _qualified(self) -> str:
        with self._source() as (source, relations):
            keys = ", ".join(f"{each.alias}.{each.key} NULLS FIRST" for each in relations)
            partition = self.value(self.chance.choice(list(KINDS)), 1)
            return (
                f"SELECT {self._columns(2)} FROM {source} WHERE {self._where(2)}"
                f" QUALIFY row_number() OVER (PARTITION BY {partition} ORDER BY {keys}) <= {self._pick('1', '2')}"
            )

    def _using(self) -> str:
        one, other = self._relation(), self._relation()
        key = self._key or self.chance.choice(["i", "j", "s", "d", "k"])
        with self._level([one, other]):
            return (
                f"SELECT {key} AS c0, {self._columns(1).replace(' AS c0', ' AS c1')} FROM {self._table()} AS {one.alias}"
                f" {self._pick('JOIN', 'LEFT JOIN')} {self._table()} AS {other.alias} USING ({key}) WHERE {self._where(2)}"
            )

    def _distinct_on(self) -> str:
        relation = self._relation()
        with self._level([relation]):
            key = self._column(self.chance.choice([TEXT, DAY, TRUTH]))
            return (
                f"SELECT DISTINCT ON ({key}) {key} AS c0, {relation.alias}.k AS c1 FROM {self._table()} AS {relation.alias}"
                f" WHERE {self._where(2)} ORDER BY {key} NULLS FIRST, {relation.alias}.k DESC"
            )

    def _three_sets(self) -> str:
        kinds = [self.chance.choice(list(KINDS))]
        operators = [self._pick("UNION ALL", "UNION", "EXCEPT", "INTERSECT") for _ in range(2)]
        one, two, three = (self._of_kinds(kinds) for _ in range(3))
        return self._pick(
            f"{one} {operators[0]} {two} {operators[1]} {three}",
            f"({one}) {operators[0]} (({two}) {operators[1]} ({three}))",
            f"SELECT c0, count(*) AS c1 FROM ({one} {operators[0]} {two}) AS q GROUP BY c0",
        )

    def _top_of_each(self) -> str:
        """A value of another table in each row, and the rows of a query with a LIMIT."""
        one, other = self._relation(), self._relation()
        key = self._key or self.chance.choice(["i", "j", "s", "d"])
        with self._level([other]):
            value = self._pick(
                f"max({other.alias}.m)",
                f"count({other.alias}.f)",
                "count(*)",
                f"min({other.alias}.ts)",
                f"sum({other.alias}.j)",
            )
            where = f"{other.alias}.{key} = {one.alias}.{key}" + (
                f" AND {self._plain_condition()}" if self._happens(0.4) else ""
            )
            subquery = f"(SELECT {value} FROM {self._table()} AS {other.alias} WHERE {where})"
        inner = f"(SELECT * FROM {self.chance.choice(list(TABLES))} ORDER BY k {self._pick('', 'DESC')} LIMIT {self._pick('1', '3', '9')})"
        with self._level([one]):
            return f"SELECT {one.alias}.k AS c0, {subquery} AS c1 FROM {inner} AS {one.alias} WHERE {self._where(2)}"

    def _of_kinds(self, kinds: Sequence[str]) -> str:
        with self._source() as (source, _):
            values = [self.value(kind, 2) for kind in kinds]
            return f"SELECT {_named(values)} FROM {source} WHERE {self._where(2)}"

    def _columns(self, count: int) -> str:
        before, self._subqueries = self._subqueries, 0
        values = [self.value(self.chance.choice(list(KINDS)), 2) for _ in range(count)]
        self._subqueries = before
        return _named(values)

    @contextmanager
    def _source(self) -> Iterator[tuple[str, list[Relation]]]:
        """Write FROM, and show its relations to what is written inside the block."""
        relations = [self._relation()]
        text = f"{self._table()} AS {relations[0].alias}"
        while len(relations) < 3 and self._happens(0.35):
            other = self._relation()
            join = self.chance.choice(JOINS if self._key is None else JOINS[:4])
            text += f" {join} {self._table()} AS {other.alias}"
            if join != "CROSS JOIN":
                text += f" ON {self._join_condition(relations[-1], other, is_outer=join != 'JOIN')}"
            relations.append(other)
        with self._level(relations):
            yield text, relations

    def _join_condition(self, left: Relation, right: Relation, *, is_outer: bool) -> str:
        kind = self.chance.choice([NUMBER, NUMBER, TEXT, DAY])
        columns = self.chance.choice(KINDS[kind]), self.chance.choice(KINDS[kind])
        if self._key is not None and self._happens(0.9):
            columns = self._key, self._key
        equality = f"{left.alias}.{columns[0]} = {right.alias}.{columns[1]}"
        if self._happens(0.7):
            return equality
        before, self._subqueries = self._subqueries, 0
        with self._level([left, right] if not is_outer else [right]):
            condition = self.condition(1)
        self._subqueries = before
        return f"{equality} AND {condition}"

    # --- conditions

    def _where(self, depth: int) -> str:
        """Return a condition as a person writes it: comparisons without brackets around them, or what `condition` writes."""
        if self._happens(0.5):
            return self.condition(depth)
        return f" {self._pick('AND', 'AND', 'OR')} ".join(
            self._comparison(1).removeprefix("(").removesuffix(")") for _ in range(self.chance.randint(1, depth))
        )

    def condition(self, depth: int) -> str:
        """Return a condition on the relations that are seen."""
        if depth <= 0:
            return self._comparison(0)
        inner = [
            lambda: f"({self.condition(depth - 1)} AND {self.condition(depth - 1)})",
            lambda: f"({self.condition(depth - 1)} OR {self.condition(depth - 1)})",
            lambda: f"NOT ({self.condition(depth - 1)})",
            lambda: f"({self.condition(depth - 1)}) IS {self._pick('', 'NOT ')}{self._pick('TRUE', 'FALSE', 'NULL')}",
        ]
        return self._pick(*inner, *[lambda: self._comparison(depth - 1)] * 4, *[self._membership] * 2)

    def _comparison(self, depth: int) -> str:
        kind = self.chance.choice(list(KINDS))
        value = self.value(kind, depth)
        negated = self._pick("", "NOT ")
        others = [
            lambda: f"{value} {self.chance.choice(COMPARISONS)} {self.value(kind, depth)}",
            lambda: f"{value} {self.chance.choice(COMPARISONS)} {self.value(kind, depth)}",
            lambda: f"{value} IS {negated}NULL",
            lambda: f"{value} IS {negated}DISTINCT FROM {self.value(kind, 0)}",
            lambda: f"{value} {negated}IN ({', '.join(self.value(kind, 0) for _ in range(self.chance.randint(1, 4)))})",
        ]
        if kind != TRUTH:
            others.append(lambda: f"{value} {negated}BETWEEN {self.value(kind, 0)} AND {self.value(kind, 0)}")
        if kind == TEXT:
            pattern = self._pick("a%", "%b", "_", "%", "a_", "")
            others.append(lambda: f"{value} {negated}{self._pick('LIKE', 'ILIKE')} '{pattern}'")
        return f"({self._pick(*others)})"

    def _membership(self) -> str:
        """Return a comparison with a subquery, which may name columns of the query around it."""
        if self._subqueries <= 0:
            return self._comparison(1)
        self._subqueries -= 1
        kind = self.chance.choice([NUMBER, NUMBER, TEXT, DAY])
        value = self.value(kind, 1)
        relation = self._relation()
        outer = self._levels[-1]
        with self._level([relation]):
            where = self.condition(1)
            if self._happens(0.5):
                pair = self.chance.choice(list(KINDS))
                seen = [f"{each.alias}.{column}" for each in outer for column in each.columns.get(pair, [])]
                if seen:
                    own = self.chance.choice(relation.columns[pair])
                    where = f"{relation.alias}.{own} = {self.chance.choice(seen)} AND {where}"
            selected = self.value(kind, 1)
            aggregate = self._pick("count(*)", f"max({selected})", f"min({selected})")
        source = f"FROM {self._table()} AS {relation.alias} WHERE {where}"
        negated = self._pick("", "NOT ")
        return self._pick(
            f"({value} {negated}IN (SELECT {selected} {source}))",
            f"({value} {negated}IN (SELECT {selected} {source}))",
            f"({negated}EXISTS (SELECT 1 {source}))",
            f"({value} {self.chance.choice(COMPARISONS)} {self._pick('ANY', 'ALL')} (SELECT {selected} {source}))",
            f"({value} {self.chance.choice(COMPARISONS)} (SELECT {aggregate if kind == NUMBER else f'max({selected})'} {source}))",
        )

    # --- values

    def value(self, kind: str, depth: int) -> str:
        """Return an expression of a kind."""
        if depth <= 0 or self._happens(0.3):
            return self._column(kind)
        if kind == TRUTH:
            return self.condition(depth - 1)
        shared = [
            lambda: (
                f"CASE WHEN {self.condition(depth - 1)} THEN {self.value(kind, depth - 1)}"
                + (f" ELSE {self.value(kind, 0)} END" if self._happens(0.7) else " END")
            ),
            lambda: f"coalesce({self.value(kind, depth - 1)}, {self.value(kind, 0)})",
            lambda: f"nullif({self._column(kind)}, {self.value(kind, 0)})",
        ]
        own = {NUMBER: self._number, TEXT: self._text, DAY: self._day, MOMENT: self._moment}[kind](depth - 1)
        return self._pick(*shared, *own, *own)

    def _number(self, depth: int) -> list[Callable[[], str]]:
        return [
            lambda: f"({self.value(NUMBER, depth)} {self._pick('+', '-', '*')} {self.value(NUMBER, 0)})",
            lambda: f"({self.value(NUMBER, depth)} {self._pick('+', '-')} {self.value(NUMBER, 0)})",
            lambda: f"abs({self.value(NUMBER, depth)})",
            lambda: f"(- {self._whole()})",
            lambda: f"({self._whole()} % {self._pick('2', '3', '-5')})",
            lambda: f"length({self.value(TEXT, depth)})",
            lambda: f"extract({self._pick('year', 'month', 'day')} FROM {self._column(self._pick(DAY, MOMENT))})",
            lambda: f"CAST({self._whole()} AS {self._pick('INT', 'DOUBLE', 'DECIMAL(12, 2)')})",
            lambda: f"{self._pick('greatest', 'least')}({self._whole()}, {self._whole()}, 2)",
        ]

    def _text(self, depth: int) -> list[Callable[[], str]]:
        return [
            lambda: f"({self.value(TEXT, depth)} || {self.value(TEXT, 0)})",
            lambda: f"{self._pick('upper', 'lower', 'reverse', 'trim')}({self.value(TEXT, depth)})",
            lambda: f"substr({self.value(TEXT, depth)}, {self._pick('1', '2')}, {self._pick('0', '1', '5')})",
            lambda: f"replace({self.value(TEXT, depth)}, 'a', 'xy')",
            lambda: f"left({self.value(TEXT, depth)}, 1)",
            lambda: f"concat({self.value(TEXT, 0)}, {self.value(TEXT, 0)})",
            lambda: f"CAST({self._whole()} AS VARCHAR)",
        ]

    def _day(self, depth: int) -> list[Callable[[], str]]:
        return [
            lambda: (
                f"({self.value(DAY, depth)} {self._pick('+', '-')} INTERVAL '{self._pick('1 day', '1 month', '40 days')}')"
            ),
            lambda: f"CAST({self.value(MOMENT, 0)} AS DATE)",
        ]

    def _moment(self, depth: int) -> list[Callable[[], str]]:
        interval = self._pick("90 minutes", "1 day", "2 months", "1 second")
        return [
            lambda: f"({self.value(MOMENT, depth)} {self._pick('+', '-')} INTERVAL '{interval}')",
            lambda: f"date_trunc('{self._pick('year', 'month', 'day', 'hour')}', {self.value(MOMENT, depth)})",
            lambda: f"CAST({self.value(DAY, 0)} AS TIMESTAMP)",
        ]

    def _aggregate(self) -> str:
        distinct = self._pick("", "", "DISTINCT ")
        filtered = f" FILTER (WHERE {self._plain_condition()})" if self._happens(0.2) else ""
        kind = self.chance.choice([NUMBER, TEXT, DAY, MOMENT])
        return (
            self._pick(
                f"count(*){filtered}",
                f"count({distinct}{self.value(kind, 1)}){filtered}",
                f"sum({distinct}{self._whole()}){filtered}",
                f"avg({self._whole()}){filtered}",
            )
            if self._happens(0.6)
            else f"CAST({self._pick('min', 'max')}({self._whole()}){filtered} AS DOUBLE)"
        )

    def _plain_condition(self) -> str:
        before, self._subqueries = self._subqueries, 0
        found = self.condition(1)
        self._subqueries = before
        return found

    def _column(self, kind: str) -> str:
        """Return a column of a kind, mostly of the innermost query, or a literal."""
        levels = self._levels[-1:] if len(self._levels) == 1 or self._happens(0.8) else self._levels[-2:-1]
        seen = [f"{each.alias}.{column}" for level in levels for each in level for column in each.columns.get(kind, [])]
        return self.chance.choice(seen if seen and self._happens(0.75) else LITERALS[kind])

    def _grouping(self) -> str:
        """Return what rows are grouped by."""
        if self._key is not None and self._happens(0.8):
            return f"{self.chance.choice(self._levels[-1]).alias}.{self._key}"
        return self.value(self.chance.choice(list(KINDS)), self.chance.randint(0, 2))

    def _whole(self) -> str:
        seen = [f"{each.alias}.{column}" for each in self._levels[-1] if each.key for column in "ijk"]
        return self.chance.choice(seen or ["1", "2"])

    def _number_literal(self) -> str:
        return self._pick("0", "1", "2", "5", "-1")

    def _nulls(self) -> str:
        return self._pick("NULLS FIRST", "NULLS LAST")

    # --- names and chances

    def _relation(self) -> Relation:
        return Relation(self._alias(), KINDS)

    def _table(self) -> str:
        """Return a table, or now and then a query of all of its columns with values in place of some of them."""
        table = self.chance.choices(list(TABLES), weights=[4, 4, 4, 2, 1] if self._key is None else [9, 9, 9, 2, 2])[0]
        if not self._happens(0.15):
            return table
        branches = [f"SELECT {self._replaced('k')} FROM {table}"]
        if self._happens(0.6):
            other = self.chance.choice(list(TABLES))
            branches.append(f"SELECT {self._replaced('-1 - k AS k')} FROM {other} WHERE {self._pick(*WHERE_ALONE)}")
        return f"({' UNION ALL '.join(branches)})"

    def _replaced(self, key: str) -> str:
        """Return the columns of a table, each now and then a literal of its type."""
        return ", ".join(
            [key, *(f"{literal} AS {name}" if self._happens(0.2) else name for name, literal in OF_TYPE.items())]
        )

    def _alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    @contextmanager
    def _level(self, relations: list[Relation]) -> Iterator[None]:
        self._levels.append(relations)
        try:
            yield
        finally:
            self._levels.pop()

    def _pick(self, *choices: str | Callable[[], str]) -> str:
        chosen = self.chance.choice(choices)
        return chosen if isinstance(chosen, str) else chosen()

    def _happens(self, share: float) -> bool:
        return self.chance.random() < share


def _named(values: Sequence[str]) -> str:
    return ", ".join(f"{value} AS c{place}" for place, value in enumerate(values))
