"""Statements and functions of DuckDB, PostgreSQL, Snowflake and Spark over a few small tables, with their answers; `function_cases` has more functions."""

from __future__ import annotations

TABLES = [
    "CREATE TABLE orders (id BIGINT, customer VARCHAR, day DATE, price DOUBLE, qty INT, tags VARCHAR[])",
    "INSERT INTO orders VALUES (1, 'ann', DATE '2024-01-05', 10.5, 2, ['a', 'b']), (2, 'bob', DATE '2024-01-06', 20.0, 1, ['b']), (3, 'ann', DATE '2024-02-01', 5.25, 4, []), (4, 'cid', DATE '2024-02-10', NULL, NULL, NULL), (5, 'bob', DATE '2024-03-15', 99.0, 3, ['c', 'a', 'a'])",
    "CREATE TABLE customers (name VARCHAR, city VARCHAR, since INT)",
    "INSERT INTO customers VALUES ('ann', 'Bern', 2020), ('bob', 'Rome', 2021), ('dee', 'Oslo', 2019)",
    "CREATE TABLE prices (item VARCHAR, tick INT, price DOUBLE)",
    "INSERT INTO prices VALUES ('x', 1, 1.0), ('x', 5, 2.0), ('y', 2, 7.0)",
    "CREATE TABLE sold (item VARCHAR, tick INT, n INT)",
    "INSERT INTO sold VALUES ('x', 0, 1), ('x', 1, 2), ('x', 4, 3), ('x', 9, 4), ('y', 3, 5), ('z', 1, 6)",
]

ALIKE = r"""
SELECT * FROM (SELECT -id AS id FROM orders ORDER BY id + 0 LIMIT 1) q
WITH q AS (SELECT customer, max(id) AS id FROM orders GROUP BY customer ORDER BY max(id) LIMIT 1) SELECT * FROM q
SELECT id FROM orders WHERE -id IN (SELECT -id AS id FROM orders ORDER BY id * 1 DESC LIMIT 2)
SELECT customer, MAX(id) AS id FROM orders GROUP BY customer ORDER BY MAX(id) DESC
SELECT customer, SUM(price) price FROM orders GROUP BY customer HAVING SUM(price) > 1 ORDER BY -SUM(price), customer LIMIT 1
SELECT upper(customer) AS customer, count(*) FROM orders GROUP BY customer ORDER BY count(*) DESC, length(customer), orders.customer
SELECT -id AS id FROM orders ORDER BY id + 0
SELECT -id AS price FROM orders ORDER BY price * 2, id
SELECT -id AS total FROM orders ORDER BY total * 2
SELECT -id AS id, row_number() OVER (ORDER BY id) AS rn FROM orders ORDER BY orders.id * 2 DESC
SELECT id % 2 AS id, count(*) FROM orders GROUP BY orders.id % 2 ORDER BY count(*) DESC, orders.id % 2
WITH q AS (SELECT * FROM orders ORDER BY id) SELECT -id AS id, qty + 1 AS qty FROM q ORDER BY abs(id) DESC, qty OFFSET 1
SELECT CASE WHEN id > 2 THEN 0 ELSE 1 END AS id, customer FROM orders ORDER BY CASE WHEN id > 2 THEN 0 ELSE 1 END, customer
SELECT CASE WHEN GROUPING(customer) = 1 THEN 'all' ELSE customer END AS customer, SUM(qty) FROM orders GROUP BY ROLLUP(customer) ORDER BY GROUPING(customer), customer
SELECT "source"."day", "source"."sum" FROM (SELECT DATE_TRUNC('month', "orders"."day") AS "day", SUM("orders"."price") AS "sum" FROM "orders" GROUP BY DATE_TRUNC('month', "orders"."day") ORDER BY DATE_TRUNC('month', "orders"."day") ASC) AS "source" WHERE "source"."sum" > 1 LIMIT 1048575
SELECT DATE_TRUNC('month', "orders"."day") AS "day", "orders"."customer" AS "customer", COUNT(*) AS "count" FROM "orders" GROUP BY DATE_TRUNC('month', "orders"."day"), "orders"."customer" ORDER BY "count" DESC, DATE_TRUNC('month', "orders"."day") ASC, "orders"."customer" ASC
SELECT last_day(o.day) AS day, count(*) FROM orders o GROUP BY last_day(o.day) HAVING count(*) > 0 ORDER BY last_day(o.day) DESC
SELECT l[1].a, (l[2]).b, {'a': {'b': [1, 2]}}.a.b[2], struct_pack(z := id).z FROM (SELECT id, [{'a': id, 'b': 'x'}, {'a': 2, 'b': customer}] AS l FROM orders) t
SELECT unnest(tags) FROM orders WHERE id < 3 ORDER BY -id
SELECT unnest(tags) AS tag, customer FROM orders ORDER BY orders.price DESC, tag LIMIT 4
SELECT range * 2, q.range FROM range(3) q ORDER BY range
SELECT generate_series FROM generate_series(1, 3) ORDER BY generate_series DESC
SELECT generate_series::DATE AS d, count(o.id) FROM generate_series(TIMESTAMP '2024-01-04', TIMESTAMP '2024-01-06', INTERVAL 1 DAY) LEFT JOIN orders o ON o.day = generate_series::DATE GROUP BY 1 ORDER BY 1
SELECT u.unnest FROM unnest(['a', 'b']) u
SELECT id, (SELECT city FROM customers c WHERE c.name = o.customer) AS city, (SELECT since + 1 FROM customers WHERE name = customer) FROM orders o
SELECT id FROM orders o WHERE coalesce((SELECT since FROM customers c WHERE c.name = o.customer), 0) > 2020
SELECT n, (SELECT day FROM orders o WHERE o.id = n) FROM (VALUES (1), (9), (NULL)) v(n)
SELECT i, (SELECT price FROM prices p WHERE p.item = s.i AND p.tick = 2) FROM (VALUES ('x'), ('y')) s(i)
SELECT 'a' /* one text */ AS x, upper('b') FROM orders WHERE customer = 'ann'
SELECT id, t FROM orders, LATERAL (SELECT unnest(tags) AS t) q
SELECT id, q.t FROM orders CROSS JOIN LATERAL (SELECT unnest(tags)) AS q(t) WHERE t <> 'a'
SELECT id, flatten([tags, ['z']]) AS f FROM orders WHERE id < 3
SELECT octet_length('ab'::BLOB), octet_length(X'00ff'), bit_length('é'), encode('a'), decode('b'::BLOB), hex(encode('é'))
SELECT id, rank() OVER (ORDER BY {'a': qty, 'b': customer} NULLS LAST) AS r FROM orders
SELECT id, ifnull(day, DATE '2020-01-01') AS d, ifnull(tags, ['n']) AS t FROM orders
SELECT TIME '9:5', TIME '10:30', TIME '10:30:15.25', '2024-01-05 10:30'::TIME
SELECT DATE '2024/1/5', '2024/01/05'::DATE, TRY_CAST('2024/01/05' AS DATE), TRY_CAST('10' AS TIME), TIMESTAMP '2024/01/05 10:00'
SELECT id FROM orders WHERE day = '2024/1/5' OR day IN ('2024/2/1')
SELECT CAST(s AS DATE), s::TIMESTAMP FROM (SELECT unnest(['2024/01/05', '2024-1-5']) AS s) t
SELECT '1.0'::INT, '1.5'::INT, '2.5'::BIGINT, '-1.5'::INT, '1e2'::INT, '1_000'::INT, '1e2'::DECIMAL(10, 2), '1e-2'::DECIMAL(10, 2)
SELECT CAST(s AS INT), s::DECIMAL(10, 2), TRY_CAST(s AS BIGINT) FROM (SELECT unnest(['1.5', '1e2', '7', NULL]) AS s) t
SELECT TRY_CAST(s AS INT) FROM (SELECT unnest(['1.5', 'x', NULL, '']) AS s) t
SELECT INTERVAL '1:02:03', INTERVAL '1 day ago', INTERVAL '1 quarter', INTERVAL '2 days 01:30'
SELECT TIMESTAMP '2024-01-05' + INTERVAL '1:30', TIMESTAMP '2024-01-05' - INTERVAL '1 quarter'
SELECT '2024-01-01 00:00:00+02'::TIMESTAMP, TIMESTAMP '2024-01-01 10:00-05:30', CAST('2024-01-01T00:00:00Z' AS TIMESTAMP), '2024-01-01 23:00:00-05'::DATE
SELECT s::TIMESTAMP, TRY_CAST(s AS TIMESTAMP), CAST(s AS DATE) FROM (VALUES ('2024-01-01 23:00:00-05'), ('2024-01-01 10:00+02:00'), ('2024-1-5')) v(s)
SELECT s::TIMESTAMP WITH TIME ZONE = '2024-01-02 04:00:00+00'::TIMESTAMPTZ, '2024-01-01 00:00:00+02'::TIMESTAMP WITH TIME ZONE = TIMESTAMPTZ '2023-12-31 22:00:00+00' FROM (VALUES ('2024-01-01 23:00:00-05')) v(s)
SELECT map_extract(m, 'b'), element_at(m, 'a') FROM (SELECT 1 AS k, MAP {'a': 1} AS m UNION ALL SELECT 2, MAP {'b': 2} UNION ALL SELECT 3, NULL) t ORDER BY k
SELECT century(i), millennium(i), decade(i) FROM (SELECT INTERVAL '250 years' AS i UNION ALL SELECT INTERVAL '-150 years' UNION ALL SELECT INTERVAL '1 month' UNION ALL SELECT NULL) t ORDER BY ALL
SELECT century(d), millennium(d) FROM (VALUES (DATE '2000-12-31'), (DATE '2001-01-01'), (DATE '1900-01-01'), (DATE '0001-01-01'), (NULL)) t(d) ORDER BY d
TABLE orders
(TABLE customers ORDER BY name LIMIT 1) UNION ALL TABLE customers
WITH x AS (TABLE customers) TABLE x
SELECT count(*) FROM (TABLE customers) t WHERE name IN (SELECT name FROM customers)
FROM orders
FROM orders SELECT id, customer WHERE qty > 1
SELECT * FROM orders LIMIT 2
SELECT * EXCLUDE (tags, day) FROM orders
SELECT * EXCLUDE tags FROM orders
SELECT * REPLACE (price * 2 AS price) FROM orders
SELECT * RENAME (price AS cost) FROM orders
SELECT * EXCLUDE (tags) RENAME (price AS cost, qty AS n) FROM orders
SELECT orders.* EXCLUDE (tags) FROM orders
SELECT COLUMNS(*) FROM orders
SELECT COLUMNS('^q.*') FROM orders
SELECT COLUMNS(['id', 'qty']) FROM orders
SELECT min(COLUMNS(* EXCLUDE (tags))) FROM orders
SELECT max(COLUMNS('price|qty')) FROM orders
SELECT * LIKE 'p%' FROM orders
SELECT id AS a, a + 1 AS b FROM orders
SELECT customer, sum(price) FROM orders GROUP BY ALL ORDER BY ALL
SELECT customer, sum(price) AS s FROM orders GROUP BY 1 HAVING s > 16 ORDER BY s DESC
SELECT count() FROM orders
SELECT count(*) FILTER (price > 10) FROM orders
SELECT DISTINCT ON (customer) customer, id FROM orders ORDER BY customer, id DESC
SELECT customer, row_number() OVER (PARTITION BY customer ORDER BY id) AS n FROM orders QUALIFY n = 1
SELECT id FROM orders QUALIFY row_number() OVER (PARTITION BY customer ORDER BY day DESC) = 1
SELECT id FROM orders ORDER BY price DESC NULLS LAST LIMIT 2 OFFSET 1
SELECT 7 % 3, -7 % 3
SELECT 1_000_000
SELECT 'a' || 'b' || 1
SELECT [1, 2, 3][1], [1, 2, 3][-1], [1, 2, 3, 4][2:3]
SELECT tags[1] FROM orders
SELECT {'a': 1, 'b': 'x'}
SELECT s.a FROM (SELECT {'a': 1} AS s)
SELECT s.* FROM (SELECT {'a': 1, 'b': 'x'} AS s)
SELECT unnest({'a': 1, 'b': 'x'})
SELECT MAP {'a': 1, 'b': 2}['a']
SELECT map(['a', 'b'], [1, 2])
SELECT element_at(MAP {'a': 1}, 'a')
SELECT map_contains(MAP {'a': 1}, 'a')
SELECT map_entries(MAP {'a': 1})
SELECT unnest([1, 2, 3])
SELECT id, unnest(tags) FROM orders
SELECT id, tag FROM orders, unnest(tags) AS u(tag)
SELECT o.id, u.tag FROM orders o, unnest(o.tags) AS u(tag)
SELECT o.id, u.tag FROM orders o CROSS JOIN unnest(o.tags) AS u(tag)
SELECT o.id, u.tag FROM orders o LEFT JOIN unnest(o.tags) AS u(tag) ON true
SELECT list_transform([1, 2], lambda x: x + 1)
SELECT list_filter([1, 2, 3], lambda x: x > 1)
SELECT list_any_value([NULL, 2])
SELECT list_contains(tags, 'a') FROM orders
SELECT list_has_any([1, 2], [2, 3]), list_has_all([1, 2], [2])
SELECT list_position([1, 2, 3], 2)
SELECT list_concat([1], [2, 3])
SELECT list_append([1], 2), list_prepend(0, [1])
SELECT list_sort([3, 1, 2]), list_reverse([1, 2, 3])
SELECT list_intersect([1, 2], [2, 3])
SELECT list_sum([1, 2, 3]), list_avg([1, 2]), list_min([3, 1]), list_max([3, 1])
SELECT list_product([2, 3])
SELECT list_slice([1, 2, 3, 4], 2, 3)
SELECT list_resize([1, 2], 3, 0)
SELECT flatten([[1, 2], [3]])
SELECT array_length([1, 2, 3], 1)
SELECT len(tags) FROM orders
SELECT array_to_string(['a', 'b'], '-')
SELECT list_string_agg(['a', 'b'])
SELECT range(1, 4), generate_series(1, 3)
SELECT repeat('ab', 2), reverse('abc'), left('abc', 2), right('abc', 2)
SELECT lpad('7', 3, '0'), rpad('7', 3, '0'), ltrim('  a'), rtrim('a  '), trim('  a ')
SELECT trim(BOTH 'x' FROM 'xxaxx')
SELECT position('b' IN 'abc'), strpos('abc', 'c')
SELECT substring('abcdef' FROM 2 FOR 3), substr('abcdef', 2), substring('abcdef', 2, 2)
SELECT overlay('abcdef' PLACING 'X' FROM 2 FOR 3)
SELECT replace('aba', 'a', 'x'), translate('abc', 'ab', 'xy')
SELECT concat('a', 1, NULL), concat_ws('-', 'a', NULL, 'b')
SELECT regexp_replace('abcabc', 'b', 'x', 'g')
SELECT regexp_replace('abc', '(a)(b)', '\2\1')
SELECT 'abc' LIKE 'a%', 'ABC' ILIKE 'a%', 'abc' NOT LIKE '_b_'
SELECT 'abc' ~ 'b', 'abc' !~ 'x'
SELECT regexp_matches('abc', '[a-b]')
SELECT 'abc' ~~ 'a%', 'ABC' ~~* 'a%'
SELECT starts_with('abc', 'a'), contains('abc', 'b'), ends_with('abc', 'c')
SELECT ascii('a'), chr(97), unicode('a')
SELECT split_part('a,b,c', ',', 2), string_to_array('a,b', ',')
SELECT abs(-1), ceil(1.2), floor(1.8), round(1.256, 2), trunc(1.9), sqrt(4), cbrt(27), exp(0), ln(1), log10(100), log2(8), power(2, 3), pi()
SELECT sin(0), cos(0), tan(0), asin(0), acos(1), atan(0), atan2(0, 1), degrees(pi()), radians(180), cot(1)
SELECT greatest(1, 2, 3), least(1, 2, 3)
SELECT gcd(12, 8), lcm(4, 6), factorial(5)
SELECT isnan(CAST('nan' AS DOUBLE))
SELECT round(2.5), round(-2.5), round(3.5)
SELECT xor(5, 3)
SELECT log(100), log(2, 8)
SELECT (-(12.5))::INT, (12.5)::INT, CAST((-(2.5)) AS BIGINT), (((3.5)))::INT, (+(2.5))::INT, -(2.5)::INT
SELECT [x * 2 for x in [1, 2] if x > 1], [upper(s) FOR s IN ['a', 'b']], [x FOR x IN NULL::INT[]]
SELECT [[y * 2 FOR y IN x] FOR x IN [[1], [2, 3]]], [x FOR x IN [y + 1 FOR y IN [1, 2]] IF x > 2]
SELECT [x.a.b FOR x IN [{'a': {'b': 3}}]], [if(x > 1, x, 0) FOR x IN [1, 2, 3] IF (x > 1 OR x = 1)]
SELECT list_transform([{'a': 1}], lambda x: x.a), list_filter([{'a': 1}, {'a': 2}], lambda r: r.a > 1)
SELECT id, [t || id FOR t IN tags IF t <> 'a'], [CASE WHEN id > 1 THEN t END FOR t IN tags] FROM orders
SELECT ['a' FOR x IN [1, 2]], substring('abc' FROM 1 FOR 2), len([x FOR x IN [1, 2, 3] IF x IN (1, 2)])
SELECT quantile_disc(price, [0.25, 0.5]), quantile_cont(id, [0.25, 0.5]), quantile(customer, [0, 1]) FROM orders
SELECT percentile_cont([0.25, 0.5]) WITHIN GROUP (ORDER BY id), percentile_disc([0.1]) WITHIN GROUP (ORDER BY day) FROM orders
SELECT customer, quantile_cont(qty, [0.5]) FILTER (WHERE id > 1) AS q FROM orders GROUP BY customer ORDER BY customer
SELECT quantile_cont(id, []), quantile_cont(id, 0.5) FROM orders
SELECT quantile_cont(x, 0.3333333333), quantile_cont(x, [0.3333333333, 0.1234567]), percentile_cont(0.7654321) WITHIN GROUP (ORDER BY x) FROM (VALUES (0.0::DOUBLE), (1e9), (3e9)) t(x)
SELECT customer, quantile_cont(id, 0.1234567) FILTER (WHERE id < 5) AS q, percentile_cont(0.9) WITHIN GROUP (ORDER BY price) AS p FROM orders GROUP BY customer ORDER BY customer
SELECT id, quantile_cont(id, 0.1234567) OVER (PARTITION BY customer) AS q FROM orders ORDER BY id
SELECT quantile_cont(x, 0.5), isnan(quantile_disc(x, 0.9)), quantile_disc(x, 0.2) FROM (VALUES ('nan'::DOUBLE), (1), (-2), (NULL)) t(x)
SELECT quantile_cont(n, 0.3333333), quantile_disc(n, [0, 0.001, 0.3333333, 0.5, 0.77, 0.9999, 1]) FROM (SELECT (i * 7919) % 10007 AS n FROM range(10007) AS r(i)) t
SELECT quantile_cont(n, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]) FROM (SELECT (i * 7919) % 10007 AS n FROM range(10007) AS r(i)) t
SELECT i % 5 AS g, quantile_cont(n, 0.7654321), quantile_disc(n, 0.1) FROM (SELECT i, (i * 7919) % 10007 AS n FROM range(10007) AS r(i)) t GROUP BY g ORDER BY g
SELECT quantile_cont(id, 0.5), quantile_disc(id, 0.5), percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM orders WHERE id > 99
SELECT list_sum([9007199254740993, 0]), list_sum([]::INT[]), list_sum([NULL, 2]), list_sum([1.5::DOUBLE, 2])
SELECT sum(list_sum([id, qty])), list_sum([1.10::DECIMAL(5, 2)]) FROM orders
SELECT extract(hour FROM TIMESTAMP '2024-01-03 10:00' - TIMESTAMP '2024-01-01 08:00'), hour(x - TIMESTAMP '2024-01-05 01:02:03.5') FROM (SELECT TIMESTAMP '2024-01-01' AS x) t
SELECT minute(x), second(x), day(x), date_part('day', x), epoch(x) FROM (SELECT TIMESTAMP '2024-03-01 05:06:07.5' - TIMESTAMP '2024-01-01' AS x) t
SELECT extract(hour FROM TIMESTAMP '2024-01-01 05:00' - TIMESTAMP '2024-01-01') AS h, count(*) FROM orders GROUP BY h
SELECT max_by(i, epoch(i)) = INTERVAL '40 days' FROM (SELECT INTERVAL '1 month' AS i UNION ALL SELECT INTERVAL '40 days') t
SELECT 1::UTINYINT, 5::UBIGINT, 7::HUGEINT
SELECT CAST('1' AS INT), '1'::INT, TRY_CAST('x' AS INT)
SELECT CAST(1.5 AS DECIMAL(5, 2)), CAST('2024-01-01' AS DATE)
SELECT CAST('true' AS BOOLEAN), CAST(1 AS BOOLEAN), true::INT
SELECT CASE qty WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END FROM orders
SELECT coalesce(price, 0), nullif(qty, 1), ifnull(qty, 9) FROM orders
SELECT price IS DISTINCT FROM 5.25 FROM orders
SELECT qty IS NULL, qty NOTNULL FROM orders
SELECT qty ISNULL FROM orders
SELECT id BETWEEN 2 AND 3, id NOT IN (1, 2) FROM orders
SELECT date_trunc('month', day) FROM orders
SELECT EXTRACT(year FROM day), EXTRACT(dow FROM day), EXTRACT(epoch FROM day) FROM orders
SELECT date_part('year', day), date_part('quarter', day) FROM orders
SELECT day + INTERVAL 1 DAY, day - INTERVAL '1 month' FROM orders
SELECT day + 1, day - 1 FROM orders
SELECT DATE '2024-03-01' - DATE '2024-02-01'
SELECT TIMESTAMP '2024-03-01 12:00:00' - TIMESTAMP '2024-02-01'
SELECT age(DATE '2024-03-01', DATE '2023-01-15')
SELECT make_date(2024, 1, 2), make_time(10, 11, 12)
SELECT make_timestamp(1704067200000000)
SELECT epoch_ms(1704067200000)
SELECT strftime(DATE '2024-01-02', '%d/%m/%Y')
SELECT CAST(strptime('02/01/2024', '%d/%m/%Y') AS DATE)
SELECT dayname(day), monthname(day) FROM orders
SELECT last_day(DATE '2024-02-10')
SELECT date_diff('month', DATE '2024-01-31', DATE '2024-03-01')
SELECT datetrunc('year', DATE '2024-05-05'), datepart('month', DATE '2024-05-05')
SELECT julian(DATE '2024-05-05')
SELECT greatest(DATE '2024-01-01', DATE '2024-02-01')
SELECT INTERVAL '1' YEAR, INTERVAL '2 days 3 hours'
SELECT year(day), month(day), count(*) FROM orders GROUP BY ALL ORDER BY ALL
SELECT sum(price), avg(price), min(price), max(price), count(price), count(DISTINCT customer) FROM orders
SELECT sum(DISTINCT qty) FROM orders
SELECT string_agg(customer, ',' ORDER BY id) FROM orders
SELECT array_agg(id ORDER BY id DESC) FROM orders
SELECT list(customer ORDER BY id) FROM orders
SELECT first(id ORDER BY id), last(id ORDER BY id), any_value(id ORDER BY id) FROM orders
SELECT arg_max(customer, price), arg_min(customer, price), max_by(id, price), min_by(id, price) FROM orders
SELECT median(price), mode(customer), quantile_cont(price, 0.5), quantile_disc(price, 0.5) FROM orders
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) FROM orders
SELECT stddev(price), var_pop(price), corr(price, qty), covar_samp(price, qty), regr_slope(price, qty), regr_intercept(price, qty) FROM orders
SELECT regr_count(price, qty), regr_avgx(price, qty), regr_avgy(price, qty), regr_sxx(price, qty), regr_sxy(price, qty), regr_syy(price, qty), regr_r2(price, qty) FROM orders
SELECT bit_and(qty), bit_or(qty), bit_xor(qty) FROM orders
SELECT bool_and(qty > 0), bool_or(qty > 3) FROM orders
SELECT approx_count_distinct(customer) FROM orders
SELECT histogram(customer) FROM orders
SELECT product(qty) FROM orders
SELECT kurtosis(price), skewness(price), entropy(customer) FROM orders
SELECT sem(price) FROM orders
SELECT favg(price), fsum(price) FROM orders
SELECT count_star() FROM orders
SELECT list(DISTINCT customer ORDER BY customer) FROM orders
SELECT weighted_avg(price, qty) FROM orders
SELECT customer, day, sum(price) FROM orders GROUP BY ROLLUP (customer, day) ORDER BY ALL
SELECT customer, sum(price) FROM orders GROUP BY CUBE (customer) ORDER BY ALL
SELECT customer, day, count(*) FROM orders GROUP BY GROUPING SETS ((customer), (day), ()) ORDER BY ALL
SELECT customer, grouping(customer), count(*) FROM orders GROUP BY ROLLUP (customer) ORDER BY ALL
SELECT id, lag(price) OVER (ORDER BY id), lead(price, 1, 0.0) OVER (ORDER BY id) FROM orders ORDER BY id
SELECT id, rank() OVER (ORDER BY customer), dense_rank() OVER (ORDER BY customer), ntile(2) OVER (ORDER BY id), percent_rank() OVER (ORDER BY customer), cume_dist() OVER (ORDER BY customer) FROM orders ORDER BY id
SELECT id, first_value(id) OVER w, last_value(id) OVER w, nth_value(id, 2) OVER w FROM orders WINDOW w AS (PARTITION BY customer ORDER BY id) ORDER BY id
SELECT id, sum(qty) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders ORDER BY id
SELECT id, sum(qty) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM orders ORDER BY id
SELECT id, lag(price IGNORE NULLS) OVER (ORDER BY id) FROM orders ORDER BY id
SELECT id, last_value(price IGNORE NULLS) OVER (ORDER BY id) FROM orders ORDER BY id
SELECT id, sum(qty) FILTER (WHERE qty > 1) OVER (ORDER BY id) FROM orders ORDER BY id
SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer = c.name ORDER BY ALL
SELECT o.id, c.city FROM orders o LEFT JOIN customers c ON o.customer = c.name ORDER BY ALL
SELECT o.id, c.city FROM orders o RIGHT JOIN customers c ON o.customer = c.name ORDER BY ALL
SELECT o.id, c.city FROM orders o FULL JOIN customers c ON o.customer = c.name ORDER BY ALL
SELECT o.id, c.name FROM orders o CROSS JOIN customers c ORDER BY ALL LIMIT 3
SELECT item, n FROM sold NATURAL JOIN prices
SELECT item, n, price FROM sold JOIN prices USING (item) ORDER BY ALL
SELECT id FROM orders SEMI JOIN customers ON customer = name
SELECT id FROM orders ANTI JOIN customers ON customer = name
SELECT c.name, o.n FROM customers c, LATERAL (SELECT count(*) AS n FROM orders WHERE customer = c.name) o ORDER BY ALL
SELECT c.name, o.id FROM customers c LEFT JOIN LATERAL (SELECT id FROM orders WHERE customer = c.name) o ON true ORDER BY ALL
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y)
VALUES (1, 'a'), (2, 'b')
SELECT 1 UNION SELECT 1 UNION ALL SELECT 2
SELECT 1 AS a, 2 AS b UNION ALL BY NAME SELECT 3 AS b, 4 AS a
SELECT 1 AS a UNION BY NAME SELECT 2 AS b
SELECT id FROM orders INTERSECT SELECT 1
SELECT id FROM orders EXCEPT SELECT 1 ORDER BY 1
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT * FROM r
WITH a AS MATERIALIZED (SELECT 1 AS x) SELECT * FROM a
WITH a(x, y) AS (SELECT 1, 2) SELECT y FROM a
SELECT id FROM orders WHERE price > (SELECT avg(price) FROM orders)
SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.name = o.customer) ORDER BY id
SELECT id FROM orders WHERE customer IN (SELECT name FROM customers WHERE city LIKE 'B%') ORDER BY id
SELECT id FROM orders WHERE price > ANY (SELECT price FROM prices) ORDER BY id
SELECT id FROM orders WHERE price > ALL (SELECT price FROM prices) ORDER BY id
SELECT (SELECT count(*) FROM customers) AS n, id FROM orders ORDER BY id LIMIT 1
SELECT 1 = ANY([1, 2]), 3 = ANY([1, 2])
SELECT id FROM orders WHERE 'a' = ANY(tags) ORDER BY id
SELECT (1, 2) = (1, 2)
SELECT id FROM orders WHERE (customer, qty) IN (('ann', 2), ('bob', 1)) ORDER BY id
PIVOT orders ON customer IN ('ann', 'bob') USING sum(qty)
SELECT * FROM (SELECT customer, qty FROM orders) PIVOT (sum(qty) FOR customer IN ('ann', 'bob'))
UNPIVOT prices ON tick, price INTO NAME k VALUE v
SELECT * FROM prices UNPIVOT (v FOR k IN (tick, price))
SELECT * FROM range(3)
SELECT * FROM generate_series(1, 3)
SELECT * FROM range(1, 10, 3)
SELECT * FROM orders TABLESAMPLE 100%
SELECT * FROM orders USING SAMPLE 100%
SELECT count(*) FROM orders USING SAMPLE 3 ROWS
SELECT count(*) FROM (SELECT * FROM orders USING SAMPLE 3)
SELECT count(*) FROM (SELECT * FROM orders TABLESAMPLE reservoir(3 ROWS))
SELECT count(*) FROM (SELECT * FROM orders ORDER BY random() LIMIT 3)
SELECT 1 AS a FROM (SELECT * FROM orders ORDER BY random() LIMIT 2)
SELECT count(*) FROM orders WHERE EXISTS (SELECT 1 FROM orders ORDER BY random() LIMIT 1)
SELECT j->'a' FROM (SELECT '{"a": [1, 2]}' AS j)
SELECT json_extract('{"a": [1, 2]}', '$.a[0]')
SELECT '{"a": {"b": 1}}'->>'$.a.b'
SELECT json_array_length('[1, 2]')
SELECT json_exists('{"a": 1}', '$.a')
SELECT uuid() IS NOT NULL
SELECT random() < 1
SELECT current_date = today()
SELECT now() IS NOT NULL, current_timestamp IS NOT NULL
SELECT version() IS NOT NULL
SELECT format('{} {}', 'a', 1), printf('%d-%s', 1, 'a')
SELECT nfc_normalize('a'), strip_accents('é')
SELECT string_split('a b', ' ')
SELECT hex('a'), unhex('61')
SELECT array_pop_front([1, 2]), array_pop_back([1, 2])
SELECT array_push_back([1], 2)
SELECT [1] || [2, 3]
SELECT 1 IN (1, NULL), NULL IN (1)
SELECT ROW_NUMBER() OVER () FROM orders
SELECT CAST(NULL AS INT) IS NULL
SELECT DISTINCT customer FROM orders ORDER BY customer
SELECT ALL customer FROM orders ORDER BY 1
SELECT t.* FROM orders AS t WHERE t.id = 1
SELECT 'it''s', E'a\tb', $$x$$
SELECT "id" FROM "orders" LIMIT 1
SELECT ID, Customer FROM ORDERS ORDER BY Id LIMIT 1
SELECT customer c, id i FROM orders ORDER BY i LIMIT 1
SELECT 1 AS a, 2 AS a
SELECT * FROM customers c JOIN prices p ON c.since > p.tick LIMIT 1
SELECT * FROM sold s JOIN prices p ON s.item = p.item
DESCRIBE customers
SELECT date_trunc('week', TIMESTAMP '2024-02-03 10:00:00')
SELECT now()::date = current_date
SELECT EXTRACT(isodow FROM DATE '2024-02-03'), EXTRACT(doy FROM DATE '2024-02-03')
SELECT format('%s-%s', 'a', 'b')
SELECT regexp_split_to_array('a b', ' ')
SELECT regexp_split_to_table('a b', ' ')
SELECT array_position(ARRAY[1, 2], 2)
SELECT ARRAY[1, 2] @> ARRAY[1]
SELECT array_agg(DISTINCT customer ORDER BY customer) FROM orders
SELECT cardinality(ARRAY[1, 2])
SELECT unnest(string_to_array('a,b', ','))
SELECT '{"a": 1}'::json ->> 'a'
SELECT random() BETWEEN 0 AND 1
SELECT string_agg(DISTINCT customer, ',') FROM orders WHERE id = 1
SELECT count(*) FROM orders GROUP BY customer HAVING count(*) > 1
SELECT generate_series(1, 3)
SELECT * FROM generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day') AS d
SELECT id FROM orders ORDER BY id FETCH FIRST 2 ROWS ONLY
SELECT id FROM orders TABLESAMPLE SYSTEM (100)
SELECT count(*) OVER () FROM customers
SELECT INTERVAL '1 year 2 mons'
SELECT interval '1 day' * 3
SELECT 1::float8, 1::int4, 'a'::text, 1::numeric(5,2), 1::bool
SELECT '1'::bigint + 1
SELECT ROW(1, 2) = ROW(1, 2)
SELECT NULLIF(1, 1) IS NULL, GREATEST(1, NULL, 3)
SELECT X'1F'
SELECT position('b' in 'abc')
SELECT DISTINCT customer, count(*) OVER () FROM orders
SELECT dayname(DATE '2024-02-03')
SELECT array_contains([1, 2], 1)
SELECT * FROM VALUES (1, 'a') AS v(x, y)
SELECT count(*) FROM orders TABLESAMPLE (3 ROWS)
SELECT * ILIKE '%i%' FROM orders
SELECT * EXCLUDE tags RENAME price AS cost FROM orders
SELECT $$a$$
SELECT id AS a, a + 1 FROM orders ORDER BY a
SELECT any_value(customer) FROM orders WHERE id = 1
SELECT make_date(2024, 1, 1), weekday(DATE '2024-02-03'), dayofweek(DATE '2024-02-03')
SELECT regexp_extract('a1b2', '([a-z])(\\d)', 2), regexp_replace('a1', '\\d', 'x')
SELECT skewness(price), kurtosis(price), corr(price, qty), covar_pop(price, qty) FROM orders
SELECT uuid() <> uuid()
SELECT /*+ BROADCAST(c) */ count(*) FROM orders o JOIN customers c ON o.customer = c.name
SELECT `id` FROM `orders` LIMIT 1
SELECT 1L, 1.5D, 1S, 1Y, 1.5BD
SELECT id, CASE WHEN qty > 1 THEN 'x' END FROM orders ORDER BY id
SELECT cast(day AS timestamp) FROM orders WHERE id = 1
SELECT id FROM orders ORDER BY id OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY
SELECT date('2024-01-01'), if(true, 1, 2), ifnull(1, 2), group_concat(customer) FROM orders WHERE id = 1 GROUP BY id
SELECT id FROM orders WHERE NOT qty > 1
SELECT id FROM orders WHERE qty != 1 AND qty <> 2
SELECT id FROM orders WHERE customer LIKE 'a%' ESCAPE '\'
SELECT id FROM orders WHERE day >= '2024-02-01'
SELECT id FROM orders WHERE day BETWEEN '2024-01-01' AND '2024-01-31'
SELECT id FROM orders WHERE qty = '2'
SELECT id FROM orders FINAL
SELECT id FROM orders QUALIFY row_number() OVER (ORDER BY id) <= 0.4 * count(*) OVER ()
SELECT DISTINCT ON (s.item, s.tick) s.item, s.tick, p.price FROM sold s JOIN prices p ON s.item = p.item AND s.tick >= p.tick ORDER BY s.item, s.tick, p.tick DESC
SELECT c.name, o.id FROM customers c JOIN orders o ON o.customer = c.name QUALIFY row_number() OVER (PARTITION BY c.name ORDER BY o.id DESC) <= 1 ORDER BY ALL
SELECT id FROM orders LIMIT 7 % 4
SELECT count(*) FROM orders TABLESAMPLE 3 ROWS
SELECT count(*) FROM orders TABLESAMPLE 100%
SELECT count(*) FROM orders TABLESAMPLE 100 PERCENT
SELECT count(*) FROM orders USING SAMPLE 3
SELECT count(*) FROM orders USING SAMPLE 100%
SELECT count(*) FROM orders USING SAMPLE reservoir(3 ROWS)
SELECT count(*) FROM (SELECT * FROM orders TABLESAMPLE reservoir(3 ROWS)) x
SELECT count(*) FROM orders o TABLESAMPLE SYSTEM (100) JOIN customers c ON o.customer = c.name
SELECT u.* FROM orders o, unnest(o.tags) AS u(tag)
SELECT a, b FROM (SELECT 1 AS a, 2 AS b) q WHERE a NOTNULL AND b NOTNULL
SELECT NULL ISNULL, 1 + 1 NOTNULL
SELECT 1_000 + 1, 1_0.5
SELECT count(*) AS "isnull" FROM orders
SELECT 5 AS minus
WITH a AS NOT MATERIALIZED (SELECT 1 AS x) SELECT * FROM a
WITH materialized AS (SELECT 1 AS x) SELECT * FROM materialized
SELECT [1,2,3][1:2]
SELECT {'a':1}
SELECT {a:1}
SELECT flatten([[1], [2]])
SELECT COLUMNS('price|qty') + COLUMNS('price|qty') FROM orders
SELECT * ILIKE 'P%' FROM orders
SELECT s.*, 1 AS c FROM (SELECT {'a': 1, 'b': 'x'} AS s)
SELECT 'COLUMNS(*)' AS rename FROM customers LIMIT 1
SELECT rename FROM (SELECT 1 AS rename)
SELECT * RENAME (id AS n) FROM (WITH q AS (SELECT 5 AS id) SELECT id FROM q)
SELECT * RENAME (x AS n) FROM (VALUES (1, 2)) AS v(x, y)
SELECT count(*), count(id) FROM (SELECT o.* FROM orders o TABLESAMPLE (2 ROWS)) x
SELECT count(id) FROM (SELECT * FROM orders USING SAMPLE 3 ROWS) x
SELECT array_agg(customer ORDER BY customer DESC), string_agg(DISTINCT customer, '|' ORDER BY customer) FROM orders
SELECT customer, array_agg(id ORDER BY id), array_agg(DISTINCT qty ORDER BY qty DESC) FILTER (qty > 1) FROM orders GROUP BY customer ORDER BY customer
SELECT INTERVAL '25 hours' > INTERVAL '1 day', INTERVAL '1 day' = INTERVAL '24 hours', INTERVAL '30 days' IN (INTERVAL '1 month'), INTERVAL '40 days' BETWEEN INTERVAL '1 month' AND INTERVAL '2 months'
SELECT id FROM orders WHERE TIMESTAMP '2024-03-20 12:00:00' - CAST(day AS TIMESTAMP) > INTERVAL '30 days' ORDER BY id
SELECT day::TIMESTAMP::VARCHAR, 'at ' || CAST(day AS TIMESTAMP), concat(CAST(day AS TIMESTAMP), '!') FROM orders
SELECT CAST(TIMESTAMP '2024-01-05 10:15:30.25' AS VARCHAR), CAST(TIMESTAMPTZ '2024-01-05 10:15:30+02' AS VARCHAR)
SELECT CAST(id AS VARCHAR), id::DOUBLE, -id, -id FROM orders
SELECT DISTINCT upper(customer) FROM orders ORDER BY upper(customer)
SELECT coalesce(customer, 'all'), sum(price) FROM orders GROUP BY ROLLUP (customer) ORDER BY 1
WITH RECURSIVE t(n, f) AS (SELECT 1, 1 UNION ALL SELECT n + 1, f * (n + 1) FROM t WHERE n < 5) SELECT n, f FROM t ORDER BY n
SELECT id, sum(qty) OVER (w ROWS 1 PRECEDING), max(qty) OVER v FROM orders WINDOW w AS (ORDER BY id), v AS (w ROWS UNBOUNDED PRECEDING) ORDER BY id
SELECT id FROM orders WINDOW w AS (PARTITION BY customer ORDER BY id DESC) QUALIFY row_number() OVER w = 1 ORDER BY id
SELECT tags[:1], tags[2:], [1, 2, 3][:2], [1, 2, 3][2:] FROM orders
SELECT id FROM orders WHERE customer GLOB 'b?b*'
SELECT id, sum(price) OVER (ORDER BY day RANGE BETWEEN INTERVAL 30 DAYS PRECEDING AND CURRENT ROW) FROM orders ORDER BY id
SELECT id, (SELECT city FROM customers c WHERE c.name = o.customer ORDER BY since DESC LIMIT 1) AS city FROM orders o ORDER BY id
SELECT name FROM customers c WHERE since < (SELECT o.id + 2020 FROM orders o WHERE o.customer = c.name ORDER BY o.day LIMIT 1)
SELECT count(*) FROM orders JOIN (SELECT customer, max(day) AS day FROM orders GROUP BY customer) USING (customer, day)
SELECT make_time(10, 20, 30.5), make_timestamp(2024, 1, 2, 3, 4, 5.5)
SELECT list_sort([1, NULL, 3, 2]), list_sort([1, NULL, 2], 'DESC'), list_sort(list_distinct([2, NULL, 2, 1])), list_dot_product([1.0, 2.0], [3.0, 4.0])
SELECT grouping_id(customer, day), count(*) FROM orders GROUP BY ROLLUP (customer, day) ORDER BY ALL
SELECT '{"a": 1}'::JSON ->> 'a', length('[1]'::JSON)
SELECT id, extract(epoch FROM gap), date_part('epoch', gap), epoch(gap) FROM (SELECT id, CAST(day AS TIMESTAMP) - TIMESTAMP '2024-01-01 00:00:00.25' AS gap FROM orders) q
SELECT extract(epoch FROM INTERVAL '1 day 2.5 seconds'), extract(epoch FROM TIME '01:00:00.5'), extract(epoch FROM DATE '2024-01-01')
""".strip().splitlines()
"""Statements that DuckDB answers alike."""


def _read(table: str) -> dict[str, list[str]]:
    """Read lines of a statement and what belongs to it, divided by ;;."""
    lines = [line.split(" ;; ") for line in table.strip().splitlines()]
    return {statement: rest for statement, *rest in lines}


ANSWERED = _read(r"""
SELECT g, g.g * 2 FROM generate_series(1, 3) AS g WHERE g > 1 ;; [[2, 4], [3, 6]]
SELECT i, j FROM range(2) i JOIN generate_series(1, 2) j ON i = j ;; [[1, 1]]
SELECT n FROM unnest([1, 2]) AS n ;; [[1], [2]]
SELECT d::VARCHAR FROM generate_series(DATE '2024-01-31', DATE '2024-02-02', INTERVAL 1 DAY) d WHERE d > DATE '2024-02-01' ;; [['2024-02-02']]
SELECT len(range(TIMESTAMP '2024-01-01', DATE '2024-01-03', INTERVAL '1 day')) ;; [[2]]
SELECT g::VARCHAR FROM generate_series(DATE '2024-01-01', TIMESTAMP '2024-01-02 12:00', INTERVAL '12 hours') AS g(g) WHERE g > DATE '2024-01-02' ;; [['2024-01-02 12:00:00']]
SELECT len(generate_series(TIMESTAMP '2024-01-01', CAST('2024-01-03' AS TIMESTAMP(0)), INTERVAL '1 day')), len(range(CAST('2024-01-01' AS TIMESTAMP(0)), TIMESTAMP '2024-01-01 00:00:01', INTERVAL '500 milliseconds')) ;; [[3, 2]]
SELECT generate_series(NULL, TIMESTAMP '2024-01-01', INTERVAL '1 month') IS NULL, generate_series(NULL, NULL, INTERVAL '1 month') IS NULL ;; [[True, True]]
SELECT 5 / 2 ;; [[2]]
SELECT list_transform([1, 2, 3], x -> x + 1) ;; [[[2, 3, 4]]]
SELECT list_filter([1, 2, 3], x -> x > 1) ;; [[[2, 3]]]
SELECT list_transform(tags, t -> upper(t)) FROM orders ;; [[None], [['A', 'B']], [['B']], [['C', 'A', 'A']], [[]]]
SELECT list_filter(tags, t -> t <> 'a') FROM orders ;; [[None], [['b']], [['b']], [['c']], [[]]]
SELECT list_transform(list_filter([1, 2, 3], x -> x > 1), y -> y * 10) ;; [[[20, 30]]]
SELECT array_transform([1, 2, 3], x -> x + 1), array_filter([1, 2], x -> x = 1) ;; [[[2, 3, 4], [1]]]
SELECT apply([1, 2, 3], x -> x * x) ;; [[[1, 4, 9]]]
SELECT list_distinct([1, 1, 2]) ;; [[[1, 2]]]
SELECT 'abc' SIMILAR TO 'a.c' ;; [[False]]
SELECT md5('a'), sha256('a') ;; [['0cc175b9c0f1b6a831c399e269772661', b'\xca\x97\x81\x12\xca\x1b\xbd\xca\xfa\xc21\xb3\x9a#\xdcM\xa7\x86\xef\xf8\x14|Nr\xb9\x80w\x85\xaf\xeeH\xbb']]
SELECT bit_length('abc'), octet_length('abc'), char_length('abc'), length('é') ;; [[24, 3, 3, 1]]
SELECT to_timestamp(1704067200) ;; [['2024-01-01']]
SELECT to_timestamp(10000000000.5), to_timestamp(-1.25), to_timestamp(253402300799) ;; [['2286-11-20T17:46:40.500000', '1969-12-31T23:59:58.750000', '9999-12-31T23:59:59']]
SELECT TIMESTAMP '2024-01-01' AT TIME ZONE 'UTC' ;; [['2024-01-01']]
SELECT to_hex(255) ;; [['ff']]
SELECT to_char(DATE '2024-02-03', 'DD Mon YYYY') ;; [['03 Feb 2024']]
SELECT regexp_match('abc', '(a)(b)') ;; [[['a', 'b']]]
SELECT regexp_count('aXbX', 'X') ;; [[2]]
SELECT regexp_instr('abcb', 'b') ;; [[2]]
SELECT regexp_like('abc', 'B', 'i') ;; [[True]]
SELECT btrim('xxaxx', 'x') ;; [['a']]
SELECT ARRAY[1, 2] || 3 ;; [[[1, 2, 3]]]
SELECT array_remove(ARRAY[1, 2, 1], 1), array_replace(ARRAY[1, 2], 1, 9), array_cat(ARRAY[1], ARRAY[2]) ;; [[[2, 1], [9, 2], [1, 2]]]
SELECT '{"a": 1}'::jsonb ->> 'a' ;; [['1']]
SELECT div(7, 2), div(-9007199254740993, 2), mod(7, 2) ;; [[3, -4503599627370496, 1]]
SELECT width_bucket(5, 0, 10, 5) ;; [[3]]
SELECT every(qty > 0) FROM orders ;; [[True]]
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b']) AS u(x, y) ;; [[1, 'a'], [2, 'b']]
SELECT iff(1 > 0, 'a', 'b'), nvl(NULL, 1), nvl2(1, 2, 3), zeroifnull(NULL), decode(1, 1, 'a') ;; [['a', 1, 2, 0, 'a']]
SELECT dateadd(day, 1, DATE '2024-01-01'), datediff(day, DATE '2024-01-01', DATE '2024-01-03') ;; [['2024-01-02', 2]]
SELECT to_varchar(12), to_date('2024-01-01'), to_timestamp('2024-01-01 00:00:00') ;; [['12', '2024-01-01', '2024-01-01']]
SELECT try_to_timestamp('x'), try_to_double('1') ;; [[None, 1.0]]
SELECT listagg(customer, ',') WITHIN GROUP (ORDER BY id) FROM orders ;; [['ann,bob,ann,cid,bob']]
SELECT object_construct('a', 1, 'b', 2) ;; [[[['a', 1], ['b', 2]]]]
SELECT props:a FROM (SELECT '{"a": "x"}' AS props) q ;; [['x']]
SELECT props:a.b FROM (SELECT '{"a": {"b": "x"}}' AS props) q ;; [['x']]
SELECT props:a::int FROM (SELECT '{"a": "1"}' AS props) q ;; [[1]]
SELECT props:a[0] FROM (SELECT '{"a": ["x"]}' AS props) q ;; [['x']]
SELECT f.value FROM orders, LATERAL FLATTEN(input => tags) f ;; [['a'], ['a'], ['a'], ['b'], ['b'], ['c']]
SELECT o.id, f.value FROM orders o, LATERAL FLATTEN(o.tags) AS f ;; [[1, 'a'], [1, 'b'], [2, 'b'], [5, 'a'], [5, 'a'], [5, 'c']]
SELECT INTERVAL '1-2' YEAR TO MONTH = INTERVAL '1 year 2 months', INTERVAL '3 1:30' DAY TO MINUTE = INTERVAL '3 days 90 minutes', INTERVAL 'P1DT2H' = INTERVAL '26 hours', INTERVAL '-1:30' * 2 = INTERVAL '-3 hours' ;; [[True, True, True, True]]
SELECT TIMESTAMP WITH TIME ZONE '2024-01-05 10:00:00+02' ;; [['2024-01-05T08:00:00']]
SELECT TIME '10:00 PM' ;; [['22:00:00']]
SELECT value FROM TABLE(FLATTEN(input => [1, 2])) ;; [[1], [2]]
SELECT o.id, f.value FROM orders o, LATERAL FLATTEN(input => o.tags, outer => true) f ;; [[1, 'a'], [1, 'b'], [2, 'b'], [3, None], [4, None], [5, 'a'], [5, 'a'], [5, 'c']]
SELECT column1 FROM VALUES (1), (2) ;; [[1], [2]]
SELECT id FROM orders SAMPLE (100) ;; [[1], [2], [3], [4], [5]]
SELECT id FROM orders SAMPLE ROW (100) ;; [[1], [2], [3], [4], [5]]
SELECT count(*) FROM orders SAMPLE (3 ROWS) ;; [[3]]
SELECT TOP 2 id FROM orders ORDER BY id ;; [[1], [2]]
SELECT charindex('b', 'abc'), contains('abc', 'b'), startswith('abc', 'a'), editdistance('a', 'b') ;; [[2, True, True, 1]]
SELECT md5_hex('a'), sha1_hex('a'), sha2_hex('a') ;; [['0cc175b9c0f1b6a831c399e269772661', '86f7e437faa5a7fce15d1ddcb9eaeaea377667b8', 'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb']]
SELECT median(price), mode(customer), approx_percentile(price, 0.5) FROM orders ;; [[15.25, 'ann', 10.5]]
SELECT bitand(5, 3), bitshiftleft(1, 3), bitnot(5) ;; [[1, 8, -6]]
SELECT regexp_substr('abc', 'b'), regexp_count('aa', 'a'), rlike('abc', 'a.*') ;; [['b', 2, True]]
SELECT initcap('ab cd'), insert('abc', 1, 1, 'x'), space(2), reverse('abc') ;; [['Ab Cd', 'xbc', '  ', 'cba']]
SELECT last_day(DATE '2024-02-03'), next_day(DATE '2024-02-03', 'mo'), add_months(DATE '2024-01-31', 1), months_between(DATE '2024-03-01', DATE '2024-01-01') ;; [['2024-02-29', '2024-02-05', '2024-02-29', 2.0]]
SELECT previous_day(DATE '2024-02-03', 'mo') ;; [['2024-01-29']]
SELECT trunc(DATE '2024-02-03', 'month') ;; [['2024-02-01']]
SELECT monthname(DATE '2024-02-03'), yearofweek(DATE '2024-02-03') ;; [['February', 2024]]
SELECT equal_null(NULL, NULL), 1 <=> 1 ;; [[True, True]]
SELECT NULL <=> NULL ;; [[True]]
SELECT collect_list(id), collect_set(customer) FROM orders WHERE id = 1 ;; [[[1], ['ann']]]
SELECT explode(tags) FROM orders ;; [['a'], ['a'], ['a'], ['b'], ['b'], ['c']]
SELECT id, t FROM orders LATERAL VIEW explode(tags) x AS t ;; [[1, 'a'], [1, 'b'], [2, 'b'], [5, 'a'], [5, 'a'], [5, 'c']]
SELECT id, t FROM orders LATERAL VIEW OUTER explode(tags) x AS t ;; [[1, 'a'], [1, 'b'], [2, 'b'], [3, None], [4, None], [5, 'a'], [5, 'a'], [5, 'c']]
SELECT transform(array(1, 2), x -> x + 1) ;; [[[2, 3]]]
SELECT filter(array(1, 2), x -> x > 1) ;; [[[2]]]
SELECT exists(array(1, 2), x -> x > 1) ;; [[True]]
SELECT array_sort(array(2, 1)), sort_array(array(2, 1)) ;; [[[1, 2], [1, 2]]]
SELECT array_max(array(1, 2)), array_min(array(1, 2)), array_join(array('a', 'b'), ','), array_repeat('a', 2) ;; [[2, 1, 'a,b', ['a', 'a']]]
SELECT array_contains(array(1, 2), 1), array_distinct(array(1, 1)), array_union(array(1), array(2)), array_except(array(1, 2), array(1)), array_intersect(array(1, 2), array(2)) ;; [[True, [1], [1, 2], [2], [2]]]
SELECT arrays_overlap(array(1), array(1)), arrays_zip(array(1), array(2)) ;; [[True, [[['1', 1], ['2', 2]]]]]
SELECT [1] && [2], [1, 2] @> [1], ARRAY[1] <@ ARRAY[2] ;; [[False, True, False]]
SELECT size(array(1)), cardinality(array(1)), array_size(array(1)) ;; [[1, 1, 1]]
SELECT map('a', 1, 'b', 2) ;; [[[['a', 1], ['b', 2]]]]
SELECT map_keys(map('a', 1)), map_values(map('a', 1)), map_entries(map('a', 1)) ;; [[['a'], [1], [[['key', 'a'], ['value', 1]]]]]
SELECT map_from_arrays(array('a'), array(1)) ;; [[[['a', 1]]]]
SELECT map_contains_key(map('a', 1), 'a') ;; [[True]]
SELECT struct(1, 'a'), named_struct('a', 1) ;; [[[['c0', 1], ['c1', 'a']], [['a', 1]]]]
SELECT date_format(DATE '2024-02-03', 'yyyy-MM'), to_date('2024-02-03', 'yyyy-MM-dd') ;; [['2024-02', '2024-02-03']]
SELECT from_unixtime(0) ;; [['1970-01-01']]
SELECT date_add(DATE '2024-01-01', 1), date_sub(DATE '2024-01-02', 1), datediff(DATE '2024-01-03', DATE '2024-01-01') ;; [['2024-01-02', '2024-01-01', 2]]
SELECT trunc('2024-02-03', 'MM') ;; [['2024-02-01']]
SELECT timestamp_seconds(0), timestamp_millis(0), timestamp_micros(0) ;; [['1970-01-01', '1970-01-01', '1970-01-01']]
SELECT date_from_unix_date(1) ;; [['1970-01-02']]
SELECT to_unix_timestamp(TIMESTAMP '2024-01-01') ;; [[1704067200]]
SELECT current_timezone() ;; [['UTC']]
SELECT pmod(-7, 3) ;; [[2]]
SELECT hypot(3, 4) ;; [[5.0]]
SELECT substring_index('a.b.c', '.', 2) ;; [['a.b']]
SELECT find_in_set('b', 'a,b') ;; [[2]]
SELECT format_string('%s', 'a') ;; [['a']]
SELECT try_divide(1, 0) ;; [[None]]
SELECT nvl(NULL, 1), ifnull(NULL, 1), nullif(1, 1), isnull(NULL), isnotnull(1), nanvl(1.0, 2.0) ;; [[1, 1, None, True, True, 1.0]]
SELECT percentile(price, 0.5), percentile_approx(price, 0.5), approx_percentile(price, 0.5) FROM orders ;; [[15.25, 10.5, 10.5]]
SELECT id FROM orders LEFT SEMI JOIN customers ON customer = name ;; [[1], [2], [3], [5]]
SELECT id FROM orders LEFT ANTI JOIN customers ON customer = name ;; [[4]]
SELECT id FROM orders MINUS SELECT 1 ORDER BY 1 ;; [[2], [3], [4], [5]]
FROM orders |> WHERE qty > 1 |> SELECT id |> ORDER BY id ;; [[1], [3], [5]]
SELECT timestampdiff(DAY, DATE '2024-01-01', DATE '2024-01-03'), timestampadd(DAY, 1, DATE '2024-01-01') ;; [[2, '2024-01-02']]
SELECT isnull(1), charindex('a', 'cab'), len('ab'), getdate() IS NOT NULL, newid() IS NOT NULL ;; [[False, 2, 2, True, True]]
SELECT safe_cast('x' AS INT) ;; [[None]]
SELECT str_to_date('2024-01-02', '%Y-%m-%d'), date_format(DATE '2024-01-02', '%Y'), dayofweek(DATE '2024-01-02') ;; [['2024-01-02', '2024', 2]]
SELECT id FROM orders LIMIT 1, 2 ;; [[2], [3]]
SELECT id FROM orders WHERE qty <=> NULL ;; [[4]]
SELECT substring_index('a', 'b', 1) ;; [['a']]
SELECT id XOR 1 FROM orders ;; [[0], [2], [3], [4], [5]]
SELECT NOT array_any_match([1, 2], x -> NOT (x > 0)) ;; [[True]]
SELECT count(*) FROM orders SAMPLE (100) ;; [[5]]
SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.name = o.customer AND array_any_match(o.tags, x -> x = 'a')) ORDER BY id ;; [[1], [5]]
SELECT id FROM orders o WHERE exists(tags, x -> x = 'a') ORDER BY id ;; [[1], [5]]
SELECT id FROM orders WHERE array_any_match(tags, x -> x = 'a') OR id IN (SELECT 2) ORDER BY id ;; [[1], [2], [5]]
SELECT customer, sum(list_sum(list_transform([qty], x -> x * 2))) FROM orders GROUP BY customer ORDER BY 1 ;; [['ann', 12.0], ['bob', 8.0], ['cid', None]]
SELECT list_transform([id], x -> x + 1) AS l FROM orders GROUP BY list_transform([id], x -> x + 1) ORDER BY 1 ;; [[[2]], [[3]], [[4]], [[5]], [[6]]]
SELECT a.l FROM (SELECT list_transform([id], x -> x * 2) AS l, id FROM orders) a WHERE list_contains(a.l, 4) ;; [[[4]]]
SELECT list_filter(tags, x -> x = customer) FROM orders UNION ALL SELECT ['x'] ;; [[None], [['x']], [[]], [[]], [[]], [[]]]
WITH q AS (SELECT list_filter(tags, x -> x = 'a') AS l FROM orders) SELECT len(l) FROM q ORDER BY ALL ;; [[0], [0], [1], [2], [None]]
SELECT list_transform([1, 2], x -> CASE WHEN x > 1 THEN 'a' ELSE 'b' END) ;; [[['b', 'a']]]
SELECT list_transform([1.5, 2.5], x -> CAST(x AS INT)) ;; [[[2, 2]]]
SELECT list_transform(['2024-01-01'], x -> CAST(x AS DATE)) ;; [[['2024-01-01']]]
SELECT list_filter(['ab', 'c'], x -> x LIKE 'a%') ;; [[['ab']]]
SELECT list_filter(['ab', 'c'], x -> length(x) > 1 AND x IS NOT NULL) ;; [[['ab']]]
SELECT list_filter([1, 2, 3], x -> x IN (1, 3)) ;; [[[1, 3]]]
SELECT list_filter([1, 2, 3], x -> x BETWEEN 2 AND 3) ;; [[[2, 3]]]
SELECT list_filter([1, 2, 3], x -> x % 2 = 0) ;; [[[2]]]
SELECT list_transform([1, 2], x -> {'a': x}) ;; [[[[['a', 1]], [['a', 2]]]]]
SELECT list_transform([{'a': 1}], x -> x['a']) ;; [[[1]]]
SELECT len(list_filter(NULL, x -> x > 1)) ;; [[None]]
SELECT list_transform([], x -> x) ;; [[[]]]
SELECT 1 MINUS SELECT 1 ;; []
SELECT id, t FROM orders LATERAL VIEW explode(tags) x AS t WHERE t = 'a' ORDER BY id ;; [[1, 'a'], [5, 'a'], [5, 'a']]
SELECT q.doc:a.b::int + 1 AS n FROM (SELECT '{"a": {"b": 4}}' AS doc) q WHERE q.doc:a.b::int > 3 ;; [[5]]
SELECT f.value:a FROM (SELECT ['{"a": 1}'] AS l) t, LATERAL FLATTEN(input => t.l) f ;; [['1']]
SELECT * EXCLUDE (tags) REPLACE (price * 2 AS price) RENAME (qty AS n) FROM orders ;; [[1, 'ann', '2024-01-05', 21.0, 2], [2, 'bob', '2024-01-06', 40.0, 1], [3, 'ann', '2024-02-01', 10.5, 4], [4, 'cid', '2024-02-10', None, None], [5, 'bob', '2024-03-15', 198.0, 3]]
SELECT o.* RENAME (price AS cost) FROM orders o ;; [[1, 'ann', '2024-01-05', 10.5, 2, ['a', 'b']], [2, 'bob', '2024-01-06', 20.0, 1, ['b']], [3, 'ann', '2024-02-01', 5.25, 4, []], [4, 'cid', '2024-02-10', None, None, None], [5, 'bob', '2024-03-15', 99.0, 3, ['c', 'a', 'a']]]
SELECT o.* RENAME (price AS cost), c.city FROM orders o JOIN customers c ON o.customer = c.name ORDER BY ALL ;; [[1, 'ann', '2024-01-05', 10.5, 2, ['a', 'b'], 'Bern'], [2, 'bob', '2024-01-06', 20.0, 1, ['b'], 'Rome'], [3, 'ann', '2024-02-01', 5.25, 4, [], 'Bern'], [5, 'bob', '2024-03-15', 99.0, 3, ['c', 'a', 'a'], 'Rome']]
SELECT * NOT LIKE 'p%' FROM orders ;; [[1, 'ann', '2024-01-05', 2, ['a', 'b']], [2, 'bob', '2024-01-06', 1, ['b']], [3, 'ann', '2024-02-01', 4, []], [4, 'cid', '2024-02-10', None, None], [5, 'bob', '2024-03-15', 3, ['c', 'a', 'a']]]
WITH q AS (SELECT COLUMNS('i') FROM orders) SELECT * RENAME (id AS n) FROM q ORDER BY ALL ;; [[1, 10.5], [2, 20.0], [3, 5.25], [4, None], [5, 99.0]]
SELECT * FROM (SELECT * RENAME (id AS n) FROM orders) q WHERE n = 2 ;; [[2, 'bob', '2024-01-06', 20.0, 1, ['b']]]
SELECT list_sum(list_filter([1, 2, 3], x -> x > 1)) AS s ;; [[5.0]]
SELECT getbit(5, 0), bit_get(5, 1) ;; [[1, 0]]
SELECT try_to_date('x'), try_to_boolean('true') ;; [[None, True]]
SELECT unix_timestamp('2024-01-01 00:00', 'yyyy-MM-dd HH:mm') ;; [[1704067200]]
SELECT 1 - list_cosine_similarity([1.0, 0.0], [0.0, 1.0]) ;; [[1.0]]
SELECT CAST(1 AS NUMBER(10, 2)), CAST('5' AS LONG) ;; [[1.0, 5]]
SELECT CAST('2024-01-01' AS TIMESTAMP_NTZ) ;; [['2024-01-01']]
SELECT slice(array(1, 2, 3), 2, 2) ;; [[[2, 3]]]
SELECT * ILIKE '%I%' FROM customers ;; [['Bern', 2020], ['Oslo', 2019], ['Rome', 2021]]
SELECT id FROM orders WHERE tags ISNULL ;; [[4]]
SELECT try_avg(price) FROM orders ;; [[33.6875]]
""")
"""Statements that DuckDB does not read, or answers otherwise, with the rows that the documentation of the others says."""

CHANGES = _read(r"""
WITH x AS (SELECT 7 AS a) INSERT INTO c VALUES (DEFAULT, 'x'), (7, DEFAULT) ;; CREATE TABLE c (a INT DEFAULT 5, b VARCHAR DEFAULT 'd') ;; SELECT * FROM c ORDER BY a ;; [[5, 'x'], [7, 'd']]
INSERT INTO d TABLE c ;; CREATE TABLE c AS SELECT 1 AS a; CREATE TABLE d AS TABLE c ;; SELECT count(*) FROM d ;; [[2]]
INSERT INTO c VALUES ('2024/1/5', '9:5', '1e2', '1.0') ;; CREATE TABLE c (a DATE, b TIME, c DECIMAL(10, 2), d INT) ;; SELECT * FROM c ;; [['2024-01-05', '09:05:00', 100.0, 1]]
INSERT INTO c VALUES ('2024-01-01 00:00:00+02', '2024-01-01 00:00:00+02') ;; CREATE TABLE c (a TIMESTAMP, b TIMESTAMPTZ) ;; SELECT a::VARCHAR, epoch(b) FROM c ;; [['2024-01-01 00:00:00', 1704060000.0]]
INSERT INTO c SELECT s FROM (SELECT '2024-01-01 06:00:00 -05:30' AS s) t ;; CREATE TABLE c (a TIMESTAMP) ;; SELECT a::VARCHAR FROM c ;; [['2024-01-01 06:00:00']]
INSERT INTO c BY NAME SELECT 'x' AS b, 2 AS a ;; CREATE TABLE c (a INT, b VARCHAR) ;; SELECT * FROM c ;; [[2, 'x']]
INSERT INTO TABLE c SELECT 1, 'x' ;; CREATE TABLE c (a INT, b VARCHAR) ;; SELECT * FROM c ;; [[1, 'x']]
INSERT OVERWRITE TABLE c SELECT 1, 'x' ;; CREATE TABLE c (a INT, b VARCHAR); INSERT INTO c VALUES (5, 'y') ;; SELECT * FROM c ;; [[1, 'x']]
INSERT INTO c (b) VALUES ('x'), ('y') ;; CREATE TABLE c (a INT DEFAULT 7, b VARCHAR) ;; SELECT * FROM c ORDER BY b ;; [[7, 'x'], [7, 'y']]
INSERT INTO c VALUES (1, 'y') ON CONFLICT (a) DO NOTHING ;; CREATE TABLE c (a INT PRIMARY KEY, b VARCHAR); INSERT INTO c VALUES (1, 'x') ;; SELECT * FROM c ;; [[1, 'x']]
INSERT INTO c VALUES (1, 'y') ON CONFLICT (a) DO UPDATE SET b = excluded.b ;; CREATE TABLE c (a INT PRIMARY KEY, b VARCHAR); INSERT INTO c VALUES (1, 'x') ;; SELECT * FROM c ;; [[1, 'y']]
INSERT OR REPLACE INTO c VALUES (1, 'y'), (2, 'z') ;; CREATE TABLE c (a INT PRIMARY KEY, b VARCHAR); INSERT INTO c VALUES (1, 'x') ;; SELECT * FROM c ORDER BY a ;; [[1, 'y'], [2, 'z']]
INSERT OR IGNORE INTO c VALUES (1, 'y'), (2, 'z') ;; CREATE TABLE c (a INT PRIMARY KEY, b VARCHAR); INSERT INTO c VALUES (1, 'x') ;; SELECT * FROM c ORDER BY a ;; [[1, 'x'], [2, 'z']]
INSERT INTO c SELECT list_filter([1, 2], x -> x > 1)[1], 1_000 ;; CREATE TABLE c (a INT, b INT) ;; SELECT * FROM c ;; [[2, 1000]]
INSERT INTO c SELECT * RENAME (a AS z) FROM (SELECT 1 AS a, 2 AS b) ;; CREATE TABLE c (a INT, b INT) ;; SELECT * FROM c ;; [[1, 2]]
UPDATE c SET b = d.b FROM d WHERE c.a = d.a ;; CREATE TABLE c (a INT, b INT); CREATE TABLE d (a INT, b INT); INSERT INTO c VALUES (1, 1), (2, 2); INSERT INTO d VALUES (1, 5) ;; SELECT * FROM c ORDER BY a ;; [[1, 5], [2, 2]]
UPDATE c SET b = 0 WHERE b ISNULL ;; CREATE TABLE c (a INT, b INT); INSERT INTO c VALUES (1, NULL), (2, 2) ;; SELECT * FROM c ORDER BY a ;; [[1, 0], [2, 2]]
UPDATE c SET b = list_sum(list_transform([a, b], x -> x * 2)) ;; CREATE TABLE c (a INT, b INT); INSERT INTO c VALUES (1, 2) ;; SELECT * FROM c ;; [[1, 6]]
DELETE FROM c USING d WHERE c.a = d.a ;; CREATE TABLE c (a INT, b INT); CREATE TABLE d (a INT, b INT); INSERT INTO c VALUES (1, 1), (2, 2); INSERT INTO d VALUES (1, 5) ;; SELECT * FROM c ;; [[2, 2]]
DELETE FROM c WHERE a IN (SELECT max(a) FROM c) ;; CREATE TABLE c (a INT); INSERT INTO c VALUES (1), (2) ;; SELECT * FROM c ;; [[1]]
DELETE FROM c WHERE year(day) = 2024 ;; CREATE TABLE c (day DATE); INSERT INTO c VALUES ('2024-01-01'), ('2023-01-01') ;; SELECT * FROM c ;; [['2023-01-01']]
TRUNCATE TABLE c ;; CREATE TABLE c (a INT); INSERT INTO c VALUES (1) ;; SELECT count(*) FROM c ;; [[0]]
MERGE INTO c USING d ON c.a = d.a WHEN MATCHED THEN UPDATE SET b = d.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (d.a, d.b) ;; CREATE TABLE c (a INT, b INT); CREATE TABLE d (a INT, b INT); INSERT INTO c VALUES (1, 1); INSERT INTO d VALUES (1, 5), (2, 6) ;; SELECT * FROM c ORDER BY a ;; [[1, 5], [2, 6]]
MERGE INTO c USING d ON c.a = d.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * ;; CREATE TABLE c (a INT, b INT); CREATE TABLE d (a INT, b INT); INSERT INTO c VALUES (1, 1); INSERT INTO d VALUES (1, 5), (2, 6) ;; SELECT * FROM c ORDER BY a ;; [[1, 5], [2, 6]]
MERGE INTO c USING d ON c.a = d.a WHEN MATCHED THEN DELETE ;; CREATE TABLE c (a INT); CREATE TABLE d (a INT); INSERT INTO c VALUES (1), (2); INSERT INTO d VALUES (1) ;; SELECT * FROM c ;; [[2]]
CREATE TABLE c AS SELECT 1 AS a ;;  ;; SELECT * FROM c ;; [[1]]
CREATE TABLE c AS FROM range(2) ;;  ;; SELECT count(*) FROM c ;; [[2]]
CREATE OR REPLACE TABLE c AS SELECT 2 AS b ;; CREATE TABLE c AS SELECT 1 AS a ;; SELECT * FROM c ;; [[2]]
CREATE TABLE IF NOT EXISTS c (b INT) ;; CREATE TABLE c AS SELECT 1 AS a ;; SELECT * FROM c ;; [[1]]
CREATE TABLE d LIKE c ;; CREATE TABLE c (a INT, b VARCHAR) ;; SELECT column_name FROM information_schema.columns WHERE table_name = 'd' ORDER BY 1 ;; [['a'], ['b']]
CREATE TABLE d (LIKE c) ;; CREATE TABLE c (a INT, b VARCHAR) ;; SELECT column_name FROM information_schema.columns WHERE table_name = 'd' ORDER BY 1 ;; [['a'], ['b']]
CREATE TEMP TABLE c AS SELECT 1 AS a ;;  ;; SELECT * FROM c ;; [[1]]
CREATE TABLE c (a LONG, b NUMBER(10, 2), c TIMESTAMP_NTZ, d BYTES) ;;  ;; SELECT data_type FROM information_schema.columns WHERE table_name = 'c' ORDER BY ordinal_position ;; [['BIGINT'], ['DECIMAL(10, 2)'], ['TIMESTAMP(6)'], ['VARBINARY']]
CREATE VIEW c AS SELECT * RENAME (a AS z) FROM (SELECT 1 AS a) ;;  ;; SELECT z FROM c ;; [[1]]
CREATE OR REPLACE VIEW c AS SELECT list_transform([1], x -> x + 1) AS l ;; CREATE VIEW c AS SELECT 1 AS a ;; SELECT l, len(l) FROM c ;; [[[2], 1]]
ALTER TABLE c ADD COLUMN b INT ;; CREATE TABLE c AS SELECT 1 AS a ;; SELECT * FROM c ;; [[1, None]]
ALTER TABLE c DROP COLUMN b ;; CREATE TABLE c AS SELECT 1 AS a, 2 AS b ;; SELECT * FROM c ;; [[1]]
ALTER TABLE c RENAME a TO z, ALTER z TYPE BIGINT, DROP b, ADD d INT ;; CREATE TABLE c AS SELECT CAST(1 AS INT) AS a, 2 AS b ;; SELECT z, typeof(z) FROM c ;; [[1, 'BIGINT']]
CREATE TABLE c (a STRUCT(x INT, y STRUCT(z VARCHAR)[])) ;;  ;; SELECT data_type FROM information_schema.columns WHERE table_name = 'c' ;; [['STRUCT<"x" INTEGER, "y" STRUCT<"z" VARCHAR>[]>']]
ALTER TABLE c RENAME COLUMN a TO b ;; CREATE TABLE c AS SELECT 1 AS a ;; SELECT b FROM c ;; [[1]]
ALTER TABLE c ALTER COLUMN a TYPE BIGINT ;; CREATE TABLE c (a INT); INSERT INTO c VALUES (1) ;; SELECT typeof(a) FROM c ;; [['BIGINT']]
COMMENT ON TABLE c IS 'people' ;; CREATE TABLE c AS SELECT 1 AS a ;; SELECT count(*) FROM c ;; [[1]]
""")
"""Changes, each with the statements before it, a query, and its rows afterwards."""

REFUSED = _read(r"""
SELECT 7 // 2 ;; write a / b, which drops the fraction of whole numbers, or
SELECT 2 ** 3 ;; write power(a,
SELECT 2 ^ 3 ;; write power(a, b), or (a | b) - (a &
SELECT id FROM orders ORDER BY id LIMIT 40% ;; write QUALIFY row_number() OVER (ORDER BY a) <= 0.1 *
SELECT id FROM orders LIMIT 40 PERCENT ;; write QUALIFY row_number() OVER (ORDER BY a) <= 0.1 *
SELECT count(*) FROM orders TABLESAMPLE BERNOULLI (10) REPEATABLE (3) ;; write TABLESAMPLE (10 PERCENT) or (10 ROWS) after a table's
SELECT count(*) FROM orders USING SAMPLE 50% (bernoulli, 7) ;; write TABLESAMPLE (10 PERCENT) or (10 ROWS) after a table's
SELECT * FROM sold ASOF JOIN prices USING (item, tick) ;; write SELECT DISTINCT ON (a.id) … FROM a JOIN b ON a.k =
SELECT * FROM sold s ASOF LEFT JOIN prices p ON s.item = p.item AND s.tick >= p.tick ;; write SELECT DISTINCT ON (a.id) … FROM a JOIN b ON a.k =
SELECT c.name, o.id FROM customers c, LATERAL (SELECT id FROM orders WHERE customer = c.name ORDER BY id LIMIT 1) o ;; write a join with QUALIFY row_number() OVER (PARTITION BY
SELECT id FROM orders EXCEPT ALL SELECT 1 ;; write EXCEPT, which keeps one of equal rows; or number
SELECT list_reduce([1, 2], (a, b) -> a + b) ;; write list_sum(list), or unnest(list) in FROM with an
SELECT forall(tags, x -> x > 'a') FROM orders ;; write NOT array_any_match(list, x -> NOT (x >
SELECT list_aggregate([1, 2], 'sum') ;; write list_sum(list), or list_avg(list) and the
SELECT 'abc' ^@ 'a' ;; write starts_with(a,
SELECT ~5 ;; write -a -
SELECT TIMESTAMP '2024-01-01 00:00:00' UNION SELECT DATE '9999-12-31' ;; write CAST(a AS
SELECT hash('a') ;; write
SELECT COLUMNS('price') + COLUMNS('qty') FROM orders ;; write the columns by their
SELECT * RENAME (id AS n) FROM orders o JOIN orders p ON o.id = p.id ;; write the columns by their
SELECT * FROM (SELECT 1 AS a, 2 AS a) ;; write AS and another name for one of
SELECT to_json({'a': 1}) ;; write named_struct('a', a), or array_agg(a): clients get
SELECT json_group_array(id) FROM orders ;; write named_struct('a', a), or array_agg(a): clients get
SELECT json_extract_path_text('{"a": 1}', 'a') ;; write s -> 'a' ->> 'b', or s ->>
SELECT parse_json('{"a": 1}') ;; write s ->> 'a', for a document is a text, and
SELECT make_interval(days => 10) ;; write INTERVAL '1 day' *
SELECT to_number('1.5') ;; write CAST(s AS DECIMAL(18,
SELECT try_to_number('x') ;; write TRY_CAST(s AS DECIMAL(18,
SELECT nextval('s') ;; write row_number() OVER (), or
SELECT * FROM unnest([5, 6]) WITH ORDINALITY AS u(x, n) ;; write row_number() OVER () at line 1, column
SELECT id FROM orders FOR UPDATE ;; leave it out: there are no row locks, and an answer has one
SELECT 'a' COLLATE "C" ;; leave it out, or write
WITH d AS (DELETE FROM orders RETURNING *) SELECT * FROM d ;; write it alone, with RETURNING for its rows, or
DELETE FROM orders WHERE id = 99 RETURNING count(*) ;; write BEGIN, the change, a SELECT of the rows, and
SELECT array_agg(id) WITHIN GROUP (ORDER BY id DESC) FROM orders ;; write array_agg(a ORDER BY b), or string_agg(a, ',' ORDER
SELECT f.value FROM orders o, LATERAL FLATTEN(input => o.tags, mode => 'array') f ;; write FROM t, unnest(t.list) AS
SELECT ratio_to_report(price) OVER () FROM orders ;; write a / sum(a) OVER
SELECT 'abc' LIKE ANY ('a%', 'x%') ;; write a LIKE 'x%' OR a LIKE 'y%', or
SELECT 'abc' RLIKE 'a.*' ;; write a ~
SELECT strtok('a b', ' ', 1) ;; write split_part(s, ',',
SELECT posexplode(tags) FROM orders ;; write unnest(list), or FROM t LEFT JOIN unnest(t.list) AS
SELECT window(day, '1 hour') FROM orders ;; write time_bucket(INTERVAL '1 hour',
SELECT encode('a', 'utf-8') ;; write CAST(s AS BYTEA), or CAST(b AS VARCHAR), for
SELECT from_json('{"a": 1}', 'a INT') ;; write s ->> 'a', for a document is a text, and
SELECT try_add(1, 2) ;; write CAST(a AS DECIMAL(38, 0)) +
SELECT monotonically_increasing_id() FROM orders ;; write row_number() OVER (), or
SELECT id FROM orders SORT BY id ;; write ORDER BY at line 1, column
SELECT id FROM orders DISTRIBUTE BY id ;; leave it out, or write ORDER BY at line 1, column
SELECT 7 DIV 2 ;; write a / b, which is whole for whole
SELECT id FROM orders LIMIT 1 BY customer ;; write QUALIFY row_number() OVER (PARTITION BY …) <= n at
SELECT pg_typeof(1) ;; write
SELECT truncate(1.256, 2) ;; write left(s, 4), or a - a % 10 of a whole number, or
SELECT choose(2, 'a', 'b') ;; write CASE WHEN a = 1 THEN 'x' ELSE 'y'
TABLE customers WHERE since = 2020 ;; write SELECT * FROM
DROP TABLE orders, customers ;; write a DROP for
DROP TABLE orders CASCADE ;; leave it out: views that read a table stay, and fail until there is one of its name
TRUNCATE orders, customers ;; write a TRUNCATE for
DELETE FROM orders WHERE id = 1 LIMIT 1 ;; write WHERE id IN (SELECT id FROM t ORDER BY … LIMIT
UPDATE orders SET qty = 1 ORDER BY id LIMIT 1 ;; write WHERE id IN (SELECT id FROM t ORDER BY … LIMIT
INSERT INTO orders SET id = 1 ;; write INSERT INTO t (a, b) VALUES (1,
ALTER TABLE orders MODIFY qty BIGINT ;; write ALTER TABLE t ALTER COLUMN c TYPE type, or ALTER TABLE t RENAME COLUMN c TO
ALTER TABLE orders CHANGE qty n BIGINT ;; write ALTER TABLE t ALTER COLUMN c TYPE type, or ALTER TABLE t RENAME COLUMN c TO
ALTER TABLE orders ALTER qty TYPE BIGINT USING qty::BIGINT ;; write ALTER TABLE t ADD COLUMN d AS (expression), then DROP COLUMN c and RENAME COLUMN d TO
ALTER TABLE orders ADD CHECK (qty > 0) ;; write PRIMARY KEY for a key that ON CONFLICT and MERGE go by, and a WHERE in the INSERT …
ALTER TABLE orders ADD CONSTRAINT c UNIQUE (id) ;; write PRIMARY KEY for a key that ON CONFLICT and MERGE go by, and a WHERE in the INSERT …
ALTER TABLE orders DROP CONSTRAINT c ;; write ALTER TABLE t DROP PRIMARY KEY, the only
ALTER TABLE orders OWNER TO ann ;; rights are given in the server's file of
ALTER TABLE orders SET SCHEMA s ;; write CREATE TABLE s.t LIKE t and INSERT INTO s.t SELECT * FROM t, then DROP TABLE
ALTER TABLE IF EXISTS orders DROP COLUMN qty ;; leave it out: a table that is not there is an error; information_schema.tables lists those that
CREATE TABLE x (id INT) ENGINE = InnoDB ;; leave it out: tables are
CREATE TABLE x (id INT) PARTITION BY RANGE (id) ;; write PARTITIONED BY (month(ts),
CREATE TABLE x (id INT) CLUSTER BY (id) ;; write PARTITIONED BY (bucket(8,
COMMENT ON VIEW v IS 'x' ;; leave it out: schemas and views have no
SET timezone = 'Europe/Berlin' ;; leave it out: times are in UTC; write ts AT TIME ZONE
SET search_path = public ;; write SET schema = 's', or USE
SET LOCAL statement_timeout = 5 ;; write SET name = value, and RESET name after the
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE ;; write BEGIN ISOLATION LEVEL …, or SET isolation =
EXPLAIN INSERT INTO orders (id) SELECT 1 ;; write EXPLAIN with the query
UPDATE orders JOIN customers ON customer = name SET qty = since ;; write UPDATE t SET a = u.a FROM u WHERE t.id =
SHOW TABLE STATUS ;; write SHOW TABLES, SHOW COLUMNS FROM t or SHOW CREATE TABLE
CREATE TABLE x CLONE customers ;; write CREATE TABLE t LIKE u and INSERT INTO t SELECT * FROM
CREATE TABLE x (id SERIAL) ;; write BIGINT, and row_number() OVER () or uuid() in the
CREATE TABLE x (id INT IDENTITY(1, 1)) ;; write BIGINT, and row_number() OVER () or uuid() in the
CREATE TABLE x (id INT GENERATED ALWAYS AS IDENTITY) ;; write uuid() in the INSERT for a key, or ALTER TABLE t ADD
CREATE TABLE x (id INT, CHECK (id > 0)) ;; write PRIMARY KEY for a key that ON CONFLICT and MERGE go
CREATE TABLE x (id UUID) ;; write
CREATE TABLE x (a VARIANT) ;; write JSON, or STRUCT<a:
CREATE TRANSIENT TABLE x (a INT) ;; write CREATE TABLE t
CREATE MATERIALIZED VIEW x AS SELECT 1 AS a ;; write CREATE TABLE t AS SELECT …, or CREATE OR REPLACE VIEW
REFRESH MATERIALIZED VIEW x ;; write CREATE OR REPLACE TABLE t AS SELECT
CREATE TEMP VIEW x AS SELECT 1 AS a ;; write CREATE VIEW v AS SELECT …, or
CREATE SEQUENCE s ;; write uuid() for keys, or row_number() OVER () in the
CREATE MACRO f(x) AS x + 1 ;; write the expression itself, or CREATE VIEW v AS SELECT
CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1 ;; write the expression itself, or CREATE VIEW v AS SELECT
CREATE TYPE mood AS ENUM ('a') ;; write the type itself, as in VARCHAR or STRUCT<a:
CREATE UNIQUE INDEX i ON customers (name) ;; write CREATE INDEX: values that repeat are not
CREATE DATABASE d ;; write CREATE SCHEMA s, or DROP SCHEMA s; the catalog is
CREATE STREAM s ON TABLE customers ;; write SELECT * FROM table_changes('t',
INSERT INTO customers VALUES ('a', DEFAULT || 'b', 1) ;; DEFAULT is a whole value: write it in a row of VALUES or behind = of SET, or leave the column out of INSERT INTO t (a,
SELECT avg(qty) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM orders ;; write sum(a) OVER (…) - a
SELECT first_value(id ORDER BY id) OVER () FROM orders ;; write it in OVER: first_value(a) OVER
SELECT array_agg(DISTINCT customer ORDER BY length(customer)) FROM orders ;; write array_agg(DISTINCT a ORDER BY a)
SELECT count(DISTINCT customer, day) FROM orders ;; write count(DISTINCT (a, b))
SELECT id, lag(price, 1, price) OVER (ORDER BY id) FROM orders ;; write coalesce(lag(a) OVER (…), b)
SELECT to_char(price, '9,999.99') FROM orders ;; write format('{:,.2f}', a)
SELECT sum(CAST(day AS TIMESTAMP) - TIMESTAMP '2024-01-01') / 2 FROM orders ;; write epoch(a) of the interval
SELECT 'abc'[1] ;; write substr(s, 1, 1) of a text
SELECT [x + i FOR x, i IN [1]] ;; write list_transform(list_filter(list, x -> x > 1), x -> x * 2)
SELECT rank() OVER (ORDER BY i) FROM (SELECT INTERVAL '1 month' AS i) t ;; write OVER (ORDER BY epoch(a)), which takes 30 days
SELECT sum(id) OVER (PARTITION BY id ORDER BY i ROWS UNBOUNDED PRECEDING) FROM (SELECT 1 AS id, INTERVAL '1 month' AS i) t ;; write OVER (ORDER BY epoch(a)), which takes 30 days
SELECT max(i) FROM (SELECT INTERVAL '1 month' AS i) t ;; write max_by(a, epoch(a)), which takes 30 days
SELECT i FROM (SELECT INTERVAL '1 month' AS i) t ORDER BY i ;; write ORDER BY epoch(a), which takes 30 days
SELECT greatest(INTERVAL '1 month', INTERVAL '40 days') ;; write a CASE that compares them, which
SELECT list_sum([9223372036854775807, 1]) ;; write list_sum of a list of DECIMAL(38, 0)
SELECT median(day) FROM orders ;; write quantile_disc(a, 0.5)
SELECT hamming('a', 'b') ;; write levenshtein(s,
SELECT jaccard('a', 'b') ;; write jaro_similarity(s,
SELECT bin(5) ;; write hex(a)
SELECT o FROM orders o ;; write o.*, or named_struct('a', o.id)
SELECT customer GLOB '[a-c]*' FROM orders ;; write a ~ '^[a-c].*$'
SELECT id FROM orders WHERE contains(tags, 'a') ;; write array_has(list, a)
SET VARIABLE x = 5 ;; write ? for each value
SELECT $x ;; write ? or $1
SET TIME ZONE 'UTC' ;; leave it out: times are in UTC
CREATE OR REPLACE MACRO f(x) AS x + 1 ;; write the expression itself
UPDATE customers SET (name, since) = (SELECT 'a', DATE '2024-01-01') ;; FROM (SELECT …) AS s WHERE
PREPARE p AS SELECT 1 ;; write ? for each value, and let the client prepare the
CALL pragma_version() ;; write the expression itself, or CREATE VIEW v AS SELECT
PRAGMA table_info('customers') ;; write DESCRIBE t, or SHOW COLUMNS FROM
SHOW DATABASES ;; write SHOW SCHEMAS; the catalog is always
OPTIMIZE customers ;; write ALTER TABLE t COMPACT, or leave it out: a server
CHECKPOINT ;; write ALTER TABLE t COMPACT, or leave it out: a server
COPY customers TO 'x.csv' ;; files are read and written where the client is:
ATTACH 'x.db' ;; files are read and written where the client is:
INSTALL httpfs ;; leave it out: there are no extensions and no other
CACHE TABLE customers ;; leave it out: every statement reads the newest version of
GRANT SELECT ON customers TO bob ;; rights are given in the server's file of
SELECT * FROM 'file.csv' ;; files are read and written where the client is:
SELECT * FROM read_csv('x.csv') ;; files are read and written where the client is:
SELECT * FROM customers AT (OFFSET => -60) ;; write FOR VERSION AS OF n, FOR TIMESTAMP AS OF '…' or FOR
""")
"""Statements that are refused, with the beginning of what to write in place of each."""
