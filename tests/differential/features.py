"""Features of SQL, each with the queries that DuckDB answers alike, and those that are refused with what they are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

Tables = Mapping[str, tuple[str | None, str]]
"""Table with its columns → how it is partitioned, and its rows."""


@dataclass(frozen=True, kw_only=True)
class Feature:
    """Queries over some tables, each written into `form`; `refused` are whole queries with a part of their errors."""

    tables: Tables
    form: str = "{}"
    queries: Sequence[str]
    refused: Mapping[str, str] = field(default_factory=dict)
    has_names: bool = False
    """Whether columns have the names that they have in DuckDB."""


CONDITIONS: Tables = {
    "t (x BIGINT, a BIGINT, b BOOLEAN)": (
        "bucket(2, x), a",
        "(1, 1, true), (2, 1, NULL), (NULL, 2, false), (3, 2, true)",
    )
}
SIDES: Tables = {
    "l (i BIGINT, j BIGINT)": (None, "(NULL, 7), (3, 9)"),
    "r (k BIGINT, i BIGINT)": (None, "(0, 1), (2, 5)"),
}
NULLABLE: Tables = {
    "t (x BIGINT, a BIGINT)": ("bucket(2, x)", "(NULL, 1), (0, 1), (1, NULL), (2, 1), (3, 2), (3, NULL), (1, 1)"),
    "u (y BIGINT, b BIGINT)": ("bucket(2, y)", "(1, 1), (NULL, 1), (3, 2), (2, NULL), (3, 1)"),
    "v (y BIGINT, b BIGINT)": ("bucket(2, y)", "(1, 1), (3, 2)"),
    "w (y BIGINT, b BIGINT)": ("bucket(2, y)", ""),
}
MEMBERSHIPS: Tables = {
    "t (id BIGINT, a BIGINT, flag BOOLEAN)": (None, "(1, 1, true), (2, 3, false), (3, NULL, NULL), (4, 9, true)"),
    "u (k BIGINT, v BIGINT)": (None, "(1, 2), (3, NULL), (1, 5)"),
    "r (k BIGINT, v BIGINT, w BIGINT)": (
        "bucket(2, k)",
        "(1, 1, 1), (2, NULL, 2), (2, 4, NULL), (4, 9, 4), (NULL, 3, 1), (3, 3, 9)",
    ),
    "w (k BIGINT)": (None, "(9), (NULL)"),
}
NUMBERS: Tables = {
    "numbers (k BIGINT, j INT, f DOUBLE, r REAL, m DECIMAL(10, 2))": (
        None,
        "(1, 2, 2.5, 2.5, 2.5), (2, 3, 3.5, 3.5, 3.5), (3, -2, -2.5, -2.5, -2.5), (4, 0, 0.49999999999999994, 0.5, 0.5), (5, NULL, NULL, NULL, NULL), (6, 0, 1e15, 1.5, 19.99)",
    )
}
COLUMNS: Tables = {"t (id BIGINT, a BIGINT, s VARCHAR)": (None, "(1, 2, 'x'), (2, 3, 'y'), (3, NULL, 'x')")}
LISTS: Tables = {
    "m (id BIGINT, list BIGINT[], words VARCHAR[], p VARCHAR)": (
        "p",
        "(1, [1, 2], ['a'], 'x'), (2, [], ['b', 'c'], 'x'), (3, NULL, NULL, 'y'), (4, [NULL], ['d'], 'y')",
    ),
    "o (k BIGINT, v BIGINT)": (None, "(1, 10), (1, 20), (9, 30)"),
}
ZEROS: Tables = {
    "z (id BIGINT, d DOUBLE, r REAL)": (
        "bucket(2, id)",
        "(1, 0.0, 0.0), (2, -0.0, -0.0), (3, 2.5, 2.5), (4, NULL, NULL)",
    )
}
WIDE: Tables = {
    "wide (k BIGINT, i BIGINT, n INT, f DOUBLE, m DECIMAL(9, 2), d DATE, ts TIMESTAMP)": (
        "k",
        "(1, 7, 2147483647, 1.5, 2.50, DATE '2024-01-01', '2024-01-01 00:00:00'), (2, 5, 3, 2.0, 1.00, DATE '2024-01-02', '2024-01-02 00:00:00'), (3, -2, NULL, NULL, NULL, NULL, NULL)",
    )
}
INTERVALS: Tables = {
    "m (id BIGINT, a BIGINT, f DOUBLE, d DATE, ts TIMESTAMP)": (
        None,
        "(1, 2, 1.5, DATE '2024-01-31', TIMESTAMP '2024-01-31 00:00:00'), (2, -1, 0.1, DATE '2024-03-01', TIMESTAMP '2024-03-01 12:00:00'), (3, NULL, NULL, DATE '2024-01-01', NULL)",
    )
}
MOMENTS: Tables = {
    "t (id BIGINT, ts TIMESTAMP)": (
        "bucket(2, id)",
        "(1, '0001-01-01 00:00:00'), (2, '1677-01-01 00:00:00'), (3, '2024-02-29 10:00:00'), (4, '9999-12-31 23:59:59.999999')",
    )
}
LONG: Tables = {
    "long_rows (id BIGINT, p DECIMAL(20, 2))": (
        "bucket(2, id)",
        "(1, 123456789012345678.12), (2, 123456789012345678.13), (3, -123456789012345678.12), (4, 1.5)",
    )
}
TRIED: Tables = {"t (x BIGINT)": (None, "(3000000000), (5), (0), (NULL)")}
NO_TABLES: Tables = {}
SALES: Tables = {
    "sales (id BIGINT, n VARCHAR, p VARCHAR, v DOUBLE, w BIGINT)": (
        "p",
        "(1, 'a', 'x', 1.5, 1), (2, 'b', 'y', 2.5, NULL), (3, 'a', 'x', 3.5, 3), (4, 'a', 'y', NULL, 4), (5, 'c', NULL, 1, 1)",
    ),
    "others (id BIGINT, z BIGINT)": (None, "(1, 10), (1, 11), (4, 40), (NULL, 0)"),
}
_NPV = "(SELECT n, p, v FROM sales)"

FEATURES = {
    "values become columns": Feature(
        tables=SALES,
        has_names=True,
        queries=[
            "PIVOT sales ON p IN ('x', 'y') USING sum(v) GROUP BY n",
            "PIVOT sales ON p IN ('x', 'y') USING sum(v) AS s, count(*) AS c GROUP BY n",
            f"PIVOT {_NPV} ON p IN ('x', 'y') USING sum(v)",
            "PIVOT sales ON w IN (1, 3) USING max(v) GROUP BY n",
            "PIVOT sales ON p IN ('x') USING sum(v * w) GROUP BY n ORDER BY n DESC LIMIT 1",
            "PIVOT sales ON p IN ('x') USING sum(CASE WHEN v > 2 THEN v END) GROUP BY n",
            f"SELECT * FROM {_NPV} PIVOT (sum(v) FOR p IN ('x', 'y'))",
            f"SELECT * FROM {_NPV} PIVOT (sum(v) AS s FOR p IN ('x' AS xx, 'y'))",
            "SELECT * FROM (SELECT n, p, v, w FROM sales) PIVOT (sum(v), max(w) FOR p IN ('x', 'y'))",
            f"SELECT * FROM {_NPV} PIVOT (sum(v) FOR p IN ('x', 'y') GROUP BY n)",
            "SELECT * FROM sales PIVOT (count(*) FOR p IN ('x')) AS q",
            "SELECT * FROM sales PIVOT (count(DISTINCT v) FOR p IN ('x') GROUP BY n)",
            f"SELECT q.n, j.id FROM {_NPV} PIVOT (sum(v) FOR p IN ('x', 'y')) AS q JOIN sales AS j ON q.n = j.n",
            f"WITH c AS {_NPV} SELECT n, x + 1 AS y FROM c PIVOT (sum(v) FOR p IN ('x')) WHERE x IS NOT NULL",
            "UNPIVOT sales ON v, w INTO NAME k VALUE val",
            "SELECT * FROM (PIVOT sales ON p IN ('x') USING sum(v) GROUP BY n) WHERE x > 1",
            "WITH q AS (PIVOT (SELECT DISTINCT n, p, v FROM sales) ON p IN ('x') USING sum(v)) SELECT n, x FROM q",
            "WITH q AS (UNPIVOT sales ON v, w INTO NAME k VALUE val) SELECT k, sum(val) AS s FROM q GROUP BY k",
            "PIVOT (FROM sales SELECT n, p, v) ON p IN ('x') USING max(v) ORDER BY n LIMIT 2",
            "SELECT * FROM sales UNPIVOT (val FOR k IN (v, w))",
            "SELECT * FROM sales UNPIVOT INCLUDE NULLS (val FOR k IN (v AS 'vv', w))",
            "SELECT * FROM sales PIVOT (sum(v) / 2 FOR p IN ('x') GROUP BY n)",
            "SELECT * FROM sales PIVOT (sum(CASE WHEN v > 1 THEN v END) FOR p IN ('x'))",
            "SELECT * FROM sales PIVOT (max(w) FOR p IN ('x', 'y') n IN ('a', 'b') GROUP BY v)",
            "PIVOT sales ON p USING sum(v)",
            "PIVOT sales ON p USING sum(v) GROUP BY n",
            "PIVOT sales ON p",
            "PIVOT sales ON v USING max(id) GROUP BY n",
            "PIVOT sales ON w, p USING max(id) GROUP BY n",
            "PIVOT sales ON w, p IN ('y') USING max(id) AS a, min(id) AS b GROUP BY n",
            "PIVOT sales ON upper(p) USING round(avg(v), 1) GROUP BY n",
            "PIVOT sales ON upper(p) USING max(id)",
            "PIVOT sales ON p || n USING max(id) GROUP BY w",
            "PIVOT sales ON v > 2 USING count(*) GROUP BY p",
            "PIVOT (SELECT id, DATE '2024-01-01' + w::INT AS d FROM sales) ON d USING count(*)",
            "PIVOT (SELECT id, DATE '2024-01-01' + w::INT AS d FROM sales) ON dayname(d) USING max(id)",
            "PIVOT sales AS s ON p USING sum(v) GROUP BY n",
            "PIVOT (FROM sales WHERE id > 9) ON p USING sum(v) GROUP BY n",
            "PIVOT (FROM sales WHERE id > 9) ON p USING sum(v)",
            "PIVOT (PIVOT sales ON p USING sum(v) GROUP BY n, w) ON n USING max(x)",
            "WITH c AS (FROM sales WHERE id > 1) PIVOT c ON p USING sum(v) GROUP BY n",
            "WITH c AS (FROM sales WHERE id > 1), e AS (FROM c WHERE id < 4) SELECT * FROM (PIVOT e ON p USING sum(v) GROUP BY n)",
            "WITH c AS (PIVOT sales ON p USING sum(v) GROUP BY n) SELECT n, x, y FROM c",
            "PIVOT sales ON p USING sum(v) GROUP BY n UNION ALL PIVOT sales ON p USING count(*) GROUP BY n",
            "PIVOT (SELECT i % 300 AS c, i % 7 AS k FROM range(3000) AS t(i)) ON c USING count(*) GROUP BY k",
            "UNPIVOT sales ON v, w",
            "UNPIVOT (SELECT id, v, w FROM sales) ON COLUMNS(* EXCLUDE (id))",
            "UNPIVOT sales ON COLUMNS('^[vw]$') INTO NAME k VALUE val",
        ],
        refused={
            "PIVOT sales ON p USING sum(v) + max(w)": "expected an expression with one aggregate",
            "PIVOT (SELECT i, i AS c FROM range(3000) AS t(i)) ON c USING count(*)": 'write ON "c" IN',
            "SELECT * FROM sales PIVOT (sum(v) FOR p IN (SELECT p FROM sales))": "PIVOT t ON column USING sum(a) reads them first",
            "SELECT * FROM sales PIVOT (sum(v) FOR p IN (ANY))": "PIVOT t ON column USING sum(a) reads them first",
            "PIVOT sales ON extract(year FROM CAST(n AS DATE)) IN (2024) USING sum(v)": "write GROUP BY and the columns to keep",
            "UNPIVOT sales ON v::INT, w": "expected columns by their names",
            "CREATE VIEW columns_of_rows AS PIVOT sales ON p USING sum(v)": "write the values of PIVOT, as in ON column IN",
        },
    ),
    "clauses of DuckDB": Feature(
        tables=SALES,
        queries=[
            "SELECT sales.id FROM sales SEMI JOIN others ON sales.id = others.id",
            "SELECT id FROM sales ANTI JOIN others USING (id)",
            "SELECT sum(v) FILTER (p = 'x'), count(*) FILTER (WHERE p = 'y') FROM sales",
            "SELECT n, w FROM sales ORDER BY ALL LIMIT 3",
            "SELECT n AS a, sum(v), max(id) FROM sales GROUP BY ALL ORDER BY ALL DESC NULLS LAST LIMIT 1",
            "SELECT p, (SELECT max(z) FROM others) AS m FROM sales WHERE p IS NOT NULL ORDER BY ALL DESC LIMIT 2",
            "SELECT * FROM (SELECT DISTINCT n, p FROM sales WHERE p > 'x' ORDER BY ALL LIMIT 1)",
            "SELECT w * 2 AS a FROM sales WHERE w > 0 ORDER BY ALL LIMIT 2",
            "FROM sales SELECT n, id ORDER BY ALL LIMIT 2",
            "SELECT id + 1 AS x, x * 2 AS y, y - x AS z FROM sales",
            "SELECT id + 1 AS x FROM sales WHERE x > 3",
            "SELECT upper(n) AS name, count(*) AS c, c * 2 AS d FROM sales GROUP BY name HAVING c > 1",
            "SELECT id AS v, v * 2 AS w2 FROM sales",
            "SELECT 2 * w AS twice, (SELECT max(z) FROM others) + twice AS m FROM sales WHERE twice IS NOT NULL",
            'SELECT id + 1 AS "My X", "My X" * 2 AS y FROM sales',
            "SELECT * FROM (SELECT id * 2 AS k, k + 1 AS l FROM sales) AS q JOIN others ON q.l = others.id + 2",
            "SELECT id * 2 AS k FROM sales WHERE k > 4 UNION ALL SELECT z AS k FROM others WHERE k > 4",
            "SELECT CASE WHEN v > 2 THEN 'much' ELSE 'little' END AS size, count(*) FROM sales GROUP BY size",
        ],
        refused={
            "SELECT random() AS x, x + 1 AS y FROM sales": "No field named x",
            "SELECT x + 1 AS y, id AS x FROM sales": "No field named x",
            "SELECT id AS x FROM sales WHERE id IN (SELECT id FROM others WHERE nope > 1)": "No field named nope",
            "SELECT * FROM sales ORDER BY ALL": "ORDER BY ALL after * is not offered: name the columns",
            "SELECT sales.*, 1 FROM sales ORDER BY ALL": "ORDER BY ALL after * is not offered",
            "FROM sales ORDER BY ALL": "ORDER BY ALL after * is not offered",
            "SELECT * FROM sales POSITIONAL JOIN others": "POSITIONAL JOIN is not offered: number the rows",
            "SELECT * FROM sales ANY JOIN others USING (id)": "ANY JOIN is not offered",
            "SELECT * FROM sales ASOF LEFT JOIN others USING (id)": "ASOF JOIN is not offered",
            "SELECT * FROM sales USING SAMPLE 2 REPEATABLE (1)": "USING SAMPLE is not offered: write TABLESAMPLE",
            "SELECT * FROM sales LIMIT 50 PERCENT": "LIMIT … PERCENT is not offered",
            "SELECT * FROM sales WHERE v BETWEEN SYMMETRIC 3 AND 1": "BETWEEN SYMMETRIC is not offered: write BETWEEN least(a, b)",
            "SELECT w // 2 FROM sales": "// at character 10 is not offered; write a / b",
            "SELECT w ** 2 FROM sales": "** at character 10 is not offered; write power(a, b)",
        },
    ),
    "conditions on columns of USING": Feature(
        tables=SALES,
        has_names=True,
        queries=[
            "SELECT id, n, z FROM sales JOIN others USING (id) WHERE id > 1",
            "SELECT * FROM sales AS a LEFT JOIN others AS b USING (id) WHERE id IN (2, 3) OR z = 10",
            'SELECT id FROM sales NATURAL JOIN others WHERE "id" BETWEEN 1 AND 3 AND z > 10',
            "SELECT x.m FROM (SELECT id AS m FROM sales JOIN others USING (id) WHERE id = 4) AS x WHERE m = 4",
            "SELECT b.k FROM (SELECT 1 AS q) AS z JOIN (SELECT 1 AS q, id AS k FROM sales) AS b ON z.q = b.q JOIN (SELECT id AS k FROM others) AS c USING (k) WHERE k = 4",
            "SELECT id FROM sales AS a JOIN sales AS b USING (id, n) WHERE n = 'a' AND id < 4",
            "WITH s AS (SELECT id, w FROM sales) SELECT count(*) AS c FROM s JOIN others USING (id) WHERE ID = 1 AND EXISTS (SELECT 1 FROM others AS o WHERE o.id = s.id)",
            "SELECT id FROM sales JOIN others USING (id) WHERE id = 1 UNION ALL SELECT id FROM others JOIN sales USING (id) WHERE id = 4",
        ],
        refused={
            "SELECT n FROM sales AS a JOIN sales AS b USING (id) WHERE n = 'a'": "mbiguous",
            "SELECT z FROM sales AS a JOIN sales AS b ON a.id = b.id JOIN others ON true WHERE id = 1": "mbiguous",
        },
    ),
    "conditions that are NULL or constants": Feature(
        tables=CONDITIONS,
        form="SELECT x FROM t WHERE {}",
        queries=(
            "x NOT IN (1) OR x NOT IN (2)",
            "x NOT IN (1, 5, 6, 7) OR x NOT IN (2, 8, 9, 10)",
            "(x NOT IN (1, 5, 6, 7) OR x NOT IN (2, 8, 9, 10)) IS NULL",
            "NOT (x IN (1, 5)) OR NOT (x IN (2, 6))",
            "x NOT IN (1) OR x NOT IN (2, a)",
            "x IN (1, a, 5, 6) AND x NOT IN (a, 7, 8, 9)",
            "(x IN (1, 5) AND x IN (2, 6)) IS NULL",
            "NOT (x IN (1, 5, 7, 8) AND x IN (2, 6, 9, 10))",
            "(x IN (1, 2, NULL, 4) AND x NOT IN (2, 3, 4, 5)) IS NULL",
            "x + 1 IN (2, 3) AND x + 1 IN (3, 4)",
            "(x = 1 AND x IN (2, 3, 4, 5)) IS NULL",
            "x NOT IN (1, 5, 6, 7) OR x < a",
            "(x IN (1, 2, 5, 6) AND x = a) IS NULL",
            "(x NOT IN (1, 2, 5, NULL) OR x = a) IS NULL",
            "x BETWEEN CAST(NULL AS BIGINT) AND x",
            "x NOT BETWEEN CAST(NULL AS BIGINT) AND 2",
            "2 BETWEEN CAST(NULL AS BIGINT) AND x",
            "(NULL AND x > 1) IS NULL",
            "b NOT IN (CAST(NULL AS BOOLEAN), b) AND x > 0",
            "a > 0 AND (x = 1 OR CAST(NULL AS BOOLEAN))",
        ),
    ),
    "conditions above outer joins": Feature(
        tables=SIDES,
        queries=(
            "SELECT a.k FROM l AS b RIGHT JOIN r AS a ON a.i = b.i LEFT JOIN l AS c ON a.k = c.j WHERE 0 NOT IN (b.i, c.i, a.i) AND b.j IS DISTINCT FROM 9",
            "SELECT l.i FROM l RIGHT JOIN r ON r.i = l.j WHERE coalesce(l.i, 0) = 0 AND r.k >= 0",
            "SELECT l.i FROM r LEFT JOIN l ON r.i = l.j WHERE r.k % 2 = 0 AND coalesce(l.i, 0) = 0",
            "SELECT l.i FROM r FULL JOIN l ON r.i = l.j WHERE coalesce(l.i, 3) = 3",
            "SELECT l.i AS n FROM r LEFT JOIN l ON r.i = l.j WHERE nullif(l.i, l.i) IS DISTINCT FROM l.i",
            "SELECT count(*) FROM (SELECT l.i AS n, r.k FROM r LEFT JOIN l ON r.i = l.j) AS q WHERE coalesce(n, 0) = 0 AND k >= 0",
        ),
    ),
    "literals in branches of UNION": Feature(
        tables=SIDES,
        form="WITH q AS (SELECT i, j, 's' AS st, CAST(NULL AS BIGINT) AS none FROM l UNION ALL SELECT k, i, 'w', CAST(NULL AS BIGINT) FROM r) {}",
        queries=(
            "SELECT a.i FROM q AS a WHERE a.st = 's' AND a.j > 7",
            "SELECT a.i FROM q AS a WHERE a.j > 1 AND (a.st = 'w' OR a.i = 3)",
            "SELECT a.i FROM q AS a WHERE a.none = 1 AND a.j > 1",
            "SELECT a.i FROM q AS a WHERE NOT (a.none = 1 AND a.st = 'x') AND a.j > 1",
            "SELECT a.i FROM q AS a, q AS b WHERE a.j = b.j AND a.st = 's' AND b.st = 's' AND a.j > 1 AND b.j < 9",
            "SELECT a.i FROM q AS a, q AS b WHERE a.st = 's' AND b.st = 'w' AND a.j > 7 AND b.j > 1",
            "SELECT count(*) FROM q AS a, q AS b WHERE a.j = b.j AND a.st = 's' AND b.st = 'w' AND a.j > 1 AND b.j > 1",
            "SELECT count(*) FROM q AS a, q AS b WHERE a.j > b.j AND a.st = 's' AND b.st = 'w' AND a.j > 1 AND b.j > 0",
            "SELECT a.i FROM q AS a LEFT JOIN q AS b ON a.j = b.j AND b.st = 's' AND b.j > 7 WHERE a.st = 's' AND a.j > 1",
            "SELECT a.i FROM q AS a WHERE a.st = 's' AND a.j > 1 AND EXISTS (SELECT 1 FROM q AS b WHERE b.j = a.j AND b.st = 's' AND b.j > 7)",
        ),
    ),
    "subqueries with NULL": Feature(
        tables=NULLABLE,
        queries=(
            "SELECT x FROM t WHERE x <> ALL (SELECT x FROM t WHERE a = 2)",
            "SELECT x FROM t WHERE x > ALL (SELECT x FROM t WHERE a = 1 AND x IS NOT NULL) OR x IS NULL",
            "SELECT x FROM t WHERE NOT (x IN (SELECT x FROM t WHERE a = 2))",
            "SELECT x FROM t WHERE x NOT IN (SELECT a FROM t WHERE a IS NOT NULL) OR a = 2",
            "SELECT x FROM t WHERE x NOT IN (SELECT z.x FROM t AS z WHERE z.a > t.a)",
            "SELECT x FROM t WHERE 3 NOT IN (SELECT x FROM t)",
            "SELECT x FROM t WHERE x NOT IN (SELECT y FROM v) AND NOT EXISTS (SELECT 1 FROM u WHERE u.y = t.x AND u.b = 1)",
            "SELECT x FROM (SELECT 3 AS k, x FROM t) WHERE k NOT IN (SELECT y FROM u)",
            "SELECT x FROM (SELECT CAST(NULL AS BIGINT) AS k, x FROM t) WHERE k NOT IN (SELECT y FROM v)",
            "SELECT a, count(*) FROM t GROUP BY a HAVING a NOT IN (SELECT y FROM u) OR count(*) > 1",
            "SELECT t.x, v.b FROM t JOIN v ON t.a = v.b AND t.x NOT IN (SELECT y FROM v)",
            "SELECT x FROM t WHERE x NOT IN (SELECT y FROM u WHERE u.b = t.a AND u.y NOT IN (SELECT y FROM v WHERE v.b > u.b))",
            "SELECT x FROM t WHERE (a, 1) IS NOT NULL AND x NOT IN (SELECT x FROM t WHERE x IS NOT NULL AND x > 2)",
            "WITH c AS (SELECT x FROM t WHERE x NOT IN (SELECT y FROM u) OR x = 0) SELECT count(*) FROM c",
            "SELECT x FROM t WHERE x BETWEEN 0 AND 3 AND x NOT IN (SELECT y FROM v) ORDER BY x",
            "SELECT x, a FROM t WHERE x = (SELECT count(*) FROM u WHERE u.b = t.a)",
            "SELECT x, a FROM t WHERE x <> (SELECT count(*) FROM u WHERE u.b = t.a)",
            "SELECT x, a FROM t WHERE (SELECT CASE WHEN count(*) > 1 THEN sum(y) END FROM u WHERE u.b = t.a) IS NULL",
        ),
        refused={
            "SELECT x FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.b = t.a)": "always true",
            "SELECT x FROM t WHERE NOT EXISTS (SELECT DISTINCT max(y) + 1 FROM u WHERE u.b = t.a LIMIT 1)": "always true",
            "SELECT x FROM t WHERE x IN (SELECT count(*) FROM u WHERE u.b = t.a)": "= or <>",
            "SELECT x FROM t WHERE x <> ALL (SELECT count(*) FROM u WHERE u.b = t.a)": "= or <>",
            "SELECT x FROM t WHERE EXISTS (SELECT sum(y) FROM u WHERE u.b = t.a HAVING count(*) = 0)": "HAVING",
            "SELECT x FROM t WHERE (SELECT sum(y) FROM u WHERE u.b = t.a HAVING count(*) > 1) IS NULL": "HAVING",
            "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.a OFFSET 1)": "OFFSET",
            "SELECT x FROM t WHERE x IN (SELECT y FROM u WHERE u.b = t.a OFFSET 1)": "OFFSET",
        },
    ),
    "memberships as values": Feature(
        tables=MEMBERSHIPS,
        form="SELECT id, {} AS found FROM t",
        queries=(
            "EXISTS (SELECT k FROM u WHERE u.k = t.a)",
            "EXISTS (SELECT u.k AS x, 1 FROM u WHERE k = t.a)",
            "a IN (SELECT k FROM u)",
            "a NOT IN (SELECT k FROM u)",
            "a IN (SELECT k FROM w)",
            "a NOT IN (SELECT k FROM w)",
            "a IN (SELECT k FROM w WHERE false)",
            "a NOT IN (SELECT k FROM w WHERE false)",
            "(a IN (SELECT k FROM w)) IS NULL",
            "EXISTS (SELECT 1 FROM u WHERE k = t.a)",
            "NOT EXISTS (SELECT * FROM u WHERE u.k = t.a)",
            "EXISTS (SELECT 1 FROM u)",
            "EXISTS (SELECT 1 FROM u WHERE false)",
            "EXISTS (SELECT DISTINCT k FROM u)",
            "EXISTS (SELECT count(*) FROM u WHERE false)",
            "EXISTS (SELECT k FROM u GROUP BY k HAVING count(*) > 1)",
            "EXISTS (SELECT k FROM u LIMIT 0)",
            "EXISTS (SELECT 1)",
            "CASE WHEN a IN (SELECT k FROM u) THEN 'yes' ELSE 'no' END",
            "coalesce(a IN (SELECT k FROM w), false)",
            "a IN (SELECT k FROM u) AND flag",
            "a + 1 IN (SELECT v FROM u) OR NOT flag",
            "1 IN (SELECT k FROM u)",
            "a IN (SELECT k FROM u UNION SELECT k FROM w)",
            "a IN (VALUES (1), (3))",
            "a IN (1, 9)",
            "a IS DISTINCT FROM 1",
            "a IN (SELECT v FROM r WHERE r.k = t.id)",
            "a NOT IN (SELECT v FROM r WHERE r.k = t.id)",
            "a IN (SELECT v FROM r WHERE r.k < t.id)",
            "NOT a IN (SELECT v FROM r WHERE r.k >= t.id)",
            "a IN (SELECT v FROM r WHERE r.k = t.id AND false)",
            "a NOT IN (SELECT v FROM r WHERE r.k = t.id + 9)",
            "NULL IN (SELECT v FROM r WHERE r.k = t.id)",
            "NULL NOT IN (SELECT v FROM r WHERE r.k = t.id)",
            "EXISTS (SELECT 1 FROM r WHERE k < t.a)",
            "NOT EXISTS (SELECT 1 FROM r WHERE k > t.id AND v IS NULL)",
            "coalesce(a IN (SELECT v FROM r WHERE r.k = t.id), flag)",
            "(a IN (SELECT v FROM r WHERE r.k = t.id)) IS NULL",
            "flag OR a IN (SELECT v FROM r WHERE r.k = t.id)",
            "a = ANY (SELECT v FROM r WHERE r.k = t.id)",
            "a > ALL (SELECT v FROM r WHERE r.k = t.id)",
            "a IN (SELECT max(v) FROM r WHERE r.k = t.id GROUP BY w)",
            "(id, a) IN (SELECT k, v FROM r)",
            "(id, a) NOT IN (SELECT k, v FROM r)",
            "(a, id) IN (SELECT k, v FROM u)",
            "CASE WHEN a IN (SELECT v FROM r WHERE r.k = t.id) THEN 1 WHEN id NOT IN (SELECT w FROM r WHERE v = t.a) THEN 2 END",
            "CASE WHEN EXISTS (SELECT 1 FROM u WHERE k = t.id) THEN 1 WHEN id IN (SELECT v FROM u) THEN 2 ELSE 3 END",
        ),
    ),
    "memberships in clauses": Feature(
        tables=MEMBERSHIPS,
        queries=(
            "SELECT EXISTS (SELECT 1 FROM u) AS x",
            "SELECT id FROM t WHERE (a IN (VALUES (1), (NULL))) IS NULL ORDER BY a NOT IN (VALUES (9), (1)), id",
            "SELECT id FROM t GROUP BY id HAVING count(*) FILTER (WHERE id IN (SELECT v FROM r WHERE r.w = t.id)) > 0",
            "SELECT EXISTS (SELECT a IN (SELECT k FROM u) FROM t) AS x",
            "SELECT 3 NOT IN (SELECT k FROM w) AS x, 9 IN (SELECT k FROM w) AS y",
            "SELECT a IN (SELECT k FROM u) AS x, count(*) FROM t GROUP BY a",
            "SELECT x, count(*) FROM (SELECT a IN (SELECT k FROM u) AS x FROM t) AS q GROUP BY x",
            "SELECT id FROM (SELECT id, a IN (SELECT k FROM u) AS x FROM t) AS q ORDER BY x, id",
            "SELECT sum(CASE WHEN x THEN 1 ELSE 0 END) FROM (SELECT a IN (SELECT k FROM u) AS x FROM t) AS q",
            "WITH q AS (SELECT id, EXISTS (SELECT 1 FROM u WHERE k = t.id) AS x FROM t) SELECT * FROM q WHERE x",
            "SELECT count(*), (SELECT count(*) FROM u) FROM t",
            "SELECT count(*), (SELECT count(*) FROM u), (SELECT count(*) FROM w) FROM t",
            "SELECT max(id), (SELECT max(k) FROM u) FROM t",
            "SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM t)",
            "SELECT *, a IN (SELECT v FROM r WHERE r.k = t.id) AS x FROM t",
            "SELECT t.*, r.w IN (SELECT v FROM u WHERE u.k = t.id) FROM t LEFT JOIN r ON r.k = t.id WHERE t.id > 1 OR flag",
            "SELECT id FROM t ORDER BY a IN (SELECT k FROM w) NULLS FIRST, id",
            "SELECT id FROM t ORDER BY EXISTS (SELECT 1 FROM r WHERE k < t.id) DESC, id LIMIT 2",
            "SELECT id, count(*) OVER (PARTITION BY a IN (SELECT v FROM r WHERE r.k = t.id)) FROM t",
            "SELECT id, sum(id) FILTER (WHERE a IN (SELECT v FROM r WHERE r.k = t.id)) OVER () FROM t",
            "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY (a, 1) IN (SELECT v, 1 FROM r) ORDER BY id) = 1",
            "SELECT count(*) FILTER (WHERE a NOT IN (SELECT k FROM w)), count(*) FROM t",
            "SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM r WHERE r.k < t.a) THEN 1 ELSE 0 END) FROM t WHERE false",
            "SELECT a IN (SELECT v FROM r WHERE r.k = t.id), count(*) FROM t GROUP BY a IN (SELECT v FROM r WHERE r.k = t.id)",
            "SELECT a IN (SELECT v FROM r WHERE r.k = t.id) AS x, count(*) FROM t GROUP BY 1",
            "SELECT (id, a) IN (SELECT k, v FROM r) AS x, max(id) FROM t GROUP BY x HAVING count(*) > 0",
            "SELECT k, EXISTS (SELECT 1 FROM t WHERE t.id > r.k), count(*) FROM r GROUP BY k",
            "SELECT k, count(*) IN (SELECT a FROM t), max(v) NOT IN (SELECT a FROM t) FROM r GROUP BY k HAVING count(*) < 3",
            "SELECT k FROM r GROUP BY k ORDER BY count(*) IN (SELECT k FROM u), k NULLS FIRST",
            "SELECT k FROM r GROUP BY k HAVING CASE WHEN max(v) IN (SELECT a FROM t) THEN k > 1 ELSE k IS NULL END",
            "SELECT id, r.v FROM t LEFT JOIN r ON r.k = id AND a IN (SELECT k FROM w)",
            "SELECT id, r.v FROM t LEFT JOIN r ON r.k = id AND EXISTS (SELECT 1 FROM w WHERE w.k = t.a)",
            "SELECT id, r.v FROM t LEFT JOIN r ON r.k = id AND NOT EXISTS (SELECT 1 FROM t AS x WHERE x.id < r.w)",
            "SELECT * FROM t RIGHT JOIN r ON r.k = id AND r.v NOT IN (SELECT k FROM u WHERE u.v = r.w)",
            "SELECT t.*, r.* FROM t FULL JOIN r ON r.k = id AND (t.a NOT IN (SELECT k FROM w)) IS NULL",
            "SELECT id, r.v FROM t FULL JOIN r ON r.k = id AND (r.k, r.w) IN (SELECT k, v FROM u UNION ALL SELECT 2, 2)",
            "SELECT id, r.v, x.v FROM t LEFT JOIN r ON r.k = id LEFT JOIN r AS x ON x.k = id AND t.a IN (SELECT k FROM w)",
            "SELECT a IN (SELECT v FROM r WHERE r.k = t.id) FROM t UNION ALL SELECT v NOT IN (SELECT a FROM t WHERE id = r.k) FROM r",
            "SELECT id FROM t WHERE coalesce(a IN (SELECT v FROM r WHERE k = id), id NOT IN (SELECT k FROM r WHERE w < a), true)",
            "SELECT extract(year FROM DATE '2024-01-01') IN (SELECT v FROM u) AS x FROM t WHERE id IN (SELECT k FROM u)",
        ),
        refused={
            "SELECT count(*) IN (SELECT k FROM u) FROM t": "of an aggregate",
            "SELECT EXISTS (SELECT nope FROM u WHERE k = t.id) FROM t": "No field named nope",
            "SELECT nope IN (SELECT k FROM u) FROM t": "No field named nope.",
            "SELECT id FROM t WHERE (id, nope) NOT IN (SELECT k, v FROM u)": "No field named nope.",
            "SELECT id, a AS id FROM t ORDER BY a + id IN (SELECT k FROM u)": "mbiguous",
            "SELECT a + random() IN (SELECT v FROM u WHERE u.k = t.id) FROM t": "write EXISTS (SELECT 1 FROM u WHERE u.k = t.a AND …)",
            "SELECT id FROM t LEFT JOIN r ON EXISTS (SELECT 1 FROM w WHERE w.k = t.a AND w.k = r.k)": "write a join",
            "SELECT x.id FROM t AS x LEFT JOIN r AS y ON y.k = x.id LEFT JOIN u ON NOT EXISTS (SELECT 1 FROM w WHERE w.k = y.k)": "write a join",
            "SELECT id FROM t LEFT JOIN r ON k = id AND v IN (SELECT t.k FROM u AS t WHERE nope = 1)": "No field named nope",
            "SELECT id FROM t LIMIT CASE WHEN 1 IN (SELECT k FROM w) THEN 1 ELSE 2 END": "LIMIT and OFFSET take a number or a parameter",
        },
    ),
    "casts to integers": Feature(
        tables=NUMBERS,
        form="SELECT k, {} AS v FROM numbers",
        queries=(
            "CAST(f AS BIGINT)",
            "CAST(r AS INT)",
            "r::SMALLINT",
            "CAST(m AS INT)",
            "(m - 0.01)::TINYINT",
            "TRY_CAST(f AS INT)",
            "CAST(m * 100 AS INT)",
            "CAST(m AS DOUBLE)::BIGINT",
            "CAST(CAST(m AS INT) AS BIGINT) + j",
            "CAST(avg(f) OVER () AS BIGINT)",
            "CAST(CASE WHEN j > 2 THEN f END AS INT)",
            "CAST(trunc(m) AS INT)",
            "CAST(round(m, 1) AS INT)",
            "CAST(j AS BIGINT)",
            "CAST(2.5 AS INT) + CAST(-2.5 AS INT) + 3.5::INT + 0.5::BIGINT",
        ),
    ),
    "statements of casts to integers": Feature(
        tables=NUMBERS,
        queries=(
            "SELECT k FROM numbers WHERE CAST(f AS BIGINT) = 2 OR m::INT = 20",
            "SELECT CAST(m AS INT) AS v, count(*) FROM numbers GROUP BY CAST(m AS INT) HAVING CAST(sum(r) AS INT) < 3",
            "SELECT CAST(sum(m) AS BIGINT), CAST(avg(j) AS INT) FROM numbers",
            "SELECT a.k FROM numbers a JOIN numbers b ON CAST(a.m AS INT) = b.j + 1",
            "SELECT k FROM numbers WHERE j IN (SELECT CAST(r AS INT) FROM numbers)",
        ),
    ),
    "wildcards with options": Feature(
        tables=COLUMNS,
        queries=(
            "SELECT * REPLACE (a + 1 AS A) FROM t",
            "SELECT * EXCLUDE (A) FROM t",
            "SELECT * EXCLUDE A FROM t",
            "SELECT * EXCLUDE (s) REPLACE ('z' AS a, -id AS id) FROM t",
            "SELECT t.* REPLACE (NULL AS a) FROM t",
            "SELECT x.* REPLACE (y.a AS a), y.id FROM t AS x JOIN t AS y ON x.id = y.a",
            "SELECT * REPLACE (0 AS id) FROM t AS x JOIN t AS y USING (id)",
            "SELECT * REPLACE (id IN (SELECT a FROM t) AS s) FROM t WHERE id = 2",
            "SELECT * REPLACE (sum(a) OVER () AS a) FROM t UNION ALL SELECT 0, 1.5, 'z'",
            "SELECT 2 * replace(s, 'x', '4')::BIGINT AS n, a FROM t WHERE s = 'x'",
        ),
        refused={
            "SELECT * REPLACE (1 AS nope) FROM t": "No field named nope.",
            "SELECT id FROM (SELECT t.* REPLACE (1 AS NOPE) FROM t) AS q": "No field named t.nope.",
            "SELECT * EXCLUDE (nope) REPLACE (1 AS a) FROM t": "No field named nope.",
            "SELECT * EXCEPT (nope) FROM t": "No field named nope.",
            'SELECT * EXCLUDE ("A") FROM t': 'No field named "A".',
            "SELECT * EXCLUDE (a) REPLACE (1 AS A) FROM t": "name the column 'a' twice",
            "SELECT * REPLACE (1 AS a, 2 AS a) FROM t": "name the column 'a' twice",
            "SELECT * RENAME (nope AS b) FROM t": "No field named nope; the columns of * are id, a, s",
            "SELECT count(*) FROM t WHERE COLUMNS(*) > 1": "write a, with each column by its name",
            "SELECT COLUMNS('i') + COLUMNS('a') FROM t": "once in an item; write the columns by their names",
            "SELECT x FROM (WITH q AS (SELECT 1 AS id) SELECT * RENAME (id AS x) FROM q)": "beside a WITH in brackets",
        },
        has_names=True,
    ),
    "lists unnested in FROM": Feature(
        tables=LISTS,
        queries=(
            "SELECT id, n FROM m, unnest(m.list) AS x(n)",
            "SELECT m.id, x.n FROM m, unnest(m.list) AS x(n)",
            "SELECT id, n FROM m, unnest(list) AS x(n)",
            "SELECT id, x FROM m, unnest(list) AS x",
            "SELECT id, x FROM m, unnest(list) x",
            "SELECT id, unnest FROM m, unnest(m.list)",
            "SELECT id, x.n FROM m CROSS JOIN unnest(m.list) AS x(n)",
            "SELECT id, x.n FROM m CROSS JOIN LATERAL unnest(m.list) AS x(n)",
            "SELECT id, x.n FROM m JOIN LATERAL unnest(m.list) AS x(n) ON true",
            "SELECT id, x.n FROM m, LATERAL unnest(m.list) AS x(n)",
            "SELECT id, x.n FROM m LEFT JOIN LATERAL unnest(m.list) AS x(n) ON true",
            "SELECT id, x.n FROM m LEFT JOIN unnest(m.list) AS x(n) ON TRUE",
            "SELECT q.id, x.n FROM m AS q, unnest(q.list) AS x(n) WHERE x.n > 1",
            "SELECT q.id, n * 2 FROM (SELECT * FROM m WHERE p = 'x') AS q, unnest(q.list) AS x(n)",
            "WITH q AS (SELECT * FROM m) SELECT id, n FROM q, unnest(q.list) AS x(n)",
            "SELECT id, n, w FROM m, unnest(m.list) AS x(n), unnest(m.words) AS y(w)",
            "SELECT x.n, count(*) FROM m, unnest(m.list) AS x(n) GROUP BY x.n",
            "SELECT id, sum(n) FROM m, unnest(m.list) AS x(n) GROUP BY id HAVING sum(n) > 1",
            "SELECT m.id, n, v FROM m JOIN o ON m.id = o.k, unnest(m.list) AS x(n)",
            "SELECT id, v FROM m, unnest(m.list) AS x(n), o WHERE o.k = x.n",
            "SELECT * FROM (SELECT id, list, p FROM m) AS m, unnest(m.list) AS x(n) WHERE n = 2",
            "SELECT m.*, n FROM (SELECT id, list FROM m) AS m, unnest(m.list) AS x(n) WHERE n = 2",
            "SELECT x.*, id FROM m, unnest(m.list) AS x(n) WHERE n = 2",
            "SELECT id, n FROM m, unnest(array_append(m.list, id)) AS x(n) WHERE n IS NOT NULL",
            "SELECT id, n FROM m, unnest(m.list) AS x(n) WHERE EXISTS (SELECT 1 FROM o WHERE o.k = x.n)",
            "SELECT id FROM m WHERE id IN (SELECT x.n FROM m AS q, unnest(q.list) AS x(n))",
            "SELECT id, n FROM m, unnest([7]) AS x(n) WHERE id = 1",
            "SELECT n FROM unnest([7, 8]) AS x(n)",
            "SELECT id, n FROM m, unnest(m.list) AS x(n) UNION ALL SELECT id, n FROM m, unnest(m.list) AS x(n)",
        ),
        refused={
            "SELECT id FROM m, o, unnest(list) AS x(n)": "named before it as t.list",
            "SELECT * FROM m, o, unnest(m.list) AS x(n)": "name the columns",
            "SELECT id FROM o LEFT JOIN m ON k = id, unnest(m.list) AS x(n)": "unnest of a table of an outer join",
            "SELECT id FROM m, unnest(m.list, m.words) AS x(n, w)": "unnest of several columns",
            "SELECT id FROM m JOIN unnest(m.list) AS x(n) ON n > 1": "write the condition in WHERE",
            "SELECT id FROM m, unnest(m.list) AS x(n) WHERE EXISTS (SELECT 1 FROM o AS x WHERE x.k = 1)": "write another alias",
            "SELECT id FROM m LEFT JOIN unnest(m.list) AS x(n) ON n > 1": "LEFT JOIN … ON true",
        },
    ),
    "recursive queries": Feature(
        tables=NO_TABLES,
        form="WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL {}) SELECT x FROM c",
        queries=(
            "SELECT max(x) + 1 FROM c HAVING max(x) < 4",
            "SELECT y + 1 FROM (SELECT max(x) AS y FROM c) AS q WHERE y < 4",
            "SELECT max(x) + 1 FROM c WHERE x < 4 GROUP BY x",
            "SELECT DISTINCT x + 1 FROM c WHERE x < 4",
            "SELECT sum(x) OVER () + 1 FROM c WHERE x < 4",
            "(SELECT x + 1 FROM c WHERE x < 4 ORDER BY x LIMIT 1)",
            "SELECT c.x + n FROM c LEFT JOIN (SELECT max(n) AS n FROM (VALUES (1)) AS v(n)) AS w ON true WHERE x < 4",
        ),
    ),
    "both zeros": Feature(
        tables=ZEROS,
        form="SELECT id FROM z WHERE {}",
        queries=(
            "d = -0.0",
            "d = 0 AND abs(id) > 0",
            "d <> 0 AND abs(id) > 0",
            "d < 0.0",
            "d <= -0.0 AND abs(id) > 0",
            "d >= -0.0",
            "NOT (d > 0)",
            "d NOT BETWEEN 0 AND 2",
            "0 IN (7, d)",
            "d IN (d, 7)",
            "z.d IN (8, d, r)",
            "CASE WHEN id > 0 THEN d END IN (d, 7)",
            "d IN (0, 2.5)",
            "d IN (0, 7)",
            "d IN (-0.0, 7, 8, 9, 10)",
            "d IN (0, 2.5, 3, 4, 5, 6) AND id > 1",
            "d NOT IN (0.0, 3, 4, 5, 6)",
            "z.d NOT IN (0, 2.5)",
            "NOT z.d IN (0e0, 4, 5, 6)",
            "d IN (1, 2, 3, 4)",
            "d IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39)",
            "nullif(d, 0) IS NULL",
            "nullif(z.d, -0.0) = 2.5",
            "CASE d WHEN 0 THEN true ELSE false END",
            "CASE z.d WHEN 2.5 THEN 1 WHEN 0.0 THEN 2 END = 2",
        ),
    ),
    "arithmetic of BIGINT": Feature(
        tables=WIDE,
        form="SELECT {} AS v FROM wide WHERE k = 2",
        queries=(
            "i + 1",
            "i - 7 * 2",
            "(i - 7) * 2",
            "i - 1 - 1",
            "i - (1 - 1)",
            "10 / i * 2",
            "i * n % 4",
            "-i + n",
            "i + -n",
            "- (i + 1)",
            "n * n",
            "n + f",
            "i * 1.5",
            "i + f * i",
            "CAST(i * m AS VARCHAR)",
            "i * CASE WHEN i > 1 THEN i + 1 ELSE 0 END",
            "CASE i + 1 WHEN 6 THEN i * 2 WHEN i - 1 THEN 0 END + 1",
            "abs(i - 9) + length('ab') * i",
            "i + (SELECT count(*) FROM wide)",
            "i::int * i::bigint",
            "i + 1 = 6 AND NOT i - 1 = 3",
            "i + 1 BETWEEN i - 1 AND i * 2",
            "i + 1 IN (i, i + 1)",
        ),
    ),
    "products of intervals": Feature(
        tables=INTERVALS,
        form="SELECT TIMESTAMP '2024-01-01 00:00:00' + {} AS v",
        queries=(
            "INTERVAL '1 day' * 2",
            "2 * INTERVAL '1 day'",
            "INTERVAL '2' DAY * 3",
            "INTERVAL 2 DAY * 3",
            "INTERVAL '1 day' * -1 + INTERVAL '1 week'",
            "INTERVAL '1 day' / 2",
            "INTERVAL '1 day' * 1.5",
            "INTERVAL '1 month 2 days' * 2",
            "INTERVAL '1 month' * 0.5",
            "INTERVAL '1 year' / 12",
            "INTERVAL '12 hours' * (1 + 1)",
            "abs(-2) * INTERVAL '1 day'",
            "CAST('2' AS BIGINT) * INTERVAL '1 day'",
            "CASE WHEN true THEN 2 END * INTERVAL '1 day'",
        ),
    ),
    "products of intervals and columns": Feature(
        tables=INTERVALS,
        form="SELECT id, {} AS v FROM m",
        queries=(
            "d + INTERVAL '1 day' * a",
            "d + a * INTERVAL '1 day'",
            "d - m.a * INTERVAL '1 month'",
            "ts + INTERVAL '1' HOUR * a",
            "ts + INTERVAL '1 hour 30 minutes' * a",
            "ts + INTERVAL '10 days' * f",
            "ts + (a + 1) * INTERVAL '1 day'",
            "ts + -a * INTERVAL '1 day'",
        ),
        refused={
            "SELECT d + INTERVAL '1 hour' * a FROM m": "write CAST(d AS TIMESTAMP) in place of d",
            "SELECT d + a * INTERVAL '30 minutes' FROM m": "write CAST(d AS TIMESTAMP) in place of d",
            "SELECT INTERVAL '1 day' / a FROM m": "write INTERVAL '1 day' * (a + 1)",
            "SELECT INTERVAL '1 day' / 0": "write INTERVAL '1 day' * (a + 1)",
            "SELECT INTERVAL '1 day' * 2 * a FROM m": "write INTERVAL '1 day' * (a + 1)",
            "SELECT a * 2 * INTERVAL '1 day' FROM m": "write INTERVAL '1 day' * (a + 1)",
        },
    ),
    "moments of any year and form": Feature(
        tables=MOMENTS,
        form="SELECT id FROM t WHERE {}",
        queries=(
            "ts < '9999-12-31'",
            "ts <= '9999-12-31 23:59:59.999999'",
            "ts > '0001-01-01'",
            "'0001-01-01' < ts",
            "ts >= '2024-02-29 10:00'",
            "ts = '2024-02-29T10:00'",
            "ts = '2024-2-29 10:00'",
            "ts >= '2024-1-1'",
            "ts BETWEEN '0001-01-01' AND '2024-02-29 10:00'",
            "ts NOT BETWEEN '1677-01-01' AND '9999-12-31'",
            "ts IN ('2024-02-29 10:00', '9999-12-31 23:59:59.999999')",
            "ts NOT IN ('2024-02-29 10:00:00', '0001-01-01', '1999-01-01')",
            "CASE WHEN ts < '0002-01-01' THEN 1 ELSE 0 END = 1",
            "ts = CAST('2024-02-29 10:00' AS TIMESTAMP)",
        ),
    ),
    "casts that fail": Feature(
        tables=TRIED,
        form="SELECT x FROM t WHERE {}",
        queries=(
            "try_cast(x AS INT) > 1",
            "1 < try_cast(x AS INT)",
            "try_cast(x AS INT) <> 5",
            "try_cast(x AS INT) IN (0, 5)",
            "try_cast(x AS INT) NOT IN (0)",
            "try_cast(x AS INT) BETWEEN 0 AND 4000000000",
            "try_cast(x AS INT) IS NULL",
        ),
    ),
    "constants of the left side of a FULL JOIN": Feature(
        tables=SIDES,
        form="SELECT {} FROM (SELECT j AS k, 1 AS x FROM l) AS a FULL JOIN (SELECT k + 9 AS y, 5 AS z FROM r) AS b ON a.k = b.y",
        queries=(
            "a.x, b.y, row_number() OVER (ORDER BY a.x NULLS FIRST, b.y NULLS LAST, k)",
            "a.x, sum(k) OVER (ORDER BY a.x NULLS LAST), first_value(a.x) OVER (ORDER BY b.z NULLS LAST, a.x NULLS FIRST)",
            "array_agg(a.x ORDER BY a.x NULLS FIRST, b.y NULLS LAST)",
            "(SELECT array_agg(x) FROM (SELECT a.x FROM (SELECT i, 1 AS x FROM l) AS a FULL JOIN r ON a.i = r.k ORDER BY a.x NULLS FIRST) AS q), k",
        ),
    ),
    "joins and sets beside those that are refused": Feature(
        tables=NO_TABLES,
        queries=(
            "SELECT count(*) = 1 FROM (SELECT 1 EXCEPT SELECT 2)",
            "SELECT x = 1 FROM (SELECT 1 AS x, 2 AS y) AS t",
            "SELECT k = 1 FROM (SELECT 1 AS k, 2 AS x) AS a LEFT JOIN (SELECT 3 AS k, 4 AS y) AS b USING (k)",
            "SELECT k = 1 FROM (SELECT 1 AS k, 2 AS x) AS a NATURAL LEFT JOIN (SELECT 3 AS k, 4 AS y) AS b",
            "SELECT count(*) = 0 FROM (SELECT 1 AS k, 2 AS x) AS a JOIN (SELECT 3 AS k, 4 AS y) AS b USING (k)",
            "SELECT b.k = 3 FROM (SELECT 1 AS k, 2 AS x) AS a RIGHT JOIN (SELECT 3 AS k, 4 AS y) AS b ON a.k = b.k",
            "SELECT count(*) = 2 FROM (SELECT 1 AS k, 2 AS x) AS a FULL JOIN (SELECT 3 AS k, 4 AS y) AS b ON a.k = b.k LEFT JOIN (SELECT 4 AS y) AS c USING (y)",
            "SELECT count(*) = 2 FROM (SELECT 1 UNION ALL SELECT 1)",
        ),
    ),
    "texts of moments": Feature(
        tables={
            "said (id BIGINT, s VARCHAR)": (
                "bucket(2, id)",
                "(1, '2024-01-05 10:00'), (2, '2024-1-5 9:30'), (3, '2024-02-29'), (4, '2024-02-29T10:15:30.5'), (5, NULL), (6, ' 2024-01-05 10:00 ')",
            )
        },
        queries=[
            "SELECT id, CAST(s AS TIMESTAMP) FROM said",
            "SELECT id, s::TIMESTAMP FROM said WHERE s::TIMESTAMP > TIMESTAMP '2024-01-05 09:45:00'",
            "SELECT id, TRY_CAST(s AS TIMESTAMP), TRY_CAST(s || ' and more' AS TIMESTAMP) FROM said",
            "SELECT s::TIMESTAMP, count(*) FROM said GROUP BY s::TIMESTAMP ORDER BY s::TIMESTAMP",
            "SELECT id FROM said ORDER BY CAST(s AS TIMESTAMP) NULLS FIRST, id",
            "SELECT id, TRY_CAST('10' AS TIME), TRY_CAST(s AS TIME), TRY_CAST('1' || id || ':30' AS TIME), '09:15'::TIME FROM said WHERE id < 3",
            "SELECT max(CAST(s AS TIMESTAMP)), date_trunc('month', min(s::TIMESTAMP)) FROM said",
        ],
    ),
    "texts of values": Feature(
        tables={
            "valued (id BIGINT, ts TIMESTAMP, d DATE, t TIME, l BIGINT[], w VARCHAR[])": (
                "bucket(2, id)",
                "(1, '2024-01-05 10:00', '2024-01-05', '10:00:00.5', [1, NULL], ['a', 'b, c', '']), (2, NULL, NULL, NULL, NULL, NULL), (3, '2024-02-29 10:15:30.25', '1969-12-31', '00:00:00', [], ['it''s', 'x:y', 'NULL', NULL])",
            )
        },
        queries=[
            *(
                f"SELECT id, {text} FROM valued"
                for text in (
                    "CAST(l AS VARCHAR), CAST(w AS VARCHAR), CAST([ts] AS VARCHAR), [d, NULL]::VARCHAR",
                    "t::VARCHAR, 'at ' || t, 'at ' || ts, 'on ' || d",
                    "(INTERVAL '1 day' * id)::VARCHAR, 'for ' || (INTERVAL '14 months 2 days 90 minutes' * id)",
                    "(ts - TIMESTAMP '2024-01-01')::VARCHAR, (TIMESTAMP '2024-01-01' - ts)::VARCHAR",
                    "CAST({'a': id, 'b': ts} AS VARCHAR), {'a b': w}::VARCHAR, map(['x', 'y'], [id, NULL])::VARCHAR",
                    "CAST([true, NULL] AS VARCHAR), [[1, id], NULL, []]::VARCHAR, [1.50::DECIMAL(9, 2), id]::VARCHAR",
                    "length(t::VARCHAR), left(ts::VARCHAR, 13), left('' || ts, 13)",
                    "printf('%s', ts), format('{}', ts)",
                )
            ),
            "SELECT string_agg(ts, '; ' ORDER BY id), string_agg(DISTINCT t, ';' ORDER BY t) FROM valued",
            "SELECT string_agg(l, '; ' ORDER BY id DESC) FROM valued",
            "SELECT array_to_string([ts, NULL, ts], '; '), array_to_string([INTERVAL '1 day', INTERVAL '90 minutes'], ', ') FROM valued WHERE ts IS NOT NULL",
            "SELECT l::VARCHAR, count(*) FROM valued GROUP BY l::VARCHAR",
            "SELECT list_concat(w, []::VARCHAR[]), [id]::VARCHAR[], w::VARCHAR[] FROM valued",
        ],
        refused={
            "SELECT length(l) FROM valued": "write len",
            "SELECT reverse(w) FROM valued": "write list_reverse",
            "SELECT concat(l, 'x') FROM valued": "write list_concat",
            "SELECT concat_ws(',', w, 'x') FROM valued": "write array_to_string",
            "SELECT left(w, 1) FROM valued": "write l",
        },
    ),
    "lists with NULL in them": Feature(
        tables={
            "sets (id BIGINT, l INT[], r INT[])": (
                "bucket(2, id)",
                "(1, [1, 2], [1, NULL]), (2, [1, NULL], [NULL, 3]), (3, [], [NULL]), (4, NULL, [1]), (5, [1, 2, 3], []), (6, [NULL], [NULL]), (7, [1], NULL)",
            )
        },
        queries=[
            *(
                f"SELECT id, {word}_has_any(l, r), {word}_has_all(l, r), {word}_has_all(r, l) FROM sets"
                for word in ("array", "list")
            ),
            "SELECT id FROM sets WHERE list_has_any(l, [2, NULL]) OR list_has_all(l, [1, 2, NULL])",
            "SELECT list_has_any(l, r), count(*) FROM sets GROUP BY list_has_any(l, r)",
            "SELECT id, l @> r, l <@ r, r <@l, l && r, (r && [1]) = true FROM sets",
            "SELECT id FROM sets WHERE NOT l @> r OR l && [2, 3] AND id > 1 AND [1] <@ l",
        ],
    ),
    "texts of doubles": Feature(
        tables={
            "doubles (id BIGINT, d DOUBLE, f REAL)": (
                "bucket(2, id)",
                "(1, 1e300, 1.5), (2, 1e16, 1e15), (3, 1e-5, 0.1), (4, 1e15, 123456.78), (5, NULL, NULL), (6, 0, 1e-5), (7, 123456789012345678, 3e38), (8, 'nan', '-inf'), (9, 1e-4, 1e16), (10, 0.1, -7), (11, 9007199254740993, 16777217), (12, 1.0, 2.50), (13, 123456789012.5, 1.5e11), (14, -15000000000, 12345678900), (15, 1700000000123, 9999999999)",
            )
        },
        queries=[
            "SELECT id, d::VARCHAR, CAST(f AS TEXT), d || 'x', concat(f, '-', d) FROM doubles",
            "SELECT [d, 1.5, NULL]::VARCHAR, {'a': f}::VARCHAR FROM doubles",
            "SELECT d::VARCHAR, count(*) FROM doubles GROUP BY d::VARCHAR",
            "SELECT string_agg(d, ';' ORDER BY id), string_agg(f::VARCHAR, ';' ORDER BY id) FROM doubles",
            "SELECT id, length(d::VARCHAR) FROM doubles WHERE d::VARCHAR LIKE '%e+%' OR f::VARCHAR = '1e-05'",
            "SELECT 1e20::VARCHAR, CAST(1e-7 AS VARCHAR), (1e15)::VARCHAR, 1.0::DOUBLE::VARCHAR",
            "SELECT format('{}', d), printf('%.2f', f) FROM doubles WHERE id IN (2, 3, 12)",
        ],
    ),
    "local times and moments": Feature(
        tables={
            "clocks (id BIGINT, ts TIMESTAMP, z TIMESTAMPTZ, d DATE)": (
                "bucket(2, id)",
                "(1, '2024-02-29 13:00', '2024-02-29 12:00:00+00', '2024-02-29'), (2, '2024-03-31 02:30', '2024-03-31 01:00:00+00', '2024-03-31'), (3, '2024-10-27 02:30:00.5', '2024-10-27 00:30:00+00', '2024-10-27'), (4, NULL, NULL, NULL), (5, '9999-01-01', '9999-01-01 00:00:00+00', '2099-12-31'), (6, '1969-07-20 20:17:40', '2024-06-30 23:00:00+00', '1969-12-31')",
            )
        },
        queries=[
            *(
                f"SELECT id, {values} FROM clocks"
                for values in (
                    "(z AT TIME ZONE 'Europe/Oslo')::VARCHAR, (ts AT TIME ZONE 'Europe/Oslo')::VARCHAR",
                    "(ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo')::VARCHAR, (z AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo')::VARCHAR",
                    "(d AT TIME ZONE 'America/New_York')::VARCHAR, hour(ts AT TIME ZONE 'Europe/Oslo'), hour(z AT TIME ZONE 'Asia/Kolkata')",
                    "(z AT TIME ZONE 'Europe/Oslo')::DATE, date_trunc('day', z AT TIME ZONE 'Europe/Oslo')::VARCHAR",
                    "epoch(z AT TIME ZONE 'Europe/Oslo'), epoch(ts AT TIME ZONE 'Europe/Oslo'), ((z AT TIME ZONE 'UTC') - ts)::VARCHAR",
                    "timezone('Europe/Oslo', z)::VARCHAR, timezone('Europe/Oslo', ts)::VARCHAR",
                )
            ),
            "WITH q AS (SELECT id, z AT TIME ZONE 'UTC' AS y FROM clocks) SELECT id, (y AT TIME ZONE 'Europe/Oslo')::VARCHAR FROM q WHERE y AT TIME ZONE 'Asia/Tokyo' < y AT TIME ZONE 'UTC'",
            "SELECT id, (y AT TIME ZONE 'Europe/Oslo')::VARCHAR FROM (SELECT id, z AT TIME ZONE 'UTC' AS y FROM clocks) AS q ORDER BY y AT TIME ZONE 'UTC'",
            "SELECT (z AT TIME ZONE 'Europe/Oslo')::DATE AS k, count(*) FROM clocks GROUP BY (z AT TIME ZONE 'Europe/Oslo')::DATE",
            "SELECT a.id, b.id FROM clocks a JOIN clocks b ON a.z AT TIME ZONE 'Europe/Oslo' = b.ts",
            "SELECT id FROM clocks WHERE ts = '2024-02-29 13:00:00+05' OR d IN ('2024-03-31 23:00:00-02', '1969-12-31') OR z = '2024-06-30 20:00:00-03'",
            "SELECT id FROM clocks WHERE z BETWEEN '2024-02-29 10:00:00-02' AND '2024-03-31T01:00Z' OR '1969-07-20 20:17:40.00+0100' >= ts",
            "SELECT id FROM clocks WHERE EXISTS (SELECT 1 FROM clocks AS u WHERE u.z AT TIME ZONE 'UTC' = clocks.ts)",
        ],
        refused={
            "SELECT z AT TIME ZONE 'Nowhere/X' FROM clocks": "time zone 'Nowhere/X' is not known",
            "SELECT ts" + 40 * " AT TIME ZONE 'UTC'" + " FROM clocks": "expected at most 32",
        },
    ),
    "dates beside timestamps": Feature(
        tables={
            "kept (id BIGINT, d DATE, ts TIMESTAMP, z TIMESTAMPTZ)": (
                "bucket(2, id)",
                "(1, '9999-12-31', '2024-01-01', '2024-01-01 00:00:00+00'), (2, '2024-01-01', '9999-12-31', '0001-01-01 00:00:00+00'), (3, NULL, NULL, NULL), (4, '0001-01-01', '2024-01-01 00:00:00.000001', '9999-12-31 23:00:00+00')",
            )
        },
        queries=[
            *(
                f"SELECT id FROM kept WHERE {condition}"
                for condition in (
                    "ts < d",
                    "d = ts",
                    "d > TIMESTAMP '2025-01-01 00:00:00'",
                    "ts < DATE '9999-12-31'",
                    "now() < d",
                    "ts BETWEEN DATE '2000-01-01' AND DATE '9999-12-31'",
                    "ts IN (DATE '9999-12-31', d)",
                    "d NOT IN (TIMESTAMP '2024-01-01 00:00:00', ts)",
                    "d IS DISTINCT FROM ts",
                    "z > d",
                    "coalesce(ts, DATE '9999-12-31') >= coalesce(d, DATE '9999-12-31')",
                    "CASE WHEN id = 1 THEN d ELSE ts END > DATE '2024-01-01'",
                )
            ),
            "SELECT id, coalesce(d, ts), least(d, ts), greatest(ts, d), nullif(ts, d) FROM kept",
            "SELECT id, (ts - d)::VARCHAR, (d - ts)::VARCHAR, d - DATE '2024-01-01' - 1 FROM kept",
            "SELECT id FROM kept WHERE d - ts > INTERVAL '1 day' OR ts - d < INTERVAL '0 days'",
            "SELECT a.id, b.id FROM kept a JOIN kept b ON a.d = b.ts",
            "SELECT a.id, b.id FROM kept a LEFT JOIN kept b ON a.d = b.ts AND b.id > 1",
            "SELECT coalesce(d, ts), count(*) FROM kept GROUP BY coalesce(d, ts) ORDER BY coalesce(d, ts)",
        ],
    ),
    "texts and casts of intervals and moments": Feature(
        tables={
            "spans (id BIGINT, s VARCHAR)": (
                None,
                "(1, '1 day 02:00:00'), (2, '1:30:00.5'), (3, NULL), (4, '2 weeks'), (6, '90'), (5, '-2 months 3 days')",
            )
        },
        queries=(
            "SELECT id, s::INTERVAL::VARCHAR, TRY_CAST(s AS INTERVAL)::VARCHAR FROM spans",
            "SELECT (INTERVAL '1 day 02:00:00')::VARCHAR, CAST(INTERVAL '-1:30:00' AS VARCHAR), ('2 days ago'::INTERVAL)::VARCHAR",
            "SELECT TIMESTAMP '2024-01-31' + INTERVAL '1 month 01:00:00'",
            "SELECT TIMESTAMP '2024-01-01 10:00'::DATE, TIMESTAMP '2024-01-01 10:00'::TIME, DATE '2024-01-01'::TIMESTAMP, '2024-01-01 10:00'::TIMESTAMP::DATE",
            "SELECT epoch(INTERVAL '1 year 2 days'), epoch(INTERVAL '-14 months'), epoch(INTERVAL '1 month 1.5 seconds')",
        ),
        refused={
            "SELECT CAST(id AS TIMESTAMP) FROM spans": "write to_timestamp_seconds(n)",
            "SELECT TRY_CAST(id + 1 AS DATE) FROM spans": "write DATE '1970-01-01' + n",
            "SELECT id FROM spans WHERE id::TIME > TIME '10:00'": "write make_time",
            "SELECT max(CAST(TIMESTAMP '2024-01-01' + INTERVAL '1 day' * id AS BIGINT)) FROM spans": "write epoch(ts)",
            "SELECT current_date()::INT, id FROM spans": "write d - DATE '1970-01-01'",
        },
    ),
    "functions as keys": Feature(
        tables={
            "keyed (id BIGINT, s VARCHAR, ts TIMESTAMP)": (
                "bucket(2, id)",
                "(1, 'a', '2024-01-01'), (2, 'b', '2024-02-01'), (3, 'a', '2024-01-05'), (4, NULL, NULL)",
            )
        },
        queries=[
            *(
                f"SELECT {key}, count(*) FROM keyed GROUP BY {key} HAVING {key} IS NOT NULL OR count(*) > 0 ORDER BY {key}"
                for key in (
                    "levenshtein(s, 'b')",
                    "last_day(ts)",
                    "lpad(s, id::INT, '-')",
                    "repeat(s, id)",
                    "strftime(ts, '%Y-%m')",
                    "regexp_replace(s, 'a', s)",
                    "strpos(s, s)",
                    "upper(s) || levenshtein(s, 'x')",
                    "CASE WHEN id > 1 THEN levenshtein(s, 'b') ELSE -levenshtein(s, 'c') END",
                )
            ),
            "SELECT levenshtein(s, 'b'), count(*) FROM keyed GROUP BY ROLLUP (levenshtein(s, 'b'))",
            "SELECT last_day(ts), count(*) FROM keyed AS k GROUP BY last_day(k.ts)",
            "SELECT levenshtein(s, 'b'), sum(id) OVER (PARTITION BY levenshtein(s, 'b')) FROM keyed",
            "SELECT DISTINCT lpad(s, id::INT, '-') FROM keyed ORDER BY lpad(s, id::INT, '-')",
            "SELECT upper(s) AS s, levenshtein(s, 'B') FROM keyed WHERE s IS NOT NULL GROUP BY s, id ORDER BY id",
            *(
                f"SELECT {key} AS {name}, count(*) FROM keyed GROUP BY {key}"
                for name in ("s", "ts", "k")
                for key in (
                    "levenshtein(s, 'b')",
                    "date_trunc('month', ts)",
                    "date_trunc('month', CAST(ts AS DATE))",
                    "date_trunc('month', CASE WHEN id > 1 THEN ts END)",
                    "levenshtein(CASE WHEN id IN (1, 2) OR s IS NULL THEN CAST(id AS VARCHAR) ELSE s END, 'b')",
                )
            ),
            "SELECT list_transform([1, 2], lambda x: x + 1) AS l, levenshtein(s, 'b'), count(*) FROM keyed GROUP BY levenshtein(s, 'b')",
            "SELECT id::VARCHAR AS s, levenshtein(s, 'b'), count(*) FROM keyed GROUP BY id, levenshtein(s, 'b')",
            "SELECT DATE '2024-01-07' AS ts, date_trunc('month', ts) AS m FROM keyed GROUP BY date_trunc('month', ts)",
            "SELECT date_trunc('month', k.ts) AS ts, count(*) FROM keyed AS k JOIN keyed AS j USING (id) GROUP BY date_trunc('month', k.ts)",
            "SELECT levenshtein(s, 'b') AS s, count(*) FROM keyed WHERE levenshtein(s, 'b') > 0 GROUP BY levenshtein(s, 'b') HAVING count(*) > 1",
            "SELECT levenshtein(s, 'b') FROM keyed UNION ALL SELECT levenshtein(s, 'b') FROM (SELECT 'abc' AS s) ORDER BY 1",
            "SELECT repeat(s, 2), repeat(s, 2), repeat(s, 2) || repeat(s, 2), repeat(s, 2), repeat(s, 2) FROM keyed",
        ],
    ),
    "long numbers": Feature(
        tables=LONG,
        form="SELECT id FROM long_rows WHERE {}",
        queries=(
            "p = 123456789012345678.12",
            "p = -123456789012345678.12",
            "p > 123456789012345678.12",
            "p <> 123456789012345678.13",
            "p IN (1.5, 123456789012345678.13)",
            "p BETWEEN 123456789012345678.115 AND 123456789012345678.125",
            "p - 123456789012345678.12 = 0",
        ),
    ),
}
FEATURES["both zeros of REAL"] = replace(
    FEATURES["both zeros"], form="SELECT id FROM (SELECT id, r AS d, d AS r FROM z) AS z WHERE {}"
)
