"""Calls of functions over one table: those that DuckDB answers alike, those of other systems with their answers, and those that are refused."""

from __future__ import annotations

COLUMNS = "id BIGINT, g BIGINT, i INT, f DOUBLE, s VARCHAR, d DATE, ts TIMESTAMP, b BOOLEAN"
ROWS = """(1, 2, 7, 1.5, 'abc', DATE '2024-01-31', TIMESTAMP '2024-01-31 13:05:09.123456', true),
    (2, 2, -3, -2.25, 'Hello World', DATE '2024-02-29', TIMESTAMP '1969-12-31 23:59:59', false),
    (3, 1, 0, 0.0, '', DATE '2023-12-31', TIMESTAMP '2024-12-30 00:00:00', NULL),
    (4, 1, NULL, NULL, NULL, NULL, NULL, true),
    (5, 1, 7, 100.125, 'a,b,c', DATE '2000-02-28', TIMESTAMP '2000-02-29 12:00:00', false)"""

VALUES = r"""
year(ts)
YEAR (d) + 1
month(d)
day(ts)
quarter(d)
week(d)
weekofyear(ts)
dayofweek(d)
weekday(ts)
isodow(d)
dayofyear(d)
dayofmonth(d)
isoyear(d)
yearweek(d)
decade(d)
century(d)
millennium(d)
hour(ts)
minute(ts)
second(ts)
millisecond(ts)
nanosecond(ts)
millisecond(INTERVAL '90.5 seconds')
microsecond(INTERVAL '-90.5 seconds')
millisecond(ts - TIMESTAMP '2024-01-01 00:00:01.25')
date_part('milliseconds', INTERVAL '59.5 seconds')
date_part('usec', TIME '10:00:59.5')
extract(MICROSECONDS FROM INTERVAL '-59.25 seconds')
extract(milliseconds FROM ts)
microsecond(ts)
dayname(d)
monthname(ts)
epoch(ts)
epoch(d)
epoch_ms(ts)
epoch_us(ts)
epoch_ns(ts)
epoch_ms(1704067200123)
date_diff('day', d, ts)
datediff('month', d, ts)
datediff('year', d, ts)
datediff('week', d, ts)
datediff('hour', d, ts)
datediff('minute', ts, d)
datediff('second', ts, d)
datediff('quarter', ts, d)
datediff('millisecond', ts, d)
date_diff('days', d, DATE '2024-03-01')
date_sub('day', d, ts)
date_sub('month', d, ts)
date_sub('year', ts, d)
date_sub('hour', d, ts)
date_sub('quarter', d, ts)
date_add(d, INTERVAL '1 month')
date_add(ts, INTERVAL 1 DAY)
age(ts, d)
age(d, ts)
last_day(d)
last_day(ts)
time_bucket(INTERVAL '15 minutes', ts)
time_bucket(INTERVAL '1 week', ts)
time_bucket(INTERVAL '7 days', d)
time_bucket(INTERVAL '3 months', ts)
time_bucket(INTERVAL '7 months', ts)
time_bucket(INTERVAL '7 minutes', ts)
time_bucket(INTERVAL '2 days', d)
time_bucket(INTERVAL 1 HOUR, ts)
time_bucket(INTERVAL '4 years', ts)
to_days(i)
to_hours(i)
to_minutes(i)
to_seconds(i)
to_weeks(i)
to_months(i)
to_years(i)
strftime(ts, '%Y-%m-%d %H:%M:%S')
strftime(ts, '%d.%m.%y %I %p %j %f')
strftime(d, '%A, %-d %B %a %b %g')
strftime(ts, '100%%')
strftime('%Y', ts)
date_trunc('month', ts)
strptime('2024-01-31 10:11:12', '%Y-%m-%d %H:%M:%S')
strptime('31/01/2024 10', '%d/%m/%Y %H')
strptime('31 Jan 2024', '%d %b %Y')
strptime('2024-01-31 1:02:03.5', '%Y-%m-%d %H:%M:%S.%f')
strftime(ts, '%%T %%Y %H%%')
strftime(ts, '%j %U %W %w %y %I %p %-d/%-m')
strptime(strftime(ts, '%d.%m.%Y %H-%M-%S'), '%d.%m.%Y %H-%M-%S')
try_strptime(s, '%Y')
try_strptime('2024-02-30', '%Y-%m-%d')
make_timestamp(2024, 2, i + 10, 3, 4, 5.5)
make_date(2024, 2, i + 10)
mod(i, 3)
mod(i + 1, 2 + 1)
sign(i)
sign(f)
sign(f + CAST('nan' AS DOUBLE))
TRY_CAST(f * 1e300 AS REAL)
CAST(f AS REAL)
CAST(f + CAST('inf' AS DOUBLE) AS FLOAT)
ceiling(f)
bit_count(i)
xor(i, 3)
even(f)
isinf(f)
isfinite(f)
if(i > 0, 'a', 'b')
if(b, i, g)
ifnull(i, 5)
greatest(i, g)
least(i, g, 1)
coalesce(s, 'x')
nullif(i, 7)
len(s)
len([i, 1])
strlen(s || 'é')
ucase(s)
lcase(s)
prefix(s, 'a')
suffix(s, 'c')
starts_with(s, 'a')
split(s, ',')
string_split(s, ',')
string_split(s, '')
lpad(s, i - 3, 'x')
rpad(s, -i, 'x')
make_timestamp(i * 1000000)
floor(log(999 + g))
printf('a%%')
format('{{}}')
floor(log(10, 998 + g))
log(3, 242 + g)
str_split(s, 'l')
len(string_split(s, ','))
string_split_regex(s, '[, ]+')
string_split_regex(s, '')
string_split_regex(s, 'x?')
string_split_regex(s, '(a|)')
split_part(s, ',', 2)
regexp_extract(s, '[a-z]+')
regexp_extract(s, '([a-z])([a-z])', 2)
regexp_extract(s, '(x)?(b)', 1)
regexp_extract(s, '[(]|\(|(b)', 1)
regexp_extract(s, '(?:l|b)(.)', 1)
regexp_extract_all(s, '[a-z]')
regexp_extract_all(s, '([a-z])(,|b)', 1)
regexp_matches(s, 'b')
regexp_full_match(s, '[a-z]+')
instr(s, 'b')
levenshtein(s, 'abd')
editdist3(s, 'abd')
jaro_similarity(s, 'Hallo Welt')
jaro_winkler_similarity(s, 'abcd')
jaro_winkler_similarity('martha', 'marhta')
jaro_winkler_similarity('dwayne', 'duane')
jaro_winkler_similarity(s, reverse(s))
strip_accents('Crème ' || s)
nfc_normalize(s)
url_encode(s || 'é ?')
url_decode(url_encode(s))
hex(s)
hex(i)
unhex('6162')
from_hex('6162')
base64(CAST(s AS BLOB))
to_base64(CAST('a' AS BLOB))
from_base64('YWI=')
md5(s)
sha1(s)
printf('%05d|%s|%.2f', i, s, f)
printf('%d%%', i)
printf('%8.3f|%-5s|%x', f, s, abs(i))
format('{} {}', s, i)
format('{:.2f}', f)
format('{:,}', 1234567)
format('{1} {0}', s, i)
format('{:>5}|{:<5}|', i, s)
typeof(i)
typeof(f)
typeof(s)
typeof(d)
typeof(ts)
typeof(id)
typeof(b)
list_value(1, i, 3)
list_count([1, NULL, i])
list_unique([1, 1, i])
list_reverse_sort([1, i, 3])
list_first([i, 2])
list_last([1, i])
struct_pack(a := i, b := s)
struct_pack(a := year(d))
struct_extract(struct_pack(a := i), 'a')
map_keys(MAP {'a': i})
map_values(MAP {'a': i})
cardinality(MAP {'a': 1})
json_extract_string('{"a": {"b": [1, "x"]}}', '$.a.b[1]')
json_value('{"a": {"b": 1}}', '$.a')
json_value('{"a": {"b": 1}}', '$.a.b')
json_array_length('[1, 2, 3]')
json_array_length('{"a": [1]}', '$.a')
json_keys('{"b": 1, "a": 2}')
json_keys('{"b": {"c": 1}}', '$.b')
json_keys('[1]')
json_array_length('{"a": 1}')
json_array_length('{"a": 1}', '$.b')
json_type('{"a": "x"}', '$.a')
json_type('{"a": 1}')
json_type('[1]')
json_type('-1')
json_type('1.5')
json_type('null')
json_valid('x')
json_valid('{"a": 1}')
json_extract('{"a": 1}', '$.a')
'{"a": {"b": 1}}' -> 'a'
'{"a": {"b": 1}}' ->> 'a'
'{"a": {"b": 1}}' -> 'a' ->> 'b'
generate_series(1, 3)
range(3)
chr(i + 60)
""".strip().splitlines()
"""Values of each row of `t`."""

QUERIES = r"""
SELECT count_if(i > 0) FROM t
SELECT g, countif(i > 0) FROM t GROUP BY g ORDER BY g
SELECT count_if(i > 0) FILTER (WHERE b) FROM t
SELECT count_if(i > 0) OVER (PARTITION BY g ORDER BY id) FROM t ORDER BY id
SELECT g, arg_max(s, i), arg_min(s, f) FROM t GROUP BY g ORDER BY g
SELECT max_by(id, f), min_by(id, f) FILTER (WHERE id > 2) FROM t
SELECT arg_max(s, i - g), arg_max(id, length(s)) FROM t
SELECT mode(i), mode(g) FROM t
SELECT mode() WITHIN GROUP (ORDER BY i) FROM t
SELECT mode(i) FROM t WHERE id > 100
SELECT histogram(g) FROM t
SELECT g, median(f), quantile_cont(f, 0.25) FROM t GROUP BY g ORDER BY g
SELECT g, quantile_disc(i, 0.5), quantile(i, 0.9), quantile_disc(ts, 0.3) FROM t GROUP BY g ORDER BY g
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY i) FROM t
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY f) FROM t
SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY f DESC), percentile_cont(0.75) WITHIN GROUP (ORDER BY i DESC) FROM t
SELECT product(g), geometric_mean(id), fsum(f) FROM t
SELECT skewness(f), kurtosis(id), entropy(i) FROM t
SELECT g, skewness(f), kurtosis(f), entropy(s) FROM t GROUP BY g ORDER BY g
SELECT variance(f), var_samp(f), var_pop(f), stddev(f), stddev_pop(f) FROM t
SELECT corr(f, i), covar_pop(f, i), covar_samp(f, i), regr_slope(f, i), regr_r2(f, i) FROM t
SELECT bool_and(b), bool_or(b) FROM t
SELECT approx_count_distinct(g), count(DISTINCT g) FROM t
SELECT group_concat(s ORDER BY id), string_agg(s ORDER BY id) FROM t
SELECT skewness(x), kurtosis(x) FROM (VALUES (1.0), (1.0), (1.0)) AS v(x)
SELECT skewness(x), kurtosis(x) FROM (VALUES (1), (2), (3), (10), (NULL)) AS v(x)
SELECT x % 3, skewness(x), kurtosis(x) FROM (VALUES (1), (4), (9), (7), (2), (5), (8), (13)) AS v(x) GROUP BY x % 3 ORDER BY 1
SELECT skewness(x), kurtosis(x) FROM (VALUES (1), (2)) AS v(x) WHERE x > 2
SELECT listagg(s, '|' ORDER BY id), string_agg(s, ',' ORDER BY id) FROM t
SELECT list(i ORDER BY id), list(DISTINCT g ORDER BY g) FROM t
SELECT first(i ORDER BY id), last(s ORDER BY id DESC), any_value(g) FROM t WHERE g = 2
SELECT year(d), count(*) FROM t GROUP BY year(d) HAVING year(d) > 2000 ORDER BY year(d)
SELECT year(d) AS y, count(*) FROM t GROUP BY y ORDER BY y NULLS LAST
SELECT DISTINCT year(d) FROM t ORDER BY year(d) DESC NULLS LAST
SELECT DISTINCT ON (year(d)) year(d), id FROM t ORDER BY year(d), id
SELECT sum(if(b, 1, 0)) AS n, max(year(ts)) FROM t
SELECT id FROM t WHERE year(ts) = 2024 AND month(ts) IN (1, 2) ORDER BY id
SELECT a.id FROM t a JOIN t b ON year(a.d) = year(b.d) AND a.id < b.id ORDER BY a.id
SELECT y FROM (SELECT year(d) AS y FROM t) q WHERE y > 2000 ORDER BY y
WITH first(a, b) AS (SELECT 1, 2) SELECT a, b FROM first
SELECT x FROM (VALUES (1), (2)) AS list(x) ORDER BY x
SELECT EXTRACT(year FROM strptime('2024-01-31', '%Y-%m-%d'))
SELECT CASE WHEN year(d) > 2000 THEN dayname(d) ELSE monthname(d) END FROM t ORDER BY id
SELECT if(if(i > 0, true, false), if(g > 1, 'x', 'y'), 'z') FROM t ORDER BY id
SELECT * REPLACE (year(d) AS d) FROM t ORDER BY id
SELECT * FROM (SELECT g, b FROM t) PIVOT (count_if(b) AS n FOR g IN (1, 2))
SELECT * FROM (SELECT year(d) AS y, i FROM t) PIVOT (product(i) FOR y IN (2000, 2024))
SELECT lag(year(d)) OVER (ORDER BY id) FROM t ORDER BY id
SELECT unnest(generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day'))
SELECT * FROM generate_series(DATE '2024-01-31', DATE '2024-05-31', INTERVAL '1 month')
SELECT * FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL '6 hours')
SELECT x FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL '6 hours') AS g(x) WHERE hour(x) > 6
SELECT * FROM range(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL '6 hours')
SELECT * FROM generate_series(1, 10, 3)
""".strip().splitlines()

SPANS = (
    "SELECT a, b, date_sub('month', a, b), date_sub('quarter', a, b), date_sub('year', a, b), date_sub('day', a, b), date_sub('week', a, b),"
    " date_diff('week', a, b), date_diff('month', a, b), age(a, b), age(b, a) FROM (SELECT TIMESTAMP '2024-01-01' + to_days(CAST(x AS INTEGER))"
    " + to_hours(CAST(x AS INTEGER) % 5) AS a, TIMESTAMP '2023-12-15' + to_days(CAST(y AS INTEGER)) + to_hours(CAST(y AS INTEGER) % 3) AS b"
    " FROM range(0, 400, 3) r(x), range(0, 800, 7) u(y)) q ORDER BY a, b"
)
"""Spans between 15,000 pairs of moments, with last days of months among them."""

LATE, LATER = (
    f"arrow_cast(TIMESTAMP '{local}', 'Timestamp(Microsecond, Some(\"Europe/Berlin\"))')"
    for local in ("2024-06-01 23:30:00", "2024-06-02 00:00:00")
)
"""Half an hour apart, on two days of Berlin."""
OF_OTHERS = {
    "datediff(DATE '2024-03-01', DATE '2024-02-28')": 2,
    f"datediff('day', {LATE}, {LATER})": 1,
    f"datediff('hour', {LATE}, {LATER})": 1,
    f"date_sub('hour', {LATE}, {LATER})": 0,
    f"day({LATE})": 1,
    f"hour({LATE})": 23,
    f"epoch({LATE})": 1717277400.0,
    f"strftime({LATE}, '%d %H:%M')": "01 23:30",
    f"CAST(last_day({LATE}) AS VARCHAR)": "2024-06-30",
    "datediff(day, DATE '2024-02-28', DATE '2024-03-01')": 2,
    "datediff(MONTH, DATE '2024-01-31', DATE '2024-02-01')": 1,
    "CAST(dateadd(day, 1, DATE '2024-02-28') AS VARCHAR)": "2024-02-29",
    "CAST(dateadd('month', -1, DATE '2024-03-31') AS VARCHAR)": "2024-02-29",
    "CAST(dateadd(hour, 3, TIMESTAMP '2024-01-01') AS VARCHAR)": "2024-01-01 03:00:00",
    "CAST(dateadd(quarter, 2, DATE '2024-01-31') AS VARCHAR)": "2024-07-31",
    "CAST(date_add(DATE '2024-01-31', 1) AS VARCHAR)": "2024-02-01",
    "CAST(date_sub(DATE '2024-03-01', 1) AS VARCHAR)": "2024-02-29",
    "CAST(add_months(DATE '2024-01-31', 1) AS VARCHAR)": "2024-02-29",
    "CAST(eomonth(DATE '2023-02-01') AS VARCHAR)": "2023-02-28",
    "months_between(DATE '2024-03-31', DATE '2024-02-29')": 1.0,
    "months_between(TIMESTAMP '1997-02-28 10:30:00', DATE '1996-10-30')": 3.94959677,
    "date_format(TIMESTAMP '2024-01-02 03:04:05', 'yyyy-MM-dd HH:mm:ss')": "2024-01-02 03:04:05",
    "date_format(TIMESTAMP '2024-01-02 13:04:05', 'd MMM yy, hh a')": "2 Jan 24, 01 PM",
    "date_format(TIMESTAMP '2024-01-02 03:04:05', '%Y-%m-%d %H:%i:%S')": "2024-01-02 03:04:05",
    "date_format(TIMESTAMP '2024-01-02 03:04:05', '%e %c %k')": "2 1 3",
    "to_char(TIMESTAMP '2024-01-02 03:04:05', 'YYYY-MM-DD HH24:MI')": "2024-01-02 03:04",
    "CAST(to_date('31.01.2024', 'DD.MM.YYYY') AS VARCHAR)": "2024-01-31",
    "CAST(to_date('31.01.2024', '%d.%m.%Y') AS VARCHAR)": "2024-01-31",
    "CAST(to_timestamp('2024-01-31 10:11', 'YYYY-MM-DD HH24:MI') AS VARCHAR)": "2024-01-31 10:11:00+00",
    "CAST(to_timestamp('31/01/2024 10', '%d/%m/%Y %H') AS VARCHAR)": "2024-01-31 10:00:00+00",
    "CAST(str_to_date('02,01,2024', '%d,%m,%Y') AS VARCHAR)": "2024-01-02 00:00:00",
    "unix_timestamp(TIMESTAMP '1970-01-02')": 86_400,
    "unix_date(DATE '1970-01-03')": 2,
    "CAST(date_from_parts(2024, 2, 29) AS VARCHAR)": "2024-02-29",
    "CAST(makedate(2024, 60) AS VARCHAR)": "2024-02-29",
    "CAST(date(TIMESTAMP '2024-01-02 03:04:05') AS VARCHAR)": "2024-01-02",
    "CAST(date_trunc(month, TIMESTAMP '2024-02-29 12:00:00') AS VARCHAR)": "2024-02-01 00:00:00",
    "date_part(DOW, DATE '2024-02-29')": 4,
    "div0(1, 0)": 0.0,
    "div0(1, 4)": 0.25,
    "div0(1, NULL)": None,
    "div0null(1, NULL)": 0.0,
    "zeroifnull(NULL)": 0,
    "nullifzero(0)": None,
    "width_bucket(5.35, 0.024, 10.06, 5)": 3,
    "width_bucket(-1, 0, 10, 5)": 0,
    "width_bucket(10, 0, 10, 5)": 6,
    "width_bucket(NULL, 0, 10, 5)": None,
    "square(1 + 2)": 9,
    "bitand(12, 10)": 8,
    "bitor(12, 10)": 14,
    "bitxor(12, 10)": 6,
    "format_number(1234567.891, 2)": "1,234,567.89",
    "format_number(1234, 0)": "1,234",
    "split('abc', nullif('b', 'b'))": None,
    "lpad('abc', 3 - 5)": "",
    "iff(NULL, 1, 2)": 2,
    "iif(1 > 0, 'x', 'y')": "x",
    "equal_null(NULL, NULL)": True,
    "equal_null(1, NULL)": False,
    "isnull(NULL)": True,
    "isnull(NULL, 3)": 3,
    "nvl2(1, 2, 3)": 2,
    "nvl(NULL, 2)": 2,
    "to_varchar(1)": "1",
    "to_double('1.5')": 1.5,
    "isnumeric('x')": False,
    "charindex('b', 'abc')": 2,
    "charindex('b', 'abcb', 3)": 4,
    "locate('z', 'abc', 2)": 0,
    "mid('abcdef', 2, 3)": "bcd",
    "space(3) || 'x'": "   x",
    "replicate('ab', 2)": "abab",
    "stuff('abcdef', 2, 3, 'X')": "aXef",
    "char(65)": "A",
    "ord('a')": 97,
    "endswith('abc', 'bc')": True,
    "regexp_substr('abc', '[bc]+')": "bc",
    "regexp_substr('abc', 'x')": None,
    "rlike('abc', 'b.')": True,
    "sha2('abc', 256)": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "CAST(next_day(DATE '2024-01-31', 'WE') AS VARCHAR)": "2024-02-07",
    "CAST(next_day(DATE '2024-01-31', 'Thursday') AS VARCHAR)": "2024-02-01",
    "CAST(convert_timezone('UTC', 'Europe/Berlin', TIMESTAMP '2024-07-01 12:00:00') AS VARCHAR)": "2024-07-01 14:00:00",
    "CAST(from_utc_timestamp(TIMESTAMP '2024-01-01 12:00:00', 'Asia/Tokyo') AS VARCHAR)": "2024-01-01 21:00:00",
    "CAST(to_utc_timestamp(TIMESTAMP '2024-01-01 21:00:00', 'Asia/Tokyo') AS VARCHAR)": "2024-01-01 12:00:00",
    "CAST(timezone('Europe/Berlin', TIMESTAMP '2024-01-01 13:00:00') AS VARCHAR)": "2024-01-01 12:00:00+00",
    "decode(2, 1, 'a', 2, 'b', 'c')": "b",
    "decode(NULL, NULL, 'a', 'c')": "a",
    "decode(3, 1, 'a')": None,
    "decode('6162', 'hex')": b"ab",
    "soundex('Robert')": "R163",
    "soundex('Tymczak')": "T522",
    "soundex('')": "",
    "initcap('ab cd')": "Ab Cd",
    "array_size([1, 2])": 2,
    "size([1])": 1,
    "array_construct(1, 2)": [1, 2],
    "object_construct('a', 1)": {"a": 1},
    "get_json_object('{\"a\": {\"b\": 5}}', '$.a.b')": "5",
    "json_value('{\"a\": \"x\"}', '$.a')": "x",
    "isnotnull(1)": True,
    "bucket(4, 34)": 3,
    "database()": "lance",
}
"""Calls that DuckDB has not, or answers otherwise, with their answers."""

AGGREGATED = {
    "SELECT listagg(s, ',') WITHIN GROUP (ORDER BY id DESC) FROM t": "a,b,c,,Hello World,abc",
    "SELECT group_concat(s ORDER BY id SEPARATOR ';') FROM t": "abc;Hello World;;a,b,c",
    "SELECT group_concat(DISTINCT s ORDER BY s) FROM t WHERE id < 3": "Hello World,abc",
    "SELECT sum_if(id, b) FROM t": 5,
    "SELECT avgif(id, b) FROM t": 2.5,
    "SELECT every(b) FROM t": False,
    "SELECT boolor_agg(b) FROM t": True,
    "SELECT collect_set(g) FROM t WHERE g = 1": [1],
    "SELECT stdevp(id) FROM t": 2**0.5,
    "SELECT percentile(id, 0.5) FROM t": 3.0,
    "SELECT count_if(b) FROM t WHERE false": 0,
    "SELECT count(*) FROM sequence(1, 3)": 3,
    "SELECT approx_percentile(id, 0.5) FROM t": 3,
    "SELECT arg_max_null(s, id) FROM t WHERE id = 4": None,
}

NAMES = {
    "SELECT year(ts) FROM t": ["year(ts)"],
    "SELECT Year( ts ) + 1, year(ts) AS y, ts FROM t": ["Year( ts ) + 1", "y", "ts"],
    "SELECT year(ts), year(ts) FROM t": ["year(ts)", "year(ts)"],
    "SELECT\n  if(i > 0,\n  1, 2) -- why\nFROM t": ["if(i > 0, 1, 2)"],
    "SELECT count_if(i > 0) FILTER (WHERE b), mode() WITHIN GROUP (ORDER BY i) FROM t": [
        "count_if(i > 0) FILTER (WHERE b)",
        "mode() WITHIN GROUP (ORDER BY i)",
    ],
    "SELECT date_part('year', ts) FROM t": ["date_part('year', ts)"],
    "SELECT date_trunc(year, ts) FROM t": ["date_trunc(year, ts)"],
    "SELECT (SELECT max(year(ts)) FROM t)": ["max(year(ts))"],
    "SELECT 1+1, 'x', true, i IS NULL, sum(i) OVER w, t.i FROM t WINDOW w AS () LIMIT 1": [
        "1+1",
        "'x'",
        "true",
        "i IS NULL",
        "sum(i) OVER w",
        "i",
    ],
    "SELECT trim('  a'), trim(' a'), i year, INTERVAL '1' DAY FROM t LIMIT 1": [
        "trim('  a')",
        "trim(' a')",
        "year",
        "INTERVAL '1' DAY",
    ],
    "SELECT DISTINCT upper(s) FROM t ORDER BY upper(s)": ["upper(s)"],
    "SELECT * FROM (SELECT year(ts) FROM t) AS q": ["year(ts)"],
    'SELECT "year(ts)" + 1 AS n FROM (SELECT year(ts) FROM t) AS q': ["n"],
    "SELECT iff(?, ?, 1)": ["iff($1, $2, 1)"],
}
"""Queries, and the names of their columns."""

REFUSED = {
    "SELECT year(ts, d) FROM t": "year takes (ts), got 2 arguments at line 1, column 8",
    "SELECT round(f, 400) FROM t": "round and trunc take up to 30 digits, got 400",
    "SELECT trunc(f, id - 1000) FROM t": "round and trunc take up to 30 digits, got 99",
    "SELECT year() FROM t": "year takes (ts), got 0 arguments",
    "SELECT year(DISTINCT ts) FROM t": "year is no aggregate",
    "SELECT year(ts) OVER () FROM t": "year is no aggregate",
    "SELECT arg_max(s, i) OVER (ORDER BY id) FROM t": "arg_max takes no DISTINCT, ORDER BY and OVER",
    "SELECT datediff('fortnight', d, ts) FROM t": "datediff knows no unit 'fortnight'; expected year",
    "SELECT datediff(f, d, ts) FROM t": "datediff knows no unit 'f'",
    "SELECT datediff(lower(s), d, ts) FROM t": "datediff takes a literal for unit",
    "SELECT date_diff('day', i, ts) FROM t": "date_diff takes a text, a date or timestamp, a date or timestamp, got VARCHAR, INTEGER",
    "SELECT div0(1, random())": "div0 would compute random() more than once; name its value in a query in FROM",
    "SELECT square(random())": "square would compute random() more than once",
    "SELECT strftime(TIME '10:20:30', '%Y') FROM t": "a TIME has no day",
    "SELECT moment_text(ts, s) FROM t WHERE ts IS NOT NULL": "one for all rows",
    "SELECT moment_text(ts, '%Q') FROM t": "letters that are not known",
    "SELECT strftime(ts, s) FROM t": "strftime takes a literal for pattern",
    "SELECT strftime(ts, '%Q') FROM t": "strftime does not read '%Q' in the pattern '%Q'; write to_char(ts, …) for more at line 1, column 8",
    "SELECT date_format(ts, '%H:%M') FROM t": "date_format does not read '%M' in the pattern '%H:%M', which other systems read in other ways",
    "SELECT date_format(ts, 'YYYY') FROM t": "date_format does not read 'YYYY'",
    "SELECT strptime('x', '%Y')": "'x' is no moment of the pattern '%Y'",
    "SELECT strptime('2024-02-30', '%Y-%m-%d')": "'2024-02-30' is no moment",
    "SELECT make_timestamp(2024, 2, 30, 0, 0, 0)": "make_timestamp(2024, 2, 30, 0, 0, 0.0) is no moment",
    "SELECT regexp_extract(s, '(a', 1) FROM t": "the pattern '(a'",
    "SELECT regexp_extract(s, 'a', 1) FROM t": "the pattern 'a' has 0 groups, got number 1",
    "SELECT printf('%d', s) FROM t": "the values do not fit the pattern '%d'",
    "SELECT printf('%9999d', i) FROM t": "printf does not read a % in the pattern",
    "SELECT format('{0.__class__}', i) FROM t": "format does not read",
    "SELECT format('{:999999999}', i) FROM t": "format does not read",
    "SELECT format('{} {}', i) FROM t": "the values do not fit the pattern '{} {}'",
    "SELECT quantile(i, 2) FROM t": "quantile takes a share of the rows from 0 to 1",
    "SELECT mode() WITHIN GROUP (ORDER BY i DESC) FROM t": "mode takes no DESC and NULLS in WITHIN GROUP",
    "SELECT soundex(i) FROM t": "soundex takes a text, got INTEGER",
    "SELECT age(1) FROM t": "age takes",
    "SELECT space(2000000000)": "expected at most",
    "SELECT replicate(s, 1000000000) FROM t": "expected at most",
    "SELECT list_filter([1, 2], x -> y > 1)": "No field named y",
    "SELECT list_transform([9223372036854775807], x -> x + 1)": "beyond BIGINT",
    "SELECT list_transform([1], (x, i) -> x + i)": "a lambda has one parameter here",
    "SELECT list_reduce([1], (a, x) -> a + x)": "write list_sum(list)",
    "SELECT truncate(4, s) FROM t": "Invalid function 'truncate'; write left(s, 4), or a - a % 10 of a whole number",
    "SELECT pg_typeof(i) FROM t": "Invalid function 'pg_typeof'; write typeof(a)",
    f"SELECT datediff('day', ts, {LATE}) FROM t": "date_diff takes moments of one zone, got those of Europe/Berlin and none; write AT TIME ZONE",
    "SELECT date_trunc(unit, ts) FROM t": "No field named unit",
    "SELECT next_day(d, 'x') FROM t": "next_day knows no day 'x'",
    "SELECT sha2(s, 100) FROM t": "sha2 takes 224, 256, 384 or 512 bits, got 100",
    "SELECT to_date(s, 'Month') FROM t": "to_date 'Month' in the pattern 'Month' is padded with spaces",
    "SELECT printf('%s%s', repeat('x', 20000000), repeat('y', 20000000))": "expected at most",
    "SELECT url_encode(x), url_encode(x || '') FROM (SELECT repeat('%', 9000000) AS x) AS q": "the calls of url_encode and its like",
    "SELECT jaro_similarity(repeat('ab', 900), s) FROM t": "expected at most 1000, and shorter ones of many",
    "SELECT split(s, 1) FROM t": "string_to_array does not take arguments of these types; write other arguments, or a CAST of some;"
    " split(s, t) is CASE WHEN s = '' THEN",
    "SELECT date_diff('day', DATE '2024-01-01')": "date_diff takes",
    "SELECT sum(i > 1) FROM t": "sum takes numbers, got BOOLEAN; write count_if(a > 1)",
    "SELECT avg(ts) FROM t": "avg takes numbers; write make_timestamp(CAST(avg(epoch_us(a)) AS BIGINT))",
    "SELECT avg(i > 1) OVER () FROM t": "avg takes numbers, got BOOLEAN; write count_if(a > 1)",
}
