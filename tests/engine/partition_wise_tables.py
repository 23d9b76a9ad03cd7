"""Kinds of random queries over one table, or two that are not joined by a key."""

from __future__ import annotations

from tests.engine.partition_wise_databases import POOLS, Field, matched
from tests.engine.partition_wise_draws import OPERATORS, Case, Draw, aggregates, direction, limit, ordering


def alone(draw: Draw) -> Case:
    """An aggregate, DISTINCT or a window over one table."""
    role, table = draw.role(), draw.table()
    (read,) = draw.reads([table])
    key, where = read.column(role), draw.where([read])
    window = f"PARTITION BY {key} ORDER BY {read.column('id')}"
    sql = draw.rng.choice(
        [
            f"SELECT {key}, {aggregates(draw, read)} FROM {read}{where} GROUP BY {key}",
            f"SELECT DISTINCT {key} FROM {read}{where}",
            f"SELECT DISTINCT {read.column('v')}, {key} FROM {read}{where}",
            f'SELECT {read.column("id")}, row_number() OVER ({window}) AS "N" FROM {read}{where}',
            f"SELECT {key}, sum({read.column('v')}) OVER ({window}), count(*) OVER (PARTITION BY {key}) FROM {read}{where}",
            f"SELECT id, r FROM (SELECT {read.column('id')} AS id, rank() OVER ({window}) AS r FROM {read}{where}) AS w WHERE r < 3",
        ]
    )
    return Case(sql=sql, kind="alone", is_eligible=matched([table], role))


def sets(draw: Draw) -> Case:
    """Set operations by the key alone, or with another column."""
    role = draw.role()
    tables = draw.tables(2, role)
    reads = draw.reads(tables)
    more = draw.chance(0.3)
    sides = [
        f"SELECT {each.column(role)} AS key{', ' + each.column('v') + ' AS v' if more else ''} FROM {each}{draw.where([each])}"
        for each in reads
    ]
    operator = draw.rng.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
    sql = f"{sides[0]} {operator} {sides[1]}"
    is_eligible = operator != "UNION ALL" and matched(tables, role)
    if operator == "UNION ALL" and draw.chance(0.7):
        sql = f"SELECT key, count(*) FROM ({sql}) AS u GROUP BY key"
        is_eligible = matched(tables, role)
    elif draw.chance(0.2):
        sql = f"SELECT count(*), max(key) FROM ({sql}) AS u"
    return Case(sql=sql, kind="sets", is_eligible=is_eligible)


def ordered(draw: Draw) -> Case:
    """One table in the order of a column, without ties."""
    role, table = draw.role(), draw.table()
    (read,) = draw.reads([table])
    by = [f"{read.column(role)} {direction(draw)}"]
    by += [f"{read.column('v')} {direction(draw)}"] if draw.chance(0.3) else []
    by.append(f"{read.column('id')}{' DESC' if draw.chance(0.3) else ''}")
    said = draw.rng.choice((f"{read.column('id')}, {read.column(role)}", read.column("s"), "*"))
    sql = f"SELECT {said} FROM {read}{draw.where([read])} ORDER BY {', '.join(by)}{limit(draw, read.column(role))}"
    rules = ("identity", "year") if role in {"d", "ts"} else ("identity",)
    is_eligible = any(table.gives(Field(rule, (role,))) for rule in rules)
    return Case(sql=sql, kind="ordered", is_eligible=is_eligible, compared=ordering(read.column(role)))


def metadata(draw: Draw) -> Case:
    """What the partition values answer."""
    role = draw.role()
    kept = [table for table in draw.made.partitioned if table.gives(Field("identity", (role,)))]
    (read,) = draw.reads([draw.rng.choice(kept) if kept and draw.chance(0.8) else draw.table()])
    key = read.column(role)
    known = ["count(*)", f"count({key})", f"min({key})", f'max({key}) AS "M"', f"count(DISTINCT {key})"]
    said = ", ".join(draw.rng.sample(known, draw.rng.choice((1, 2, 3))))
    where = f" WHERE {key} {draw.rng.choice(OPERATORS)} {draw.rng.choice(POOLS[role])}" if draw.chance(0.4) else ""
    sql = draw.rng.choice(
        [
            f"SELECT {said} FROM {read}{where}",
            f"SELECT {key}, {said} FROM {read}{where} GROUP BY {key}",
            f"SELECT {key} AS k FROM {read}{where} GROUP BY {key} HAVING count(*) > 2",
            f"SELECT {said} FROM (SELECT * FROM {read}) AS {read.name}{where}",
        ]
    )
    return Case(sql=sql, kind="metadata", is_eligible=False)


def pruned(draw: Draw) -> Case:
    """A join with a filtered small table, whose keys prune."""
    role, table = draw.role(), draw.table()
    a, b = draw.reads([table, draw.small])
    join = draw.rng.choice(("JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT JOIN"))
    said = draw.rng.choice((a.column("id"), f"count(*), sum({a.column('v')})"))
    sql = f"SELECT {said} FROM {a} {join} {b} ON {a.column(role)} = {b.column(role)}"
    if join == "LEFT SEMI JOIN":
        sql = f"SELECT {said} FROM {a} WHERE {a.column(role)} IN (SELECT {b.column(role)} FROM {b} WHERE {draw.filter(b)})"
    else:
        sql += f" WHERE {draw.filter(b)}{' AND ' + draw.filter(a) if draw.chance(0.3) else ''}"
    return Case(sql=sql, kind="pruned", is_eligible=False)


def by_date_parts(draw: Draw) -> Case:
    """Groups, different rows and windows by parts of a date."""
    role = draw.rng.choice([each for each in draw.made.theme if each in {"d", "ts"}] or ["d", "ts"])
    tables = draw.tables(2, role)
    a, b = draw.reads(tables)
    known = ("year", "month", "day", "hour" if role == "ts" else "dow")
    by = [f"date_part('{part}', {a.column(role)})" for part in known if draw.chance(0.5)] or [
        f"date_part('year', {a.column(role)})"
    ]
    by += [f"date_trunc('month', {a.column(role)})"] if draw.chance(0.1) else []
    by += [draw.rng.choice((a.column("v"), a.column(role), a.column("k")))] if draw.chance(0.3) else []
    parts, where = ", ".join(by), draw.where([a])
    join = draw.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    both = f"SELECT {a.column(role)} AS at FROM {a}{where} UNION ALL SELECT {b.column(role)} FROM {b}{draw.where([b])}"
    sql = draw.rng.choice(
        [
            f"SELECT {parts}, {aggregates(draw, a)} FROM {a}{where} GROUP BY {parts}",
            f"SELECT DISTINCT {parts} FROM {a}{where}",
            f"SELECT {a.column('id')}, row_number() OVER (PARTITION BY {parts} ORDER BY {a.column('id')}) FROM {a}{where}",
            f"SELECT {parts}, count({b.column('id')}) FROM {a} {join} {b} ON {a.column(role)} = {b.column(role)}{where} GROUP BY {parts}",
            f"SELECT y, count(*), max(at) FROM (SELECT date_part('year', at) AS y, at FROM ({both})) GROUP BY y",
            f"SELECT {parts}, count(*) FROM {a} JOIN {b} ON {by[0]} = date_part('year', {b.column(role)}) GROUP BY {parts}",
        ]
    )  # fmt: skip
    return Case(sql=sql, kind="by date parts", is_eligible=False)
