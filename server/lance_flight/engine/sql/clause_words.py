"""Clauses that DataFusion parses but does not plan: the words that begin them, and replacements to suggest."""

from __future__ import annotations

import re

SUSPECTS = re.compile(
    r"\b(?:AGGREGATE|APPLY|ASOF|CLUSTER|CONNECT|CUBE|DISTINCT|DISTRIBUTE|EXCEPT|FETCH|FILTER|FOR|FORMAT|FROM|GLOBAL|IGNORE|ILIKE|INTERPOLATE|INTERSECT|INTO|LIMIT"
    r"|MATCH_RECOGNIZE|ORDER|OVER|PARTITION|PIVOT|PREWHERE|RESPECT|ROLLUP|SAMPLE|SELECT|SETS|SETTINGS|SORT|START|TABLESAMPLE|TOP"
    r"|TOTALS|UNPIVOT|WITH|WITHIN)\b|\)\s*\(",
    re.IGNORECASE,
)
"""Matches the words that such clauses need; a text without any of them (the rows of an INSERT … VALUES) is not examined."""

VERSION_OF = "a version of what is no table of the root"

AT = "AT (…)"

INSTEAD = {
    "AGGREGATE … ASC | DESC": "write |> ORDER BY after it",
    "ANY JOIN": "write LEFT SEMI JOIN, or join a query with DISTINCT ON (…)",
    AT: "write FOR VERSION AS OF n, FOR TIMESTAMP AS OF '…' or FOR TAG name after the table's name",
    "ASOF JOIN": "write SELECT DISTINCT ON (a.id) … FROM a JOIN b ON a.k = b.k AND a.t >= b.t ORDER BY a.id, b.t DESC",
    "BETWEEN SYMMETRIC": "write BETWEEN least(a, b) AND greatest(a, b)",
    "CLUSTER BY": "leave it out, or write ORDER BY",
    "CONNECT BY": "write WITH RECURSIVE",
    "CROSS APPLY": "write CROSS JOIN LATERAL",
    "DISTRIBUTE BY": "leave it out, or write ORDER BY",
    "EXCEPT ALL": "write EXCEPT, which keeps one of equal rows; or number equal rows by row_number() in both queries",
    "INTERSECT ALL": "write INTERSECT, which keeps one of equal rows; or number equal rows by row_number() in both queries",
    "FETCH": "write FETCH FIRST n ROWS ONLY, without LIMIT, PERCENT or TIES",
    "FOR": "leave it out: there are no row locks, and an answer has one format, Arrow",
    "a range of versions": "write table_changes('t', from, to)",
    VERSION_OF: "write FOR VERSION AS OF n after the table's name, inside the query",
    "FULL JOIN … USING": "write ON a.k = b.k, and coalesce(a.k, b.k) AS k where it is selected",
    "RIGHT JOIN … USING": "write ON a.k = b.k, and b.k where it is selected; or the tables the other way round, with LEFT JOIN",
    "FORMAT": "leave it out: answers are Arrow batches, which the client formats",
    "GLOBAL": "leave it out: a join has no places to be sent to",
    "GROUPING SETS after GROUP BY's expressions": "write GROUP BY GROUPING SETS ((a, b), (a), ())",
    "ILIKE after *": "name the columns, or write * EXCLUDE (…)",
    "an INDEX hint": "leave it out: indices are chosen by the query's conditions",
    "INTERPOLATE": "join a table of all values",
    "INTO": "write CREATE TABLE y AS SELECT …, or INSERT INTO y SELECT …",
    "LATERAL VIEW": "write CROSS JOIN UNNEST(column), or unnest(column) in the SELECT list",
    "LIMIT … PERCENT": "write QUALIFY row_number() OVER (ORDER BY a) <= 0.1 * count(*) OVER (), or TABLESAMPLE (10 PERCENT)",
    "LIMIT … BY": "write QUALIFY row_number() OVER (PARTITION BY …) <= n",
    "MATCH_RECOGNIZE": "write window functions",
    "OUTER APPLY": "write LEFT JOIN LATERAL … ON true",
    "ORDER BY ALL after *": "name the columns, in SELECT or in ORDER BY",
    "PASTE JOIN": "number the rows of both tables by row_number(), and join by the numbers",
    "POSITIONAL JOIN": "number the rows of both tables by row_number(), and join by the numbers",
    "PARTITION": "write a condition on the partition's columns, as in WHERE p = 'a'",
    "PIVOT": "write an aggregate for each column, as in sum(x) FILTER (WHERE p = 'a')",
    "PREWHERE": "write WHERE: filters are pushed down by themselves",
    "SETTINGS": "write SET name = 'value' as a statement of its own",
    "SORT BY": "write ORDER BY",
    "START WITH": "write WITH RECURSIVE",
    "TABLESAMPLE": "write TABLESAMPLE (10 PERCENT) or (10 ROWS) after a table's name; WHERE abs(murmur3(id)) % 10 = 0 takes the same rows each time",
    "TOP": "write TOP n right after SELECT, in a query without UNION, LIMIT or OFFSET; or LIMIT n at the end",
    "UNPIVOT": "write a SELECT for each column, and UNION ALL between them",
    "USING SAMPLE": "write TABLESAMPLE (10 PERCENT) or (10 ROWS) after a table's name; WHERE abs(murmur3(id)) % 10 = 0 takes the same rows each time",
    "WITH (…) after a table": "leave the hints out: readers wait for no writer",
    "WITH CUBE": "write GROUP BY CUBE (a, b), with the expressions themselves",
    "WITH FILL": "join a table of all values, as of generate_series",
    "WITH OFFSET": "write row_number() OVER ()",
    "WITH ORDINALITY": "write row_number() OVER ()",
    "WITH ROLLUP": "write GROUP BY ROLLUP (a, b), with the expressions themselves",
    "WITH TOTALS": "write GROUP BY ROLLUP (a, b)",
    "a type in a list of column aliases": "write the names alone, and CAST where they are selected",
    "a clause after the UNION of WITH RECURSIVE": "put it into the query that reads the recursive one",
    "the name of a window, beyond the SELECT list": "write the window out, as in OVER (PARTITION BY …)",
    "the name of a window in OVER (…)": "write the window out, as in OVER (PARTITION BY …)",
}
"""Replacement to suggest for each clause; clauses that a rewrite handles are listed for the forms that it cannot."""

FOLLOWED: dict[str, tuple[tuple[frozenset[str], str], ...]] = {
    "BETWEEN": ((frozenset(["SYMMETRIC"]), "BETWEEN SYMMETRIC"),),
    "CLUSTER": ((frozenset(["BY"]), "CLUSTER BY"),),
    "CONNECT": ((frozenset(["BY"]), "CONNECT BY"),),
    "DISTRIBUTE": ((frozenset(["BY"]), "DISTRIBUTE BY"),),
    "FETCH": ((frozenset(["FIRST", "NEXT"]), "FETCH"),),
    "FOR": ((frozenset(["UPDATE", "SHARE", "XML", "JSON", "BROWSE", "NO", "KEY"]), "FOR"),),
    "LATERAL": ((frozenset(["VIEW"]), "LATERAL VIEW"),),
    "SORT": ((frozenset(["BY"]), "SORT BY"),),
    "START": ((frozenset(["WITH"]), "START WITH"),),
    "USING": ((frozenset(["SAMPLE"]), "USING SAMPLE"),),
    "WITH": (
        (frozenset(["ROLLUP"]), "WITH ROLLUP"),
        (frozenset(["CUBE"]), "WITH CUBE"),
        (frozenset(["TOTALS"]), "WITH TOTALS"),
        (frozenset(["FILL"]), "WITH FILL"),
    ),
}
"""Clauses by their first two words, valid anywhere in a query."""
JOINS = frozenset(["JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ANTI", "SEMI", "ASOF"])
AFTER_TABLE: dict[str, tuple[tuple[frozenset[str], str], ...]] = {
    "ANTI": ((frozenset(["JOIN"]), "ANTI JOIN"),),
    "ANY": ((JOINS, "ANY JOIN"),),
    "ASOF": ((JOINS, "ASOF JOIN"),),
    "AT": ((frozenset(["("]), AT),),
    "CROSS": ((frozenset(["APPLY"]), "CROSS APPLY"),),
    "GLOBAL": ((JOINS, "GLOBAL"),),
    "MATCH_RECOGNIZE": ((frozenset(["("]), "MATCH_RECOGNIZE"),),
    "OUTER": ((frozenset(["APPLY"]), "OUTER APPLY"),),
    "PARTITION": ((frozenset(["("]), "PARTITION"),),
    "PASTE": ((frozenset(["JOIN"]), "PASTE JOIN"),),
    "PIVOT": ((frozenset(["("]), "PIVOT"),),
    "POSITIONAL": ((frozenset(["JOIN"]), "POSITIONAL JOIN"),),
    "SEMI": ((frozenset(["JOIN"]), "SEMI JOIN"),),
    "UNPIVOT": ((frozenset(["(", "INCLUDE", "EXCLUDE"]), "UNPIVOT"),),
    "FOR": ((frozenset(["VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME", "TAG"]), VERSION_OF),),
    "VERSION": ((frozenset(["AS"]), VERSION_OF),),
    "TIMESTAMP": ((frozenset(["AS"]), VERSION_OF),),
    "USE": ((frozenset(["INDEX", "KEY"]), "an INDEX hint"),),
    "IGNORE": ((frozenset(["INDEX", "KEY"]), "an INDEX hint"),),
    "FORCE": ((frozenset(["INDEX", "KEY"]), "an INDEX hint"),),
    "WITH": (
        (frozenset(["ORDINALITY"]), "WITH ORDINALITY"),
        (frozenset(["OFFSET"]), "WITH OFFSET"),
        (frozenset(["("]), "WITH (…) after a table"),
    ),
}
"""Clauses that belong to a table of a FROM, or to a join."""
NEVER_COLUMN_ALIASES = frozenset(["WITH", "SORT", "TOP", "LATERAL", "FETCH", "CLUSTER", "DISTRIBUTE", "INTO"])
SET_OPERATORS = frozenset(["UNION", "EXCEPT", "INTERSECT", "MINUS"])
AFTER_FROM = frozenset(["WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET"])
QUERIES = frozenset(["SELECT", "WITH", "VALUES", "TABLE"])
"""First words of a subquery in brackets."""
QUERY_STARTS = frozenset(["SELECT", "WITH", "VALUES", "FROM"])
BEFORE_OPERAND = frozenset(
    [
        *(
            "ALL",
            "AND",
            "ANY",
            "ARRAY",
            "AS",
            "BETWEEN",
            "BY",
            "CASE",
            "DISTINCT",
            "DIV",
            "ELSE",
            "ESCAPE",
            "EXISTS",
            "EXTEND",
            "FROM",
        ),
        *(
            "HAVING",
            "ILIKE",
            "IN",
            "INTERSECT",
            "INTERVAL",
            "IS",
            "JOIN",
            "LATERAL",
            "LIKE",
            "LIMIT",
            "MINUS",
            "NOT",
            "OFFSET",
        ),
        *(
            "ON",
            "OR",
            "QUALIFY",
            "RECURSIVE",
            "REGEXP",
            "RLIKE",
            "SELECT",
            "SOME",
            "THEN",
            "TO",
            "UNION",
            "USING",
        ),
        *("VALUES", "WHEN", "WHERE", "WINDOW", "WITH", "XOR", "EXCEPT", "AGGREGATE", "ZONE", "GLOB"),
    ]
)
"""Words after which a word is a name."""
UNITS = frozenset(["YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"])
NO_FUNCTIONS = BEFORE_OPERAND | frozenset(
    ["OVER", "FILTER", "GROUP", "SETS", "ROLLUP", "CUBE", "EXCLUDE", "REPLACE", "RENAME"]
)
PERCENT = 100
NAMED = {
    "ASC": "AGGREGATE … ASC | DESC",
    "BY": "LIMIT … BY",
    "DESC": "AGGREGATE … ASC | DESC",
    "GROUPING": "GROUPING SETS after GROUP BY's expressions",
    "NULLS": "AGGREGATE … ASC | DESC",
    "PERCENT": "LIMIT … PERCENT",
    "SAMPLE": "TABLESAMPLE",
}
WITHIN = {
    "ASC": ("AGGREGATE",),
    "BY": ("LIMIT",),
    "DESC": ("AGGREGATE",),
    "GROUPING": ("GROUP",),
    "INTERPOLATE": ("ORDER",),
    "INTO": ("SELECT",),
    "NULLS": ("AGGREGATE",),
    "PERCENT": ("LIMIT",),
    "SAMPLE": ("FROM",),
    "TABLESAMPLE": ("FROM",),
}
"""Clauses of one word, with the clauses that they may follow."""
FIRST_WORDS = frozenset([*FOLLOWED, *AFTER_TABLE, *WITHIN, "FORMAT", "PREWHERE", "SETTINGS"])
AFTER_CALL = {"FILTER": ("(",), "OVER": ("(",), "WITHIN": ("GROUP",), "IGNORE": ("NULLS",), "RESPECT": ("NULLS",)}
IN_CALL = {"ORDER": ("BY",), "IGNORE": ("NULLS",), "RESPECT": ("NULLS",)}
DIRECTIONS = frozenset(["ASC", "DESC", "NULLS", "FIRST", "LAST"])
"""Words behind a key of ORDER BY."""
WINDOW_WORDS = frozenset(["PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"])
AFTER_UNION = frozenset(["WITH", "ORDER", "LIMIT", "OFFSET", "|>"])
NO_SETS = frozenset(["ALL", "ROLLUP", "CUBE", "GROUPING"])
BEFORE_WILDCARD = frozenset(["SELECT", "DISTINCT", "ALL"])
ENDINGS = UNITS | frozenset(["END", "NULL", "TRUE", "FALSE", "UNKNOWN"])
NAME = r"""(?:[^\W\d]|[@\#])[\w@\#$]*+|"(?:[^"]++|"")*+"|`(?:[^`]++|``)*+`"""
TABLE = re.compile(
    rf"(?P<name>(?:(?:{NAME})\s*\.\s*)*+(?P<last>{NAME}))(?:\s+(?:AS\s+)?(?P<alias>{NAME}))?", re.IGNORECASE
)
SAMPLE = re.compile(
    r"(?P<word>TABLESAMPLE|SAMPLE|USING\s+SAMPLE)\s*(?P<method>BERNOULLI|SYSTEM|RESERVOIR|ROW|BLOCK)?\s*(?P<open>\()?\s*"
    r"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>PERCENT\b|%|ROWS\b)?(?(open)\s*\))(?:\s*\(\s*(?P<after>BERNOULLI|SYSTEM|RESERVOIR)\s*\))?",
    re.IGNORECASE,
)
EXPECTED_BEFORE = {
    "AGGREGATE": frozenset([">"]),
    "EXTEND": frozenset([">"]),
    "TO": frozenset(["SIMILAR"]),
}
"""Tokens that precede some of `BEFORE_OPERAND` where these are clauses and not names."""
WILDCARD_OPTIONS = frozenset(["EXCLUDE", "EXCEPT", "REPLACE", "RENAME"])
TWO_WORDS = frozenset(["ORDER", "WITHIN", "IGNORE", "RESPECT"])
"""Words that errors name together with the word that follows."""
