"""Every clause that sqlparser's grammar for queries knows, over `t (a, b, id)` and `u (a, c)`, and what becomes of it."""

from __future__ import annotations

import pytest

REFUSED = [
    # a query that has the clause, the same without it, the name that the refusal gives it
    pytest.param("SELECT a FROM t PREWHERE a = 1", "SELECT a FROM t", "PREWHERE", id="PREWHERE"),
    pytest.param(
        "SELECT a FROM t x PREWHERE a = 1 WHERE b = 'x'",
        "SELECT a FROM t x WHERE b = 'x'",
        "PREWHERE",
        id="PREWHERE and WHERE",
    ),
    pytest.param(
        "SELECT t.a FROM t JOIN u ON t.a = u.a PREWHERE t.a = 1",
        "SELECT t.a FROM t JOIN u ON t.a = u.a",
        "PREWHERE",
        id="PREWHERE after ON",
    ),
    pytest.param("SELECT 1 AS x PREWHERE false", "SELECT 1 AS x", "PREWHERE", id="PREWHERE without FROM"),
    pytest.param("FROM t SELECT * PREWHERE a = 1", "FROM t SELECT *", "PREWHERE", id="PREWHERE after *"),
    pytest.param(
        "FROM t SELECT * EXCLUDE (b) PREWHERE a = 1",
        "FROM t SELECT * EXCLUDE (b)",
        "PREWHERE",
        id="PREWHERE after the options of *",
    ),
    pytest.param(
        "SELECT a FROM t START WITH a = 2 CONNECT BY PRIOR a = id", "SELECT a FROM t", "START WITH", id="START WITH"
    ),
    pytest.param("SELECT a FROM t CONNECT BY a = id", "SELECT a FROM t", "CONNECT BY", id="CONNECT BY"),
    pytest.param(
        "SELECT a FROM t WHERE a = 1 CONNECT BY NOCYCLE a = id",
        "SELECT a FROM t WHERE a = 1",
        "CONNECT BY",
        id="CONNECT BY NOCYCLE",
    ),
    pytest.param(
        "SELECT a, count(*) FROM t GROUP BY a WITH TOTALS",
        "SELECT a, count(*) FROM t GROUP BY a",
        "WITH TOTALS",
        id="WITH TOTALS",
    ),
    pytest.param(
        "SELECT a, count(*) FROM t GROUP BY ALL WITH ROLLUP",
        "SELECT a, count(*) FROM t GROUP BY ALL",
        "WITH ROLLUP",
        id="ALL WITH ROLLUP",
    ),
    pytest.param(
        "SELECT a, count(*) FROM t GROUP BY 1 WITH CUBE",
        "SELECT a, count(*) FROM t GROUP BY 1",
        "WITH CUBE",
        id="a number WITH CUBE",
    ),
    pytest.param(
        "SELECT count(*) FROM t GROUP BY (a, b) WITH ROLLUP",
        "SELECT count(*) FROM t GROUP BY (a, b)",
        "WITH ROLLUP",
        id="a row WITH ROLLUP",
    ),
    pytest.param(
        "SELECT a FROM t GROUP BY a WITH ROLLUP WITH TOTALS",
        "SELECT a FROM t GROUP BY a",
        "WITH ROLLUP",
        id="two modifiers",
    ),
    pytest.param(
        "SELECT a FROM t GROUP BY a GROUPING SETS ((a), ())",
        "SELECT a FROM t GROUP BY a",
        "GROUPING SETS",
        id="GROUPING SETS after expressions",
    ),
    pytest.param("SELECT a FROM t CLUSTER BY a", "SELECT a FROM t", "CLUSTER BY", id="CLUSTER BY"),
    pytest.param("SELECT a FROM t DISTRIBUTE BY a", "SELECT a FROM t", "DISTRIBUTE BY", id="DISTRIBUTE BY"),
    pytest.param("SELECT a FROM t SORT BY a", "SELECT a FROM t", "SORT BY", id="SORT BY"),
    pytest.param("SELECT a INTO y FROM t", "SELECT a FROM t", "INTO", id="INTO"),
    pytest.param("SELECT TOP 1 PERCENT a FROM t", "SELECT a FROM t", "TOP", id="TOP PERCENT"),
    pytest.param("SELECT TOP 1 WITH TIES a FROM t", "SELECT a FROM t", "TOP", id="TOP WITH TIES"),
    pytest.param("SELECT TOP (1 + 1) a FROM t", "SELECT a FROM t", "TOP", id="TOP of a sum"),
    pytest.param("SELECT TOP 1 a FROM t LIMIT 2", "SELECT a FROM t LIMIT 2", "TOP", id="TOP and LIMIT"),
    pytest.param("SELECT TOP 1 a FROM t UNION SELECT 3", "SELECT a FROM t UNION SELECT 3", "TOP", id="TOP and UNION"),
    pytest.param("SELECT 3 UNION SELECT TOP 1 a FROM t", "SELECT 3 UNION SELECT a FROM t", "TOP", id="UNION and TOP"),
    pytest.param(
        "SELECT a FROM t LATERAL VIEW explode(b) v AS c", "SELECT a FROM t", "LATERAL VIEW", id="LATERAL VIEW"
    ),
    pytest.param("SELECT * ILIKE 'b%' FROM t", "SELECT * FROM t", "ILIKE", id="* ILIKE"),
    pytest.param("SELECT t.* ILIKE 'b%' FROM t", "SELECT t.* FROM t", "ILIKE", id="t.* ILIKE"),
    pytest.param(
        "SELECT a FROM t LIMIT 2 FETCH FIRST 1 ROW ONLY", "SELECT a FROM t LIMIT 2", "FETCH", id="LIMIT and FETCH"
    ),
    pytest.param(
        "SELECT a FROM t ORDER BY a FETCH NEXT 5 PERCENT ROWS WITH TIES",
        "SELECT a FROM t ORDER BY a",
        "FETCH",
        id="FETCH WITH TIES",
    ),
    pytest.param("SELECT a FROM t LIMIT 1 BY a", "SELECT a FROM t LIMIT 1", "LIMIT … BY", id="LIMIT BY"),
    pytest.param(
        "SELECT a FROM t ORDER BY a WITH FILL FROM 1 TO 9", "SELECT a FROM t ORDER BY a", "WITH FILL", id="WITH FILL"
    ),
    pytest.param(
        "SELECT a FROM t ORDER BY a INTERPOLATE (a AS a + 1)",
        "SELECT a FROM t ORDER BY a",
        "INTERPOLATE",
        id="INTERPOLATE",
    ),
    pytest.param("SELECT a FROM t FOR UPDATE", "SELECT a FROM t", "FOR UPDATE", id="FOR UPDATE"),
    pytest.param(
        "SELECT a FROM t WHERE a = 1 FOR UPDATE OF t SKIP LOCKED",
        "SELECT a FROM t WHERE a = 1",
        "FOR UPDATE",
        id="FOR UPDATE OF",
    ),
    pytest.param("SELECT a FROM t FOR SHARE NOWAIT", "SELECT a FROM t", "FOR SHARE", id="FOR SHARE"),
    pytest.param("SELECT a FROM t LIMIT 1 FOR XML AUTO", "SELECT a FROM t LIMIT 1", "FOR XML", id="FOR XML"),
    pytest.param("SELECT a FROM t FOR JSON PATH", "SELECT a FROM t", "FOR JSON", id="FOR JSON"),
    pytest.param("SELECT a FROM t FOR BROWSE", "SELECT a FROM t", "FOR BROWSE", id="FOR BROWSE"),
    pytest.param("SELECT a FROM t SETTINGS max_threads = 1", "SELECT a FROM t", "SETTINGS", id="SETTINGS"),
    pytest.param("SELECT a FROM t FORMAT JSON", "SELECT a FROM t", "FORMAT", id="FORMAT"),
    pytest.param("SELECT a FROM t ORDER BY a FORMAT NULL", "SELECT a FROM t ORDER BY a", "FORMAT", id="FORMAT NULL"),
    pytest.param("SELECT a AS x FORMAT JSON", "SELECT a AS x", "FORMAT", id="FORMAT after an alias"),
    pytest.param("VALUES (1), (2) FORMAT JSON", "VALUES (1), (2)", "FORMAT", id="FORMAT after VALUES"),
    pytest.param("SELECT a FROM t SAMPLE 10", "SELECT a FROM t", "TABLESAMPLE", id="SAMPLE"),
    pytest.param("SELECT a FROM t TABLESAMPLE (10)", "SELECT a FROM t", "TABLESAMPLE", id="TABLESAMPLE of what"),
    pytest.param("SELECT a FROM t TABLESAMPLE (10 ROWS)", "SELECT a FROM t", "TABLESAMPLE", id="TABLESAMPLE ROWS"),
    pytest.param(
        "SELECT a FROM t TABLESAMPLE SYSTEM (10) REPEATABLE (1)",
        "SELECT a FROM t",
        "TABLESAMPLE",
        id="TABLESAMPLE REPEATABLE",
    ),
    pytest.param(
        "SELECT a FROM t TABLESAMPLE (BUCKET 1 OUT OF 2)", "SELECT a FROM t", "TABLESAMPLE", id="TABLESAMPLE BUCKET"
    ),
    pytest.param(
        "SELECT a FROM (SELECT * FROM t) AS x TABLESAMPLE (0 PERCENT)",
        "SELECT a FROM (SELECT * FROM t) AS x",
        "TABLESAMPLE",
        id="TABLESAMPLE of a query",
    ),
    pytest.param(
        "SELECT a FROM t |> TABLESAMPLE SYSTEM (10 PERCENT)", "SELECT a FROM t", "TABLESAMPLE", id="|> TABLESAMPLE"
    ),
    pytest.param("SELECT a FROM t PARTITION (p0)", "SELECT a FROM t", "PARTITION", id="PARTITION"),
    pytest.param(
        "SELECT x.a FROM t PARTITION (p0, p1) AS x JOIN u ON x.a = u.a",
        "SELECT x.a FROM t AS x JOIN u ON x.a = u.a",
        "PARTITION",
        id="PARTITION and alias",
    ),
    pytest.param("SELECT a FROM t WITH (NOLOCK)", "SELECT a FROM t", "WITH (…)", id="WITH (NOLOCK)"),
    pytest.param(
        "SELECT t.a FROM (t JOIN u x WITH (INDEX(i)) ON t.a = x.a)",
        "SELECT t.a FROM (t JOIN u x ON t.a = x.a)",
        "WITH (…)",
        id="WITH (INDEX)",
    ),
    pytest.param("SELECT a FROM t USE INDEX (i)", "SELECT a FROM t", "INDEX", id="USE INDEX"),
    pytest.param(
        "SELECT a FROM t WITH ORDINALITY", "SELECT a FROM t", "WITH ORDINALITY", id="WITH ORDINALITY of a table"
    ),
    pytest.param(
        "SELECT * FROM generate_series(1, 3) WITH ORDINALITY",
        "SELECT * FROM generate_series(1, 3)",
        "WITH ORDINALITY",
        id="WITH ORDINALITY of a function",
    ),
    pytest.param(
        "SELECT * FROM unnest([1, 2]) WITH OFFSET", "SELECT * FROM unnest([1, 2])", "WITH OFFSET", id="WITH OFFSET"
    ),
    pytest.param(
        "SELECT * FROM generate_series(1, 3, SETTINGS x = 1)",
        "SELECT * FROM generate_series(1, 3)",
        "SETTINGS",
        id="SETTINGS of a function",
    ),
    pytest.param(
        "SELECT * FROM t FOR SYSTEM_TIME FROM '2026-01-01' TO '2026-01-02'",
        "SELECT * FROM t",
        "a range of versions",
        id="FOR SYSTEM_TIME FROM … TO",
    ),
    pytest.param(
        "SELECT * FROM (SELECT 1) FOR VERSION AS OF 1",
        "SELECT * FROM (SELECT 1)",
        "a version of what is no table",
        id="FOR VERSION AS OF of a query",
    ),
    pytest.param(
        "SELECT * FROM t AS x(p INT, q TEXT, r INT)",
        "SELECT * FROM t AS x(p, q, r)",
        "a type in a list",
        id="types of an alias",
    ),
    pytest.param(
        "WITH w(p INT) AS (SELECT 'x') SELECT * FROM w",
        "WITH w(p) AS (SELECT 'x') SELECT * FROM w",
        "a type in a list",
        id="types of a CTE",
    ),
    pytest.param(
        "SELECT t.a FROM t GLOBAL JOIN u ON t.a = u.a",
        "SELECT t.a FROM t JOIN u ON t.a = u.a",
        "GLOBAL",
        id="GLOBAL JOIN",
    ),
    pytest.param(
        "SELECT t.a FROM t ASOF JOIN u MATCH_CONDITION (t.a >= u.a)",
        "SELECT t.a FROM t JOIN u ON t.a >= u.a",
        "ASOF JOIN",
        id="ASOF JOIN",
    ),
    pytest.param("SELECT t.a FROM t CROSS APPLY u", "SELECT t.a FROM t CROSS JOIN u", "CROSS APPLY", id="CROSS APPLY"),
    pytest.param("SELECT t.a FROM t OUTER APPLY u", "SELECT t.a FROM t CROSS JOIN u", "OUTER APPLY", id="OUTER APPLY"),
    pytest.param("SELECT * FROM t PIVOT (sum(a) FOR b IN ('x'))", "SELECT * FROM t", "PIVOT", id="PIVOT"),
    pytest.param("SELECT * FROM t UNPIVOT (v FOR n IN (a, id))", "SELECT * FROM t", "UNPIVOT", id="UNPIVOT"),
    pytest.param(
        "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (x) DEFINE x AS a > 1)",
        "SELECT * FROM t",
        "MATCH_RECOGNIZE",
        id="MATCH_RECOGNIZE",
    ),
    pytest.param(
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT 2 LIMIT 1) SELECT * FROM r",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT 2) SELECT * FROM r",
        "WITH RECURSIVE",
        id="LIMIT in WITH RECURSIVE",
    ),
    pytest.param(
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9 ORDER BY n) SELECT * FROM r",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT * FROM r",
        "WITH RECURSIVE",
        id="ORDER BY in WITH RECURSIVE",
    ),
    pytest.param(
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT 2 |> WHERE n > 1) SELECT * FROM r",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT 2) SELECT * FROM r",
        "WITH RECURSIVE",
        id="|> in WITH RECURSIVE",
    ),
    pytest.param(
        "SELECT a FROM t |> AGGREGATE count(*) AS n GROUP BY a DESC",
        "SELECT a FROM t |> AGGREGATE count(*) AS n GROUP BY a",
        "AGGREGATE",
        id="|> AGGREGATE DESC",
    ),
    pytest.param(
        "SELECT a, sum(id) OVER (w ORDER BY id) FROM t WINDOW w AS (PARTITION BY a)",
        "SELECT a, sum(id) OVER (ORDER BY id) FROM t WINDOW w AS (PARTITION BY a)",
        "the name of a window",
        id="OVER (w …)",
    ),
    pytest.param(
        "SELECT count(*) FROM t WINDOW w AS (PARTITION BY a) ORDER BY sum(id) OVER w",
        "SELECT count(*) FROM t WINDOW w AS (PARTITION BY a) ORDER BY sum(id)",
        "the name of a window",
        id="OVER w in ORDER BY",
    ),
    pytest.param(
        "SELECT upper(DISTINCT b) FROM t",
        "SELECT upper(b) FROM t",
        "DISTINCT in a call of upper",
        id="DISTINCT of no aggregate",
    ),
    pytest.param(
        "SELECT upper(b) FILTER (WHERE a = 1) FROM t",
        "SELECT upper(b) FROM t",
        "FILTER in a call of upper",
        id="FILTER of no aggregate",
    ),
    pytest.param(
        "SELECT upper(b ORDER BY a) FROM t",
        "SELECT upper(b) FROM t",
        "ORDER BY in a call of upper",
        id="ORDER BY of no aggregate",
    ),
    pytest.param(
        "SELECT upper(b) OVER (PARTITION BY a) FROM t",
        "SELECT upper(b) FROM t",
        "OVER in a call of upper",
        id="OVER of no aggregate",
    ),
    pytest.param(
        "SELECT upper(b) IGNORE NULLS FROM t",
        "SELECT upper(b) FROM t",
        "IGNORE NULLS in a call of upper",
        id="IGNORE NULLS of no aggregate",
    ),
    pytest.param(
        "SELECT upper(b RESPECT NULLS) FROM t",
        "SELECT upper(b) FROM t",
        "RESPECT NULLS in a call of upper",
        id="RESPECT NULLS inside",
    ),
    pytest.param(
        "SELECT upper(b) WITHIN GROUP (ORDER BY a) FROM t",
        "SELECT upper(b) FROM t",
        "WITHIN GROUP in a call of upper",
        id="WITHIN GROUP of no aggregate",
    ),
    pytest.param(
        "SELECT sum(a)(id) FROM t",
        "SELECT sum(id) FROM t",
        "a second list of arguments",
        id="parameters of an aggregate",
    ),
]

REWRITTEN = [
    pytest.param("SELECT a FROM t FETCH FIRST 5 ROWS ONLY", "SELECT a FROM t LIMIT 5", id="FETCH FIRST"),
    pytest.param("SELECT a FROM t FETCH NEXT ROW ONLY;", "SELECT a FROM t LIMIT 1;", id="FETCH NEXT ROW"),
    pytest.param(
        "SELECT a FROM t ORDER BY a OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY",
        "SELECT a FROM t ORDER BY a OFFSET 2 ROWS LIMIT 3",
        id="OFFSET and FETCH",
    ),
    pytest.param(
        "SELECT a FROM t UNION SELECT c FROM u FETCH FIRST 1 ROW ONLY",
        "SELECT a FROM t UNION SELECT c FROM u LIMIT 1",
        id="FETCH after a UNION",
    ),
    pytest.param("SELECT TOP 5 a FROM t ORDER BY a;", "SELECT a FROM t ORDER BY a LIMIT 5;", id="TOP"),
    pytest.param("SELECT DISTINCT TOP (5) a FROM t", "SELECT DISTINCT a FROM t LIMIT 5", id="DISTINCT TOP"),
    pytest.param(
        "SELECT a FROM (SELECT TOP 1 a FROM t ORDER BY b) x WHERE a IN (SELECT TOP 2 c FROM u)",
        "SELECT a FROM (SELECT a FROM t ORDER BY b LIMIT 1) x WHERE a IN (SELECT c FROM u LIMIT 2)",
        id="TOP in subqueries",
    ),
    pytest.param(
        "WITH x AS (SELECT TOP 2 a FROM t) SELECT TOP 1 a FROM x",
        "WITH x AS (SELECT a FROM t LIMIT 2) SELECT a FROM x LIMIT 1",
        id="TOP in WITH",
    ),
    pytest.param(
        "SELECT a, b, count(*) FROM t GROUP BY a, b WITH ROLLUP",
        "SELECT a, b, count(*) FROM t GROUP BY ROLLUP (a, b)",
        id="WITH ROLLUP",
    ),
    pytest.param(
        "SELECT a + 1, count(*) FROM t GROUP BY a + 1 WITH CUBE HAVING count(*) > 0",
        "SELECT a + 1, count(*) FROM t GROUP BY CUBE (a + 1) HAVING count(*) > 0",
        id="WITH CUBE",
    ),
    pytest.param("SELECT count(*) FROM (FROM t)", "SELECT count(*) FROM (SELECT * FROM t)", id="FROM alone"),
    pytest.param(
        "SELECT * FROM (FROM t |> WHERE a = 1)", "SELECT * FROM (SELECT * FROM t |> WHERE a = 1)", id="FROM and |>"
    ),
    pytest.param(
        "WITH w (SELECT 1 AS x) FROM t SELECT count(*)",
        "WITH w AS (SELECT 1 AS x) FROM t SELECT count(*)",
        id="FROM after a CTE without AS",
    ),
    pytest.param(
        "SELECT a FROM t TABLESAMPLE BERNOULLI (10)",
        "SELECT a FROM (SELECT * FROM t WHERE random() < 0.1) AS t",
        id="TABLESAMPLE BERNOULLI",
    ),
    pytest.param(
        "SELECT x.a FROM s.t AS x TABLESAMPLE SYSTEM (2.5) JOIN u ON x.a = u.a",
        "SELECT x.a FROM (SELECT * FROM s.t WHERE random() < 0.025) AS x JOIN u ON x.a = u.a",
        id="TABLESAMPLE SYSTEM",
    ),
    pytest.param(
        'SELECT a FROM u, "t@1" tablesample (100 percent) WHERE a = 1',
        'SELECT a FROM u, (SELECT * FROM "t@1" WHERE random() < 1) AS "t@1" WHERE a = 1',
        id="TABLESAMPLE PERCENT",
    ),
]

PLANNED = [
    # a query that has the clause, the same without it
    pytest.param("SELECT a FROM t WHERE a = 1", "SELECT a FROM t", id="WHERE"),
    pytest.param("SELECT DISTINCT a FROM t", "SELECT a FROM t", id="DISTINCT"),
    pytest.param("SELECT DISTINCT ON (a) a, b FROM t", "SELECT a, b FROM t", id="DISTINCT ON"),
    pytest.param("SELECT a FROM t GROUP BY ALL", "SELECT a FROM t", id="GROUP BY ALL"),
    pytest.param("SELECT a FROM t GROUP BY ROLLUP (a, b)", "SELECT a FROM t GROUP BY a, b", id="ROLLUP"),
    pytest.param("SELECT a FROM t GROUP BY CUBE (a, b)", "SELECT a FROM t GROUP BY a, b", id="CUBE"),
    pytest.param("SELECT a FROM t GROUP BY GROUPING SETS ((a), ())", "SELECT a FROM t GROUP BY a", id="GROUPING SETS"),
    pytest.param("SELECT a FROM t GROUP BY a HAVING count(*) > 1", "SELECT a FROM t GROUP BY a", id="HAVING"),
    pytest.param("SELECT a FROM t QUALIFY row_number() OVER (ORDER BY id) = 1", "SELECT a FROM t", id="QUALIFY"),
    pytest.param(
        "SELECT sum(id) OVER w FROM t WINDOW w AS (PARTITION BY a)",
        "SELECT sum(id) OVER w FROM t WINDOW w AS (ORDER BY a)",
        id="WINDOW",
    ),
    pytest.param("SELECT a FROM t ORDER BY a", "SELECT a FROM t", id="ORDER BY"),
    pytest.param("SELECT a FROM t ORDER BY a DESC", "SELECT a FROM t ORDER BY a", id="DESC"),
    pytest.param("SELECT a FROM t ORDER BY a NULLS FIRST", "SELECT a FROM t ORDER BY a", id="NULLS FIRST"),
    pytest.param("SELECT a FROM t LIMIT 1", "SELECT a FROM t", id="LIMIT"),
    pytest.param("SELECT a FROM t LIMIT 1, 2", "SELECT a FROM t LIMIT 2", id="LIMIT with a comma"),
    pytest.param("SELECT a FROM t OFFSET 1 ROWS", "SELECT a FROM t", id="OFFSET"),
    pytest.param("SELECT a FROM t UNION SELECT a FROM u", "SELECT a FROM t UNION ALL SELECT a FROM u", id="UNION"),
    pytest.param(
        "SELECT a FROM t UNION BY NAME SELECT a FROM u", "SELECT a FROM t UNION ALL SELECT a FROM u", id="UNION BY NAME"
    ),
    pytest.param("SELECT a FROM t EXCEPT SELECT a FROM u", "SELECT a FROM t", id="EXCEPT"),
    pytest.param("SELECT t.a FROM t NATURAL JOIN u", "SELECT t.a FROM t CROSS JOIN u", id="NATURAL JOIN"),
    pytest.param("SELECT a FROM t LEFT SEMI JOIN u USING (a)", "SELECT a FROM t JOIN u USING (a)", id="SEMI JOIN"),
    pytest.param(
        "SELECT a FROM t LEFT ANTI JOIN u USING (a)", "SELECT a FROM t LEFT SEMI JOIN u USING (a)", id="ANTI JOIN"
    ),
    pytest.param("SELECT * EXCLUDE (a) FROM t", "SELECT * FROM t", id="* EXCLUDE"),
    pytest.param("SELECT * EXCEPT (a) FROM t", "SELECT * FROM t", id="* EXCEPT"),
    pytest.param("SELECT sum(a) FILTER (WHERE a = 1) FROM t", "SELECT sum(a) FROM t", id="FILTER"),
    pytest.param("SELECT sum(DISTINCT a) FROM t", "SELECT sum(a) FROM t", id="DISTINCT in an aggregate"),
    pytest.param("SELECT array_agg(a ORDER BY id) FROM t", "SELECT array_agg(a) FROM t", id="ORDER BY in an aggregate"),
    pytest.param("SELECT first_value(a) IGNORE NULLS FROM t", "SELECT first_value(a) FROM t", id="IGNORE NULLS"),
    pytest.param(
        "SELECT first_value(a IGNORE NULLS ORDER BY id) FROM t",
        "SELECT first_value(a ORDER BY id) FROM t",
        id="IGNORE NULLS inside",
    ),
    pytest.param(
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a DESC) FROM t",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t",
        id="WITHIN GROUP",
    ),
    pytest.param("SELECT sum(a) OVER (PARTITION BY b) FROM t", "SELECT sum(a) OVER () FROM t", id="OVER"),
    pytest.param(
        "SELECT sum(a) OVER (ORDER BY id ROWS 1 PRECEDING) FROM t",
        "SELECT sum(a) OVER (ORDER BY id) FROM t",
        id="a frame",
    ),
    pytest.param("SELECT * FROM t AS x(p, q, r)", "SELECT * FROM t AS x", id="names of columns"),
    pytest.param(
        "SELECT * FROM t CROSS JOIN LATERAL (SELECT * FROM u WHERE u.a = t.a)",
        "SELECT * FROM t CROSS JOIN (SELECT * FROM u)",
        id="LATERAL",
    ),
    pytest.param("SELECT a FROM t |> WHERE a = 1 |> ORDER BY a |> LIMIT 1", "SELECT a FROM t", id="|>"),
    pytest.param("SELECT a FROM t |> AGGREGATE count(*) AS n GROUP BY a", "SELECT a FROM t", id="|> AGGREGATE"),
    pytest.param("FROM t SELECT a WHERE a = 1", "FROM t SELECT a", id="FROM first"),
    pytest.param(
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT * FROM r LIMIT 3",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT * FROM r",
        id="LIMIT after WITH RECURSIVE",
    ),
    pytest.param(
        "WITH RECURSIVE r AS ((SELECT a FROM t LIMIT 1) UNION ALL SELECT 2) SELECT * FROM r",
        "WITH RECURSIVE r AS ((SELECT a FROM t) UNION ALL SELECT 2) SELECT * FROM r",
        id="LIMIT inside WITH RECURSIVE",
    ),
]

WORDS = (
    *(
        "asof",
        "connect",
        "cube",
        "distribute",
        "fill",
        "filter",
        "for",
        "format",
        "global",
        "ignore",
        "interpolate",
        "into",
        "nowait",
    ),
    *(
        "ordinality",
        "over",
        "partition",
        "pivot",
        "prewhere",
        "respect",
        "rollup",
        "sample",
        "sets",
        "settings",
        "share",
        "sort",
        "start",
    ),
    *("tablesample", "totals", "unpivot", "update", "use", "within", "xml"),
)
"""Words of clauses, all of them names where names stand."""
NAMES = [
    pytest.param("SELECT {0} FROM w", id="a column"),
    pytest.param("SELECT {0}, 1 FROM w WHERE {0} = 1 AND {0} > 0 OR NOT {0} < 1", id="in a condition"),
    pytest.param("SELECT w.{0} FROM w WHERE w.{0} IN (1, 2)", id="after a dot"),
    pytest.param("SELECT 1 AS {0}", id="after AS"),
    pytest.param("SELECT x.{0} AS {0}, x.{0} + 1 AS y FROM (SELECT {0} AS {0} FROM w) AS x", id="of a subquery"),
    pytest.param('SELECT "{0}" "{0}" FROM w "{0}" WHERE "{0}"."{0}" = 1', id="in quotes"),
    pytest.param("SELECT abs({0}), max({0}) OVER (PARTITION BY {0} ORDER BY {0}) FROM w", id="in a call"),
    pytest.param("SELECT count(*) FROM w GROUP BY w.{0} ORDER BY {0}, max({0}) DESC", id="in GROUP BY and ORDER BY"),
    pytest.param("SELECT {0}.{0} FROM w AS {0}", id="an alias of a table"),
    pytest.param("SELECT CASE WHEN {0} = 1 THEN {0} ELSE {0} END FROM w", id="in CASE"),
    pytest.param("SELECT w.{0} FROM w JOIN w AS v USING ({0})", id="in USING"),
    pytest.param("SELECT '{0} (x)' FROM w -- {0} (x)\n/* {0} FOR {0} */", id="in texts and comments"),
]
