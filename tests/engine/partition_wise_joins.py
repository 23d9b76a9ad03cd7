"""Kinds of random queries over joins."""

from __future__ import annotations

from tests.engine.partition_wise_databases import matched
from tests.engine.partition_wise_draws import Case, Compared, Draw, Read, aggregates, direction, ids, limit, ordering


def rows(draw: Draw) -> Case:
    """The rows of a join."""
    joined = draw.joined()
    last = joined.reads[-1]
    said = draw.rng.choice(
        [
            ", ".join(each.column(role) for each in joined.reads for role in ("id", "k")),
            f'{joined.keys[0]}, {last.column("v")} + 1 AS "More", upper({last.column("s")})',
            ", ".join(f'{each.column("v")} AS "v {n}"' for n, each in enumerate(joined.reads)),
            "1",
        ]
    )
    return Case(sql=f"SELECT {said} FROM {joined.text}", kind="rows", is_eligible=joined.is_eligible)


def ordered_rows(draw: Draw) -> Case:
    """The first rows of a join, in an order without ties."""
    joined = draw.joined()
    by = f"{joined.keys[0]} {direction(draw)}, {ids(joined)}"
    sql = f"SELECT {joined.keys[0]}, {ids(joined)} FROM {joined.text} ORDER BY {by}{limit(draw, joined.keys[0])}"
    return Case(sql=sql, kind="ordered rows", is_eligible=joined.is_eligible, compared=ordering(joined.keys[0]))


def counted(draw: Draw) -> Case:
    """Joins of which no column is wanted."""
    joined = draw.joined()
    return Case(sql=f"SELECT count(*) FROM {joined.text}", kind="counted", is_eligible=joined.is_eligible)


def some(draw: Draw) -> Case:
    """As many rows of a join as are wanted, whichever."""
    joined = draw.joined()
    sql = f"SELECT {joined.keys[0]} FROM {joined.text} LIMIT {draw.rng.choice((1, 5))}"
    return Case(sql=sql, kind="some rows", is_eligible=joined.is_eligible, compared=Compared.BY_COUNT)


def grouped(draw: Draw) -> Case:
    """An aggregate over a join: by its key, by another column, by both or by none."""
    joined = draw.joined()
    read = draw.rng.choice(joined.reads)
    by = draw.rng.choice(
        [[*joined.keys], [*joined.keys], [*joined.keys, read.column("v")], [read.column("v")], [f"upper({read.column('s')})"], []]
    )  # fmt: skip
    sql = f"SELECT {', '.join([*by, aggregates(draw, read)])} FROM {joined.text}"
    if by:
        sql += f" GROUP BY {', '.join(by)}"
    if draw.chance(0.2):
        sql += " HAVING count(*) > 1"
    return Case(sql=sql, kind="grouped", is_eligible=joined.is_eligible)


def window(draw: Draw) -> Case:
    """A window over a join."""
    joined = draw.joined()
    key = joined.keys[0]
    call = draw.rng.choice(
        ("row_number()", f"lag({joined.reads[0].column('id')})", f"max({joined.reads[-1].column('v')})")
    )
    sql = f"SELECT {ids(joined)}, {call} OVER (PARTITION BY {key} ORDER BY {ids(joined)}) FROM {joined.text}"
    return Case(sql=sql, kind="window", is_eligible=joined.is_eligible)


def queried(draw: Draw) -> Case:
    """Semi and anti joins as SQL says them, and scalar subqueries, correlated or not."""
    role = draw.role()
    tables = draw.tables(2, role)
    a, b = draw.reads(tables)
    one, other = a.column(role), b.column(role)
    inner = draw.where([b], chance=0.6)
    met = f"{inner} AND {one} = {other}" if inner else f" WHERE {one} = {other}"
    condition, is_eligible = draw.rng.choice(
        [
            (f"EXISTS (SELECT 1 FROM {b}{met})", True),
            (f"NOT EXISTS (SELECT 1 FROM {b}{met})", True),
            (f"EXISTS (SELECT 1 FROM {b}{met} AND {b.column('v')} > {a.column('v')})", True),
            (f"{one} IN (SELECT {other} FROM {b}{inner})", True),
            (f"{one} NOT IN (SELECT {other} FROM {b}{inner})", False),
            (f"{a.column('v')} >= (SELECT min({b.column('v')}) FROM {b}{met})", True),
            (f"{a.column('v')} = (SELECT max({b.column('v')}) FROM {b}{inner})", False),
            (f"({one} IN (SELECT {other} FROM {b}) OR {a.column('v')} = 1)", False),
        ]
    )
    said = draw.rng.choice((a.column("id"), "count(*)", f"{one}, {a.column('v')}"))
    sql = f"SELECT {said} FROM {a} WHERE {condition}{' AND ' + draw.filter(a) if draw.chance(0.3) else ''}"
    if said == a.column("id") and draw.chance(0.2):
        sql = f"SELECT {said}, (SELECT count(*) FROM {b}{met}) AS n FROM {a}"
    return Case(sql=sql, kind="queried", is_eligible=is_eligible and matched(tables, role))


def named(draw: Draw) -> Case:
    """Common table expressions joined with one another and with tables."""
    role = draw.role()
    tables = draw.tables(2, role)
    a, b = draw.reads(tables)
    first = f'SELECT {a.column(role)} AS "Key", count(*) AS rows, max({a.column("v")}) AS v FROM {a}{draw.where([a])} GROUP BY {a.column(role)}'
    second = f'SELECT {b.column(role)} AS "Key", {b.column("v")} AS v, {b.column("id")} AS id FROM {b}{draw.where([b])}'
    join = draw.rng.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
    said = draw.rng.choice(('g."Key", g.rows, s.id', 'g."Key", sum(g.rows), count(s.v)', "count(*)"))
    sql = f'WITH g AS ({first}), s AS ({second}) SELECT {said} FROM g {join} s ON g."Key" = s."Key"'
    sql += ' GROUP BY g."Key"' if "sum(" in said else ""
    return Case(sql=sql, kind="named", is_eligible=matched(tables, role))


def sets_of_keys(draw: Draw) -> Case:
    """GROUP BY with several sets of columns."""
    joined = draw.joined()
    key, v = joined.keys[0], joined.reads[-1].column("v")
    by = draw.rng.choice((f"ROLLUP ({key}, {v})", f"CUBE ({key}, {v})", f"GROUPING SETS (({key}), ({key}, {v}))"))
    sql = f"SELECT {key}, {v}, count(*) FROM {joined.text} GROUP BY {by}"
    return Case(sql=sql, kind="sets of keys", is_eligible=joined.is_eligible)


def first_of_groups(draw: Draw) -> Case:
    """The first groups of a join by their key."""
    joined = draw.joined()
    key = joined.keys[0]
    sql = f"SELECT {key}, count(*) AS rows FROM {joined.text} GROUP BY {key} ORDER BY {key} {direction(draw)}{limit(draw, key)}"
    return Case(sql=sql, kind="first of groups", is_eligible=joined.is_eligible, compared=ordering(key))


def star(draw: Draw) -> Case:
    """All columns of a join, or the different rows of some."""
    joined = draw.joined()
    said = draw.rng.choice(
        ("*", f"DISTINCT {joined.keys[0]}", f"DISTINCT {joined.reads[-1].column('v')}, {joined.keys[0]}")
    )
    return Case(sql=f"SELECT {said} FROM {joined.text}", kind="star", is_eligible=joined.is_eligible)


def other_keys(draw: Draw) -> Case:
    """Joins by what no partition follows from, alone or beside a key."""
    role = draw.role()
    tables = draw.tables(2, role)
    a, b = draw.reads(tables)
    condition = draw.rng.choice(
        [
            f"{a.column('k')} = {b.column('v')}",
            f"{a.column('k')} + 1 = {b.column('k')}",
            f"upper({a.column('s')}) = upper({b.column('s')})",
            f"CAST({a.column('k')} AS VARCHAR) = CAST({b.column('k')} AS VARCHAR)",
            f"CAST({a.column('k')} AS BIGINT) = {b.column('k')}",
            f"{a.column('d')} = {b.column('ts')}",
            f"{a.column('f')} = {b.column('n')}",
            f"{a.column('k')} = {b.column('f')}",
            f"coalesce({a.column('k')}, 0) = coalesce({b.column('k')}, 0)",
            f"({a.column('k')} = {b.column('k')} OR {a.column('v')} = {b.column('v')})",
        ]
    )
    beside = draw.chance(0.3)
    if beside:
        condition += f" AND {a.column(role)} = {b.column(role)}"
    join = draw.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
    said = draw.rng.choice((a.column("id"), "count(*)"))
    sql = f"SELECT {said} FROM {a} {join} {b} ON {condition}"
    return Case(sql=sql, kind="other keys", is_eligible=beside and matched(tables, role))


def nested(draw: Draw) -> Case:
    """Joins with queries: the first rows of a table, its groups, different keys, several tables together, a window."""
    role = draw.role()
    tables = draw.tables(3, role)
    a, b, c = (Read(table, name) for table, name in zip(tables, "abc", strict=True))
    key = a.column(role)
    columns = f'{key} AS "Key", {a.column("v")} AS v, {a.column("id")} AS id'
    again = f'{c.column(role)} AS "Key", {c.column("v")} AS v, {c.column("id")} AS id'
    query, is_eligible = draw.rng.choice(
        [
            (f"SELECT {columns} FROM {a} ORDER BY {a.column('id' if role == 'f' else role)}, {a.column('id')} LIMIT 7", False),
            (f'SELECT {key} AS "Key", sum({a.column("v")}) AS v, min({a.column("id")}) AS id FROM {a} GROUP BY {key}', True),
            (f'SELECT DISTINCT {key} AS "Key", 1 AS v, 2 AS id FROM {a}', True),
            (f"SELECT {columns} FROM {a}{draw.where([a])} UNION ALL SELECT {again} FROM {c}{draw.where([c])}", True),
            (f"SELECT {columns} FROM {a} WHERE EXISTS (SELECT 1 FROM {c} WHERE {key} = {c.column(role)})", True),
            (f'SELECT {key} AS "Key", rank() OVER (PARTITION BY {key} ORDER BY {a.column("id")}) AS v, {a.column("id")} AS id FROM {a}', True),
            (f"SELECT {columns} FROM {a} LEFT JOIN {c} ON {key} = {c.column(role)} AND {c.column('v')} > 2", True),
            (f"SELECT {columns} FROM {a} WHERE random() < 2", False),
        ]
    )  # fmt: skip
    join = draw.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    said, grouped = draw.rng.choice(
        [('q."Key", q.v, b.id AS other', ""), ("count(*)", ""), ('q."Key", count(b.id), sum(q.v)', ' GROUP BY q."Key"')]
    )
    sql = f'SELECT {said} FROM ({query}) AS q {join} {b} ON q."Key" = {b.column(role)}{draw.where([b], chance=0.2)}{grouped}'
    return Case(sql=sql, kind="nested", is_eligible=is_eligible and matched(tables, role))


def starred(draw: Draw) -> Case:
    """Two tables on a key and a small filtered one beside them."""
    role, other = draw.role(), draw.role()
    tables = draw.tables(2, role)
    a, b = draw.reads(tables)
    small = Read(draw.small, "x")
    text = f"{a} JOIN {b} ON {a.column(role)} = {b.column(role)}"
    near = draw.rng.choice((a, b))
    text += f" {draw.rng.choice(('JOIN', 'LEFT JOIN'))} {small} ON {near.column(other)} = {small.column(other)}"
    said = draw.rng.choice(
        (f"{a.column('id')}, {b.column('id')}", "count(*)", f"max({small.column('v')}), min({b.column('v')})")
    )
    sql = f"SELECT {said} FROM {text} WHERE {draw.filter(small)}"
    return Case(sql=sql, kind="starred", is_eligible=matched(tables, role))
