"""Plain sentences in place of DataFusion's errors: what is wrong, in the words of SQL, and what to write.

A message passes three tables: layers of prefixes are taken off, known errors get a sentence of ours, names of Arrow's types become
those of SQL. What still shows the inside of a plan goes to the log; the client gets a reference to it.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from types import MappingProxyType

from lance_flight.engine.functions.foreign_functions import function_advice
from lance_flight.engine.sql.select_lists import REFUSAL
from lance_flight.engine.translation.typed_calls import shown_name
from lance_flight.errors import LanceFlightError, Unsupported, nearest
from lance_flight.model.schema import MOST_DEPTH

_log = logging.getLogger(__name__)

LONGEST = 20_000
"""Characters of an error text that are read for a sentence; a longer one lists columns, or is a dump."""
_RAISED = re.compile(r"PyErr \{ type: <class '[^']*'>, value: (?P<message>.*?), traceback: .*\}", re.DOTALL)
_SAID = re.compile(
    r"Execution error: (?:SqlError|LimitExceeded)\((?P<quote>['\"])(?P<message>.*)(?P=quote)\)", re.DOTALL
)
"""An error of a function that is computed here, as DataFusion repeats it."""
_PARSED = re.compile(r'(?:Parser|Tokenizer)Error\("(?P<message>(?:[^"\\]|\\.)*)"\)', re.DOTALL)
"""An error of a syntax error, as Rust writes the value."""
_ESCAPED = re.compile(r"\\(['\"\\])")
_SEARCHED = re.compile(r'No field named lance\."\$search"\.(?P<function>[a-z_]+)_\d+\..*', re.DOTALL)
"""An error of a search that stands where a value is expected."""
_PREFIXES = (
    *("DataFusion error: ", "Error during planning: ", "External error: ", "Schema error: ", "SQL error: "),
    *("Arrow error: ", "Execution error: ", "Cast error: ", "Compute error: ", "Invalid argument error: "),
    *("Parser error: ", "Internal error: ", "Optimizer error: ", "Plan error: "),
)
"""Layers of an error that say which part of DataFusion it passed."""
_CAUSED = re.compile(
    r"^(?:Optimizer rule '\w+' failed|\w+|Invalid \([\w-]+\) plan after Analyzer)\ncaused by\n", re.MULTILINE
)
"""Names of steps of the planner before an error that one of them met."""
_NOT_IMPLEMENTED = "This feature is not implemented: "
_BUG = re.compile(r"\.?\s{0,9}This issue was likely caused by a bug in DataFusion's code\.[^\n]*?issues\.?")
_INSIDE = re.compile(
    r"\b[A-Z]\w+ ?\{ ?\w+:"  # the fields of a value of Rust
    r"|\bSpan\(|\bIdent\(|\bLocation\(|\bSome\(|\bExpr::|\bLogicalPlan\b|<subquery>|outer_ref\("
    r"|__\w+|_table_number|bug in DataFusion|Physical plan does not support|[Pp]hysical expr\b|sqltorel|after Analyzer"
    r"|[Uu]nwrap|\bpanicked\b|\.rs:\d|Assertion failed"
)
"""Signs of what is inside a plan: dumps of its expressions, names that rewriting made, places in DataFusion's source."""

_WITH_QUALIFY = (
    "write QUALIFY, or a query around it: SELECT * FROM (SELECT *, row_number() OVER (…) AS n FROM t) WHERE n = 1"
)
_JOIN = "write a join, or name the subquery in WITH"
_EXPRESSIONS: Mapping[str, str] = MappingProxyType(
    {
        "WindowFunction": (f"a window function stands in the SELECT list, ORDER BY and QUALIFY alone; {_WITH_QUALIFY}"),
        "AggregateFunction": "an aggregate cannot stand here; write it in a query of its own: (SELECT sum(a) FROM t)",
        "Wildcard": "* is no value here; name a column, or write count(*)",
        "OuterReferenceColumn": (
            "DataFusion cannot plan a subquery that names a column of the query around it there, as in LATERAL with ORDER BY or LIMIT;"
            " write a join with QUALIFY row_number() OVER (PARTITION BY t.id ORDER BY u.a) <= n, and for the nearest rows of many vectors"
            " vector_search(…, queries => (SELECT key, vector FROM …))"
        ),
        "ScalarSubquery": (
            "a subquery that gives a value may name columns of the query around it in equalities alone, and has no LIMIT then;"
            " write a join with GROUP BY, or max(…) in place of ORDER BY … LIMIT 1"
        ),
        "InSubquery": f"IN (SELECT …) cannot stand here, or has a LIMIT and names a column of the query around it; {_JOIN}",
        "Exists": f"EXISTS (SELECT …) cannot stand here, or has a LIMIT and names a column of the query around it; {_JOIN}",
    }
)
"""Sentences about expressions that stand where DataFusion cannot compute them."""
_NODES: Mapping[str, str] = MappingProxyType(
    {
        "RLike": "REGEXP and RLIKE are not offered; write a ~ 'pattern'",
        "Collate": "COLLATE is not offered: texts are ordered by their bytes; leave it out, or write lower(a)",
        "Identifier": "a column cannot stand here; write a literal, as in AT TIME ZONE 'Europe/Berlin'",
        "CompoundIdentifier": "a column cannot stand here; write a literal, as in AT TIME ZONE 'Europe/Berlin'",
        "AnyOp": "ANY takes a subquery or a list; write a = ANY (SELECT …), or array_has(list, a)",
        "AllOp": "ALL takes a subquery; write a > ALL (SELECT …)",
    }
)
"""Sentences about the nodes of a syntax tree that DataFusion does not plan."""
_LITERALS: Mapping[str, str] = MappingProxyType(
    {
        "NationalStringLiteral": "write the text without N",
        "UnicodeStringLiteral": "write the characters themselves, or E'\\u00e9'",
        "SingleQuotedByteStringLiteral": "write X'00ff' for bytes, and a number for bits",
        "DoubleQuotedByteStringLiteral": "write X'00ff' for bytes, and a number for bits",
    }
)
_KEYS = "; write BIGINT, and row_number() OVER () or uuid() in the INSERT … SELECT"
_INSTEAD_OF_TYPES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(["SERIAL", "BIGSERIAL", "IDENTITY", "AUTOINCREMENT", "AUTO_INCREMENT"], _KEYS),
        **dict.fromkeys(["HUGEINT", "UHUGEINT"], "; write DECIMAL(38, 0)"),
        **dict.fromkeys(["UUID", "ENUM", "BIT", "INET", "XML"], "; write VARCHAR"),
        **dict.fromkeys(["VARIANT", "OBJECT", "JSONB"], "; write JSON, or STRUCT<a: INT>"),
        "STRUCT": "; write STRUCT<a: INT>, or a list of such",
        "MAP": "; a column may be a MAP, and its values are written map(['a'], [1])",
    }
)
"""What to write for types of other systems."""
_SIGNS: Mapping[str, str] = MappingProxyType(
    {
        "->": "-> takes a text or a number, as s -> 'a'; write json_extract(s, '$.a')",
        "->>": "->> reads a column of JSON; write json_get_string(s, 'a') for a text",
        "Colon": "a:b reads a document in a column; write json_extract_string(s, '$.b') of any other text",
        "PGStartsWith": "^@ is not offered; write starts_with(a, b)",
        "HashLongArrow": "#>> is not offered; write s ->> '$.a.b'",
        "HashArrow": "#> is not offered; write json_extract(s, '$.a.b')",
        "BitwiseNot": "~ is not offered; write -a - 1",
    }
)
"""Sentences about operators that DataFusion knows, and does not compute."""
_OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "DIV": "; write a / b, which is whole for whole numbers",
        "MATCH": "; write match_text(…), full_text_search(…) or a ~ 'pattern'",
        "SHARP": "; write (a | b) - (a & b) for exclusive or",
    }
)

_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "Int8": "TINYINT",
        "Int16": "SMALLINT",
        "Int32": "INT",
        "Int64": "BIGINT",
        "UInt8": "TINYINT UNSIGNED",
        "UInt16": "SMALLINT UNSIGNED",
        "UInt32": "INT UNSIGNED",
        "UInt64": "BIGINT UNSIGNED",
        "Float16": "REAL",
        "Float32": "REAL",
        "Float64": "DOUBLE",
        "Utf8": "VARCHAR",
        "LargeUtf8": "VARCHAR",
        "Utf8View": "VARCHAR",
        "String": "VARCHAR",
        "Binary": "BYTEA",
        "LargeBinary": "BYTEA",
        "BinaryView": "BYTEA",
        "FixedSizeBinary": "BYTEA",
        "Boolean": "BOOLEAN",
        "Date32": "DATE",
        "Date64": "DATE",
        "Date": "DATE",
        "Time32": "TIME",
        "Time64": "TIME",
        "Time": "TIME",
        "Timestamp": "TIMESTAMP",
        "Interval": "INTERVAL",
        "Duration": "INTERVAL",
        "Decimal": "DECIMAL",
        "Decimal32": "DECIMAL",
        "Decimal64": "DECIMAL",
        "Decimal128": "DECIMAL",
        "Decimal256": "DECIMAL",
        "Null": "NULL",
        "List": "LIST",
        "LargeList": "LIST",
        "FixedSizeList": "LIST",
        "Struct": "STRUCT",
        "Map": "MAP",
    }
)
"""SQL's names of Arrow's types."""
_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "Integer": "whole number",
        "Numeric": "number",
        "Float": "DOUBLE",
        "array": "list",
        "map_array": "map",
        "string": "text",
    }
)
"""SQL's names of what DataFusion expects an argument to be."""
_LITERAL = re.compile(
    r"\b(?:U?Int(?:8|16|32|64)|Float(?:16|32|64)|Boolean)\((?P<plain>-?[\d.e+-]+|NULL|true|false|NaN|-?inf)\)"
    r"|\b(?:Large)?Utf8(?:View)?\(\"(?P<text>[^\"]*)\"\)"
    r"|\b(?:Date32|Date64|Time\w+|Timestamp\w+|Interval\w+|Duration\w+)\(\"(?P<moment>[^\"]*)\"\)"
    r"|\bDecimal\d+\(Some\((?P<digits>-?\d+)\),\d+,(?P<scale>-?\d+)\)"
)
_COUNTED = re.compile(r"count\((?:Int64\(1\)|\*)\)(?: AS count\(\*\))?")
_TYPE = re.compile(rf"\b(?P<type>{'|'.join(sorted(_TYPES, key=len, reverse=True))})\b(?P<inside>\()?")
_DISTINCT_TYPE = re.compile(
    r"\b(?P<type>U?Int(?:8|16|32|64)|Float(?:16|32|64)|(?:Large)?Utf8(?:View)?|Date(?:32|64)|Time(?:32|64)|Decimal\d+"
    r"|(?:List|LargeList|FixedSizeList|Timestamp|Interval|Duration|Struct|FixedSizeBinary)(?=\())\b(?P<inside>\()?"
)

_Build = Callable[[re.Match[str], str], str]
_CALL = re.compile(
    r"No function matches the given name and argument types '(?:(?P<name>\w+)\()?(?P<types>[^']*?)\)?'\."
)
_TAKES = re.compile(r"(?:expects|expected) (?P<count>\d+|zero) arguments?,? but received (?P<given>\d+)")
_WANTS = re.compile(r"(?:requires|expects) (?P<kind>[A-Z]\w+),? but received")
_LISTS = re.compile(r"ArraySignature\((?P<kinds>[^()]*)\)")
_UNIFIED = frozenset({"coalesce", "greatest", "least", "make_array", "make_list", "nullif"})


def _call(found: re.Match[str], text: str) -> str:
    """Say which arguments a function does not take, and which ones it takes as far as DataFusion tells."""
    name, types = found["name"], sql_types(found["types"])
    counts = sorted({_number(match["count"]) for match in _TAKES.finditer(text)})
    given, kinds = (
        _arguments(found["types"]),
        list(dict.fromkeys(_kind(match["kind"]) for match in _WANTS.finditer(text))),
    )
    if name is None or name.startswith("__"):
        return f"a number of this call is {types}; expected a whole number"
    if "does not support zero arguments" in text or not given:
        wanted = f"; expected {_list_names(map(str, counts), 'or')}" if counts else "; expected at least one"
        return f"{name} takes arguments, got none{wanted}"
    if counts and not kinds:
        wanted = (
            "no arguments"
            if counts == [0]
            else f"{_list_names(map(str, counts), 'or')} argument{'s' * (counts != [1])}"
        )
        return f"{name} takes {wanted}, got {len(given)}"
    if name in _UNIFIED:
        return f"the arguments of {name} are of types without a common one: {types}; write a CAST of some of them"
    lists = list(dict.fromkeys(f"({_kinds(match['kinds'])})" for match in _LISTS.finditer(text)))
    if name == "array_element" and types.startswith("VARCHAR,"):
        return "[…] reads a list; write substr(s, 1, 1) of a text"
    if name in {"percentile_cont", "quantile_cont"} and types.endswith("[]"):
        return f"{name} takes one share from 0 to 1 (write a call for each of several)"
    if name == "to_char" and types.partition("(")[0].partition(",")[0] in _NUMBERS:
        return "to_char takes a moment here; write format('{:,.2f}', a) for a number"
    if name == "array_compact":
        return f"&&, @>, <@, array_has_all and array_has_any compare two lists, got {types}; write array_has(list, a) for one value, and AND of conditions"
    if name == "contains" and types.partition(",")[0].endswith("[]"):
        return "contains takes texts; write array_has(list, a) for lists"
    wanted = f"; expected {_list_names(lists or kinds, 'or')}" if lists or kinds else ""
    return f"{name} does not take ({types}){wanted}; write other arguments, or a CAST of some"


_NUMBERS = frozenset(["TINYINT", "SMALLINT", "INT", "BIGINT", "REAL", "DOUBLE", "DECIMAL"])


def _arguments(types: str) -> list[str]:
    """Split a list of types at its outer commas."""
    depth, parts = 0, [""]
    for sign in types:
        depth += (sign in "(<[{") - (sign in ")>]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in parts if part.strip()]


def _number(text: str) -> int:
    return 0 if text == "zero" else int(text)


def _kinds(listed: str) -> str:
    return ", ".join(map(_kind, listed.split(", ")))


def _kind(kind: str) -> str:
    return _KINDS.get(kind) or _TYPES.get(kind, kind)


def _list_names(words: Iterable[str], last: str) -> str:
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} {last} {listed[-1]}"


def _expression(match: re.Match[str], _: str) -> str:
    return _EXPRESSIONS.get(match["kind"], "")


def _node(match: re.Match[str], _: str) -> str:
    return _NODES.get(match["kind"], "")


def _literal(match: re.Match[str], _: str) -> str:
    advice = _LITERALS.get(match["kind"])
    return f"this kind of literal is not offered; {advice}" if advice else ""


def _operator(match: re.Match[str], text: str) -> str:
    word = match["word"] or match["sign"]
    return f"{word} is no operator here{text[match.end() :]}{_OPERATORS.get(word.upper(), '')}"


def _sign(match: re.Match[str], _: str) -> str:
    sign = match["sign"] or match["binary"] or match["other"]
    return _SIGNS.get(sign, f"the operator {sign} is not offered here")


def _function(match: re.Match[str], _: str) -> str:
    return f"Invalid function {match['name']!r}{function_advice(match['name'])}"


def _field(match: re.Match[str], _: str) -> str:
    """Suggest a column that is spelled nearly alike, where DataFusion suggests the least unlike one."""
    if "__correlated" in match["fields"]:
        return (
            f"the column {match['name']} stands two queries further out than the subquery that names it;"
            " DataFusion plans subqueries that name columns of the query right around them; write a join"
        )
    named = (field.strip() for field in match["fields"].rstrip(".").split(","))
    fields = [field for field in named if _INSIDE.search(field) is None and not field.startswith(('"$in"', '"$row"'))]
    lasts = {_last(field): field for field in fields}
    of_table = [field for field in fields if field.startswith(f"{match['name']}.")]
    if of_table:
        return (
            f"{match['name']} is a table, and no column; write {match['name']}.*, or named_struct('a', {of_table[0]})"
        )
    near = nearest(match["name"], fields, _ALIKE)
    near = near or [lasts[name] for name in nearest(_last(match["name"]), lasts, _ALIKE)]
    hint = f" Did you mean {near[0]!r}?" if near else ""
    valid = f"\nValid fields are {', '.join(fields)}." if fields else ""
    return f"No field named {match['name']}.{hint}{valid}"


_ALIKE = 0.75
"""Likeness of a slip of the keyboard; of a longer distance nobody means the other name."""


def _last(field: str) -> str:
    return field.rpartition(".")[2]


_NOT_A_KEY = "not in GROUP BY"


def is_about_keys(message: str) -> bool:
    """Return whether a query was refused for a column that is no key of GROUP BY."""
    return _NOT_A_KEY in message


def _describe_grouping(match: re.Match[str], _: str) -> str:
    if "_table_number" in match["column"]:
        return "an aggregate cannot stand in SET; write a subquery: SET a = (SELECT sum(b) FROM t)"
    clause = "the SELECT list" if match["clause"] == "SELECT" else match["clause"]
    if " BETWEEN UNBOUNDED PRECEDING " in match["column"]:
        return "a window of groups is not sorted by its place in the SELECT list; write AS and a name for it, and the name in ORDER BY"
    return (
        f"column {match['column']} stands in {clause} and {_NOT_A_KEY}; add it there, or write an aggregate of it,"
        f" as any_value({match['column']})"
    )


def _cast(match: re.Match[str], _: str) -> str:
    return f"Cannot cast string {match['value']} to {sql_types(match['type'])}{COERCED}"


COERCED = (
    "; a text beside a value of another type, as in =, IN or coalesce, is read as one of that type: write CAST(… AS VARCHAR) of the other"
    " value to have texts"
)
"""Advice about a text in a query that is read as a value of another type."""


_SCALED = re.compile(r"(?:Duration|Interval)\([^)]*\) [*/]")
"""Matches the product or quotient of an interval."""
_LONG = Context(prec=100)
"""Digits of the longest number of a message, and more."""
_RULES: tuple[tuple[re.Pattern[str], str | _Build], ...] = (
    (
        re.compile(r"Decimal overflow while applying (?P<name>ceil|floor)"),
        lambda found, _: (
            f"{found['name']} of a DECIMAL of 38 digits has no room for one digit more; write"
            f" {found['name']}(CAST(a AS DECIMAL(39, 10))), with the column's own scale in place of 10"
        ),
    ),
    (
        re.compile(r"Cannot cast to Decimal128\(38, (?P<scale>-?\d+)\)\. Overflowing on (?P<digits>-?\d+)"),
        lambda found, _: (
            f"{Decimal(found['digits']).scaleb(-int(found['scale']), _LONG)} is too long for DECIMAL(38, {found['scale']}); write CAST(a AS DOUBLE) of"
            f" what is summed or computed, or CAST(a AS DECIMAL(60, {found['scale']}))"
        ),
    ),
    (
        re.compile(r"Cannot cast \S+ value -?\d+ to Timestamp\(ns\)"),
        (
            "a moment before 1678 or after 2261 is no timestamp of nanoseconds, which DataFusion makes of a date that meets a timestamp in UNION and"
            " IN (SELECT …), and of timestamps beside nanoseconds; write CAST(a AS TIMESTAMP(6))"
        ),
    ),
    (
        re.compile(r"(?s)scalar_subquery\(.*does not satisfy order|does not satisfy order.*scalar_subquery\("),
        (
            "DataFusion cannot sort or divide rows by what a subquery computes, as in ORDER BY (SELECT max(b) FROM u) > a or PARTITION BY;"
            " name it in a query below: SELECT … FROM (SELECT *, (SELECT max(b) FROM u) > a AS key FROM t) ORDER BY key"
        ),
    ),
    (
        re.compile(r"does not satisfy order requirements"),
        (
            "DataFusion cannot sort by a function or an operator over what another one computes, as ORDER BY -murmur3(id);"
            " name the key in a query below: SELECT … FROM (SELECT *, -murmur3(id) AS key FROM t) ORDER BY key"
        ),
    ),
    (
        re.compile(r"not be used as a sliding accumulator.*?implemented: (?P<name>\w+)\("),
        lambda found, _: (
            f"{found['name']} has no frames that begin later than their partition; write UNBOUNDED PRECEDING, or a join of each row"
            " with those of its frame, and GROUP BY"
        ),
    ),
    (
        re.compile(r"Function 'median' failed to match"),
        "median takes numbers; write quantile_disc(a, 0.5) for dates and texts",
    ),
    (
        re.compile(r"(?s)Function '(?P<name>sum|avg)' failed to match any signature.*\(Boolean\)'"),
        lambda found, _: (
            f"{found['name']} takes numbers, got BOOLEAN; write count_if(a > 1) for how often it is true, and avg(CAST(a > 1 AS INT)) for the share"
        ),
    ),
    (
        re.compile(r"(?s)Function '(?P<name>sum|avg)' failed to match any signature.*\((?:Timestamp|Date|Time)"),
        lambda found, _: (
            f"{found['name']} takes numbers; write make_timestamp(CAST(avg(epoch_us(a)) AS BIGINT)) for the mean of moments"
        ),
    ),
    (
        re.compile(r"Function '(?P<name>\w+)' failed to match any signature"),
        lambda found, _: (
            f"{found['name']} does not take arguments of these types; write other arguments, or a CAST of some"
        ),
    ),
    (
        re.compile(r"Recursion level in ArrowSchema"),
        f"a type has more than {MOST_DEPTH} types within one another; expected at most {MOST_DEPTH}",
    ),
    (
        re.compile(r"only supports a single SQL statement"),
        "the text has several statements, which ; divides; expected one in a call: lance-flight sql sends several",
    ),
    (
        re.compile(REFUSAL),
        f"{REFUSAL}, and two columns have the same name; write AS and another name for one of them",
    ),
    (
        re.compile(r'^(?!No field named "?[^"$]).*\$(?:in|row)\b', re.DOTALL),
        (
            "IN (SELECT …) whose query names columns of the query around it is not offered for row values, and in SELECT lists;"
            " write EXISTS (SELECT 1 FROM u WHERE u.k = t.a AND …)"
        ),
    ),
    (re.compile(r"Physical plan does not support logical expression (?P<kind>\w+)"), _expression),
    (
        re.compile(r"^not offered: (?P<kind>\w+)\(\w+Rel \{"),
        lambda found, _: f"the relation {found['kind']} of the plan is not offered; expected a query of tables",
    ),
    (re.compile(r"Unsupported ast node in sqltorel: (?P<kind>\w+)"), _node),
    (re.compile(r"Unsupported Value '(?P<kind>\w+)\("), _literal),
    (
        re.compile(r'No infix parser for token (?:Word\(Word \{ value: "(?P<word>[^"]*)"[^}]*\}\)|(?P<sign>\w+))'),
        _operator,
    ),
    (
        re.compile(
            r"Unsupported (?:binary operator: |SQL unary operator )(?P<sign>\w+)|Binary operator '(?P<binary>\w+)' is not supported"
            r"|Operator (?P<other>\S+) is not yet supported"
        ),
        _sign,
    ),
    (
        re.compile(r"^Divide by zero(?: error)?$"),
        "Divide by zero: a number is divided by 0; write a / nullif(b, 0) for NULL there",
    ),
    (
        re.compile(r"Expected: \), found: EXCLUDE"),
        "EXCLUDE in the frame of a window is not offered; write sum(a) OVER (…) - a to leave the current row out",
    ),
    (
        re.compile(r"Expected: \], found: for\b", re.IGNORECASE),
        "[… for x in list] is not offered; write list_transform(list_filter(list, x -> x > 1), x -> x * 2)",
    ),
    (
        re.compile(r"Aggregate ORDER BY is not implemented for window"),
        "ORDER BY inside a window function is not offered; write it in OVER: first_value(a) OVER (PARTITION BY b ORDER BY c)",
    ),
    (
        re.compile(r"In an aggregate with DISTINCT, ORDER BY expressions must"),
        "an aggregate with DISTINCT is ordered by its own values; write array_agg(DISTINCT a ORDER BY a), or DISTINCT in a query in FROM",
    ),
    (
        re.compile(r"Encountered non UTF-8 data"),
        "bytes become a text, and are none in UTF-8; write encode(b, 'hex') or encode(b, 'base64')",
    ),
    (
        re.compile(r"Support for 'approx_distinct' for data type (?P<kind>\w+)"),
        lambda found, _: f"approx_count_distinct takes no {sql_types(found['kind'])}; write count(DISTINCT a)",
    ),
    (
        re.compile(r"Arguments must be literals"),
        "range and generate_series take literals in FROM; write (SELECT unnest(range(?)) AS n)",
    ),
    (
        re.compile(r"unnest\(\) does not support null"),
        "unnest takes a list, and a parameter has no type of its own; write unnest(CAST(? AS BIGINT[]))",
    ),
    (
        re.compile(r"Unsupported ast node in sqltorel: Value\(.*Placeholder"),
        "a parameter cannot stand there, as behind AT TIME ZONE; write the value",
    ),
    (
        re.compile(r"Unary operator '-' only supports"),
        "- takes no such value; write -CAST(a AS BIGINT) of an unsigned number, and b - a in place of -(a - b) of moments",
    ),
    (
        re.compile(r"Cannot run range queries on datatype: (?P<kind>.*)"),
        lambda found, _: (
            f"RANGE with a distance is not offered for keys of {sql_types(found['kind'].strip('.'))}; write ROWS, or order by a number or timestamp"
        ),
    ),
    (
        re.compile(r"expr type (?P<one>.{1,200}?) can't cast to (?P<other>.{1,200}?) in InSubquery"),
        lambda found, _: (
            f"IN compares {sql_types(found['one'])} with {sql_types(found['other'])} of its query; write a CAST in one of the two"
        ),
    ),
    (
        re.compile(r"only support Literal types for field at idx"),
        "lag and lead take a literal for rows that are not there; write coalesce(lag(a) OVER (…), b)",
    ),
    (
        re.compile(r"COUNT DISTINCT with multiple arguments"),
        "count takes one value with DISTINCT; write count(DISTINCT (a, b))",
    ),
    (
        re.compile(r"lambda defined \d+ params"),
        "a lambda has one parameter here, as x -> x + 1; write unnest(list) in FROM, with row_number() OVER () for places",
    ),
    (
        re.compile(r"Placeholder '(?P<name>\$[a-z_]\w*)' was not provided", re.IGNORECASE),
        lambda found, _: (
            f"the parameter {found['name']} has no value; write ? or $1, and let the client bind values in order"
        ),
    ),
    (
        re.compile(r"Date part '(?P<name>\w+)' not supported"),
        lambda found, _: (
            f"no part of dates is called {found['name']!r} here; write decade(ts), century(ts), or date_part('year', ts)"
        ),
    ),
    (
        re.compile(r"Unsupported interval argument"),
        "INTERVAL takes a literal, as INTERVAL '3 days'; write a * INTERVAL '1 day'",
    ),
    (
        re.compile(r"Dot access not supported"),
        "a field of a struct literal is not read by a dot; write named_struct('a', 1)['a']",
    ),
    (
        re.compile(r"Substring without for/from"),
        "substr takes a text and a place, and may take a length; write substr(a, 1, 3)",
    ),
    (
        re.compile(r"Unnest should be rewritten|unnest\(\) can only be applied to"),
        "unnest takes a list, and stands in a SELECT list or behind FROM alone; write FROM t, unnest(t.list) AS x(n)",
    ),
    (
        re.compile(r"Unsupported LIMIT expression|Unsupported OFFSET expression|but was used in \[Limit:"),
        "LIMIT and OFFSET take a number or a parameter",
    ),
    (
        re.compile(r"subquery can only be used in"),
        "a subquery cannot stand in this clause; write it in the SELECT list, and name its column here",
    ),
    (
        re.compile(r"Correlated scalar subquery must be aggregated"),
        (
            "a subquery in the place of a value that names a column of the query around it may give several rows;"
            " write an aggregate, as (SELECT max(v) …)"
        ),
    ),
    (
        re.compile(r"wildcard \* with RENAME"),
        "RENAME after * is not offered here; write the columns: SELECT a AS b, c",
    ),
    (
        re.compile(r"^not offered: Query (?:INSERT|UPDATE|DELETE|MERGE)"),
        "a change of rows in WITH is not offered; write it alone, with RETURNING for its rows, or BEGIN, the change, a SELECT, and COMMIT",
    ),
    (
        re.compile(r"ANY in LIKE expression|Invalid function 'all'"),
        "LIKE ANY and LIKE ALL are not offered; write a LIKE 'x%' OR a LIKE 'y%', or AND",
    ),
    (
        re.compile(r"Schema contains duplicate qualified field name (?P<table>.+)\.[^.\s]+$"),
        lambda found, _: (
            f"{found['table']} stands twice in FROM; name each of them: FROM {found['table']} AS a, {found['table']} AS b"
        ),
    ),
    (
        re.compile(r"Schema contains qualified field name \S+ and unqualified field name (?P<name>\S+)"),
        lambda found, _: (
            f"the name {found['name']} is ambiguous: a column of a table has it, and an alias or a column of a query without a name;"
            " write another alias, or name the query: FROM t, (SELECT …) AS q"
        ),
    ),
    (
        re.compile(r"Ambiguous reference to unqualified field (?P<name>\"[^\"]*\"|[^\s;]+)"),
        lambda found, _: (
            f"Ambiguous reference to unqualified field {found['name']}; several tables of FROM have it: write one of them"
            f" before it, as t.{found['name']}"
        ),
    ),
    (
        re.compile(r"WITHIN GROUP is only supported for ordered-set"),
        "WITHIN GROUP orders what percentile_cont and its like read; write array_agg(a ORDER BY b), or string_agg(a, ',' ORDER BY b)",
    ),
    (
        re.compile(
            r"^(?P<said>.*Unsupported SQL type (?P<name>\w+)|.*Expected: \), found: (?P<word>IDENTITY|AUTOINCREMENT|AUTO_INCREMENT)).*",
            re.DOTALL,
        ),
        lambda found, _: found["said"] + _INSTEAD_OF_TYPES.get((found["name"] or found["word"]).upper(), ""),
    ),
    (
        re.compile(r"^No field named default\."),
        "DEFAULT is a whole value: write it in a row of VALUES or behind = of SET, or leave the column out of INSERT INTO t (a, b)",
    ),
    (
        re.compile(r"There is no built-in encoding named '(?P<name>[^']*)'"),
        lambda found, _: (
            f"encode and decode know base64, base64pad and hex, not {found['name']!r}; write CAST(s AS BYTEA), or"
            " CAST(b AS VARCHAR), for UTF-8"
        ),
    ),
    (
        re.compile(r"type VARCHAR is not Struct, Map"),
        "[…] reads a field of a struct, a map or a list; write s ->> 'a' of a document, and substr(s, 1, 2) of a text",
    ),
    (
        re.compile(r"Invalid qualifier (?P<name>\S+)"),
        lambda found, _: (
            f"{found['name']}.* takes all columns of a table, and there is none of that name; write the fields of a struct:"
            f" {found['name']}.a, {found['name']}.b"
        ),
    ),
    (
        re.compile(r"must either specify a row count or at least one column"),
        "DataFusion cannot sort rows of which no column is read; write one behind the key, as OVER (ORDER BY random(), id)",
    ),
    (
        re.compile(r"Unexpected empty work table"),
        "a recursive query names itself in a subquery of a condition or of a value; write a join with it",
    ),
    (
        re.compile(r"Multiple recursive references"),
        "a recursive query names itself more than once in the part that repeats; expected one name of it",
    ),
    (
        re.compile(r"Scalar subquery returned more than one row"),
        "a subquery in the place of a value gave more than one row; write an aggregate, as (SELECT max(v) …), or LIMIT 1",
    ),
    (
        re.compile(r"Too many columns! The subquery should only return one column"),
        "a subquery in the place of a value, or behind IN, has several columns; expected one, or as many as (a, b) IN (SELECT c, d …) names",
    ),
    (
        re.compile(
            r"(?P<clause>SELECT|ORDER BY|HAVING|QUALIFY) must be in GROUP BY.*?column \"(?P<column>[^\"]*)\" must appear",
            re.DOTALL,
        ),
        _describe_grouping,
    ),
    (
        re.compile(r"HAVING clause references:"),
        f"HAVING names a column that is {_NOT_A_KEY}; add it there, or write an aggregate of it",
    ),
    (
        re.compile(r"Aggregate function calls cannot be nested"),
        "an aggregate stands within an aggregate; write the inner one in a query below: SELECT sum(n) FROM (SELECT count(*) AS n …)",
    ),
    (
        re.compile(
            r"Window function calls cannot be nested|Aggregate function calls cannot contain window function calls"
        ),
        "a window function stands within an aggregate or another window; write it in a query below, and name its column",
    ),
    (
        re.compile(r"Argument .* to grouping function is not in grouping columns"),
        "grouping(…) takes a column that is in GROUP BY",
    ),
    (
        re.compile(r"Cannot create filter with non-boolean predicate '.*' returning (?P<type>[^\n]+)", re.DOTALL),
        lambda found, _: f"a condition is {sql_types(found['type'])}; expected a comparison, or another BOOLEAN",
    ),
    (
        re.compile(
            r"No field named (?P<name>[^\n]*?)\.(?: Did you mean [^\n]*\?)?(?:\nColumn names are case sensitive\.[^\n]*)?"
            r"\nValid fields are (?P<fields>.*)",
            re.DOTALL,
        ),
        _field,
    ),
    (re.compile(r"Invalid function '(?P<name>[^']*)'"), _function),
    (re.compile(r"Cannot cast (?:string|value) (?P<value>'.*') to value of (?P<type>.+?) type", re.DOTALL), _cast),
    (
        re.compile(r"Cannot infer common argument type for (?:comparison|logical boolean) operation (?P<sides>[^\n]+)"),
        lambda found, _: (
            f"the two sides of {sql_types(found['sides'])} are of types that are not compared; write a CAST of one"
        ),
    ),
    (
        re.compile(
            r"(?:Cannot get result type for temporal operation|Cannot coerce arithmetic expression|string concat operation)"
            r" (?P<sides>[^\n]+?)(?: to valid types|: Invalid|$)"
        ),
        lambda found, _: (
            f"{sql_types(found['sides'])} is not computed; write "
            + ("epoch(a) of the interval, its seconds" if _SCALED.match(found["sides"]) else "a CAST of one side")
        ),
    ),
    (
        re.compile(r"There isn't a common type to coerce (?P<left>.+) and (?P<right>.+) in (?P<what>\w+) expression"),
        lambda found, _: (
            f"{found['what']} compares texts, got {sql_types(found['left'])} and {sql_types(found['right'])}; write CAST(… AS VARCHAR)"
        ),
    ),
    (
        re.compile(r"Failed to coerce then .* to common types in CASE|Failed to coerce .* in CASE"),
        "the branches of CASE are of types without a common one; write a CAST of some of them",
    ),
    (
        re.compile(
            r"Incompatible inputs for (?P<set>\w+):.*?type (?P<left>.+?), but got incompatible type (?P<right>.+?) on column '(?P<name>[^']*)'"
        ),
        lambda found, _: (
            f"{found['set'].upper()} joins {sql_types(found['left'])} and {sql_types(found['right'])} in column {found['name']!r}; write a CAST in one of the queries"
        ),
    ),
    (_CALL, _call),
)
"""Known errors by a part of their text, with the sentence that says them."""


def plain_message(exc: BaseException) -> str:
    """Return what DataFusion's error says to who wrote the statement."""
    return _known_sentence(exc) or _hide_plan(exc)


def plain_error(exc: BaseException, otherwise: type[LanceFlightError]) -> LanceFlightError:
    """Return DataFusion's error as one of ours: `otherwise` with its sentence, `Unsupported` where nothing plain is known of it."""
    message = _known_sentence(exc)
    return Unsupported(_hide_plan(exc)) if message is None else otherwise(message)


def _hide_plan(exc: BaseException) -> str:
    """Log an error that shows the inside of a plan; return what the client is told in its place."""
    reference = secrets.token_hex(4)
    _log.warning("DataFusion's error with reference %s is not told to the client", reference, exc_info=exc)
    return (
        "DataFusion cannot run this statement; write it in another way, as with a join or with a query in FROM;"
        f" the server's log has the reason under reference {reference}"
    )


def _known_sentence(exc: BaseException) -> str | None:
    """Return the sentence for an error; None where it shows the inside of a plan."""
    text = _without_layers(str(exc).strip()) or type(exc).__name__
    shown = text[:LONGEST]
    for pattern, sentence in _RULES:
        match = pattern.search(shown)
        answer = "" if match is None else sentence if isinstance(sentence, str) else sentence(match, text)
        if answer:
            return answer if _INSIDE.search(answer) is None else None
    plain = sql_words(text)
    return None if _INSIDE.search(plain) else plain


def _without_layers(text: str) -> str:
    """Return a message without its layers of prefixes, and without what follows the message itself."""
    text = shown_name(_SAID.sub(_sentence, _RAISED.sub(_message, text)))
    text = _PARSED.sub(_sentence, text)
    text = _SEARCHED.sub(r"\g<function> gives rows of a table, not a value; expected it behind FROM or JOIN", text)
    for prefix in _PREFIXES:
        text = text.replace(prefix, "")
    text = _CAUSED.sub("", text)
    text = text.replace(_NOT_IMPLEMENTED, "not offered: ").replace("\ncaused by\n", ": ").replace("[return_type] ", "")
    return _BUG.sub("", text.split("\n\nBacktrace")[0].split("\n\tCandidate functions:")[0]).strip()


def _message(match: re.Match[str]) -> str:
    return match["message"]


def _sentence(match: re.Match[str]) -> str:
    return _ESCAPED.sub(r"\1", match["message"])


def sql_words(text: str) -> str:
    """Return a text with literals as SQL writes them, and with SQL's names of those types that no other word is.

    >>> sql_words('sum(Int64(1)) of Utf8("x") is List(Int64), not Date')
    "sum(1) of 'x' is BIGINT[], not Date"
    """
    return sql_types(_LITERAL.sub(_value, _COUNTED.sub("count(*)", text)), _DISTINCT_TYPE)


def _value(match: re.Match[str]) -> str:
    if match["digits"] is not None:
        scale = int(match["scale"])
        return f"{int(match['digits']) / 10**scale:.{max(scale, 0)}f}"
    text = match["text"] if match["text"] is not None else match["moment"]
    return match["plain"] if text is None else f"'{text}'"


def sql_types(text: str, names: re.Pattern[str] = _TYPE) -> str:
    """Return a text about types with SQL's names for those of Arrow.

    >>> sql_types('List(Timestamp(µs, "UTC")), Decimal128(10, 2), Struct("a": Int64)')
    'TIMESTAMP[], DECIMAL(10, 2), STRUCT'
    """
    parts, at = [], 0
    while (match := names.search(text, at)) is not None:
        parts.append(text[at : match.start()])
        at = match.end()
        name, inside = _TYPES[match["type"]], ""
        if match["inside"]:
            at = _closing(text, at)
            inside = text[match.end() : at - 1]
        if name == "LIST":
            parts.append(f"{sql_types(inside.removeprefix('nullable '))}[]" if inside else "list")
        else:
            parts.append(f"DECIMAL({inside})" if name == "DECIMAL" and inside else f"{name}{_digits(name, inside)}")
    return "".join([*parts, text[at:]])


def _digits(name: str, inside: str) -> str:
    """Return the digits of seconds of a time; nothing for microseconds of a TIMESTAMP, which is how it is written."""
    unit = inside.partition(",")[0]
    if name not in {"TIME", "TIMESTAMP"} or unit not in _DIGITS or (name == "TIMESTAMP" and unit == "µs"):
        return ""
    return f"({_DIGITS[unit]})"


_DIGITS = MappingProxyType({"s": 0, "ms": 3, "µs": 6, "ns": 9})


def _closing(text: str, at: int) -> int:
    """Return the place after the bracket that closes the one before a place."""
    depth = 1
    while at < len(text) and depth:
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return at
