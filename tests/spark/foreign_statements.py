"""Statements of Iceberg's and Delta's documentation, each with what it does here or what its refusal says to write.

`python -m tests.spark.foreign_statements` prints the tables of the page that lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

FORMS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "Tables": (
            (
                "CREATE TABLE {t}_s (id BIGINT NOT NULL COMMENT 'unique id', data STRING, category STRING, ts TIMESTAMP) USING lance_flight PARTITIONED BY (bucket(16, id), days(ts), category)",
                "stored SELECT field_id FROM \"{n0}_s$specs\" ORDER BY position = [('id_bucket',), ('ts_year',), ('ts_month',), ('ts_day',), ('category',)]",
            ),
            ("CREATE TABLE IF NOT EXISTS {t}_s (id BIGINT)", 'stored SELECT count(*) FROM "{n0}_s$specs" = [(5,)]'),
            (
                "CREATE TABLE {t}_y (id BIGINT, ts TIMESTAMP, d DATE) PARTITIONED BY (years(ts))",
                "stored SELECT field_id FROM \"{n0}_y$specs\" = [('ts_year',)]",
            ),
            (
                "CREATE TABLE {t}_h (id BIGINT, ts TIMESTAMP) PARTITIONED BY (hours(ts))",
                'stored SELECT count(*) FROM "{n0}_h$specs" = [(4,)]',
            ),
            (
                "CREATE TABLE {t}_w (id BIGINT, s STRING) PARTITIONED BY (truncate(4, s))",
                "stored SELECT field_id FROM \"{n0}_w$specs\" = [('s_truncate',)]",
            ),
            (
                "CREATE TABLE {t}_b (id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS",
                "stored SELECT field_id FROM \"{n0}_b$specs\" = [('id_bucket',)]",
            ),
            (
                "CREATE TABLE {t}_c USING lance_flight AS SELECT 1L AS id, 'a' AS data",
                "stored SELECT * FROM {n0}_c = [(1, 'a')]",
            ),
            (
                "CREATE TABLE {t}_d USING lance_flight PARTITIONED BY (part) TBLPROPERTIES ('stable_row_ids' = 'true') AS SELECT 1L AS id, 'p' AS part",
                "stored SELECT * FROM {n0}_d = [(1, 'p')]",
            ),
            (
                "REPLACE TABLE {t}_c USING lance_flight AS SELECT 2L AS id, 'b' AS data",
                "stored SELECT * FROM {n0}_c = [(2, 'b')]",
            ),
            (
                "REPLACE TABLE {t}_c USING lance_flight PARTITIONED BY (data) AS SELECT 3L AS id, 'c' AS data",
                'stored SELECT rows FROM "{n0}_c$partitions" = [(1,)]',
            ),
            (
                "CREATE OR REPLACE TABLE {t}_c USING lance_flight AS SELECT 4L AS id, 'd' AS data",
                "stored SELECT * FROM {n0}_c = [(4, 'd')]",
            ),
            ("CREATE OR REPLACE TABLE {t}_new (id BIGINT, x INT)", "stored SELECT count(*) FROM {n0}_new = [(0,)]"),
            (
                "CREATE TABLE {t}_key (id BIGINT PRIMARY KEY, x INT)",
                "stored SELECT column_name FROM information_schema.key_column_usage WHERE table_name = '{n0}_key' = [('id',)]",
            ),
            ("DROP TABLE {t}_new", "stored SHOW TABLES LIKE '{n0}_new' = []"),
            ("DROP TABLE IF EXISTS {t}_new", "rows []"),
            ("ALTER TABLE {t}_w RENAME TO {n0}_r", "stored SHOW TABLES LIKE '{n0}_w' = []"),
            ("ALTER TABLE {t}_r RENAME TO public.{n0}_w", "stored SELECT count(*) FROM {n0}_w = [(0,)]"),
            ("CREATE TABLE {t}_like LIKE {t}", "stored SELECT count(*) FROM {n0}_like = [(0,)]"),
            ("CREATE TABLE IF NOT EXISTS {t}_like LIKE {t}", "rows []"),
            ("DESCRIBE TABLE {t}_like", "has col_name='at', data_type='timestamp'"),
            ("DROP TABLE {t}_like PURGE", "stored SHOW TABLES LIKE '{n0}_like' = []"),
            ("SHOW TABLES IN lake.public LIKE '{n0}_s'", "rows [('public', '{n0}_s', False)]"),
            ("SHOW TABLE EXTENDED IN lake.public LIKE '{n0}_y'", "has Provider: lance_flight"),
            ("SHOW COLUMNS IN {t}_y", "rows [('id',), ('ts',), ('d',)]"),
            ("SHOW CREATE TABLE {t}_y", "has PARTITIONED BY (year(ts))"),
            (
                "DESCRIBE TABLE {t}_y",
                "rows [('id', 'bigint', None), ('ts', 'timestamp', None), ('d', 'date', None), ('', '', ''), ('# Partitioning', '', ''), ('Part 0', 'year(ts)', '')]",
            ),
            ("DESCRIBE TABLE EXTENDED {t}_y", "has year(ts)"),
            ("DESCRIBE FORMATTED {t}_y", "has lance_flight"),
            ("DESCRIBE {t}_s id", "rows [('col_name', 'id'), ('data_type', 'bigint'), ('comment', 'unique id')]"),
            ("CREATE TABLE {t}_x (id BIGINT) USING iceberg", "refused expected USING lance_flight"),
            ("CREATE TABLE {t}_x (id BIGINT) USING delta", "refused expected USING lance_flight"),
            ("CREATE TABLE {t}_x (id BIGINT) LOCATION '/x'", "refused a table lies in the root"),
            ("CREATE EXTERNAL TABLE {t}_x (id BIGINT)", "refused CREATE TABLE, without EXTERNAL"),
            ("CREATE TABLE {t}_cl (id BIGINT) CLUSTER BY (id)", "stored SELECT count(*) FROM {n0}_cl = [(0,)]"),
            (
                "CREATE TABLE {t}_sb (id BIGINT) CLUSTERED BY (id) SORTED BY (id) INTO 4 BUCKETS",
                "stored SELECT field_id FROM \"{n0}_sb$specs\" = [('id_bucket',)]",
            ),
            (
                "CREATE TABLE {t}_x (id BIGINT, d BIGINT GENERATED ALWAYS AS (id + 1))",
                "refused expected PARTITIONED BY",
            ),
            ("CREATE TABLE {t}_x (id BIGINT GENERATED BY DEFAULT AS IDENTITY)", "refused a key in the INSERT"),
            (
                "CREATE TABLE {t}_v2 (id BIGINT) TBLPROPERTIES ('format-version' = '2')",
                "stored SELECT count(*) FROM {n0}_v2 = [(0,)]",
            ),
            ("CREATE TABLE {t}_x (id BIGINT) TBLPROPERTIES ('format-version' = '1')", "refused expected '2', or none"),
            ("CREATE TABLE {t}_x (v VARIANT)", "refused expected STRING with JSON"),
            ("CREATE TABLE {t}_map (m MAP<STRING, INT>)", "columns {n0}_map = m map<string, int32>"),
            ("CREATE TABLE {t}_span (i INTERVAL DAY TO SECOND)", "columns {n0}_span = i duration[us]"),
            (
                "CREATE TABLE {t}_x (i INTERVAL YEAR)",
                "fails expected INT, a number of months // neither stores intervals",
            ),
            ("CREATE TABLE {t}_x (c VARCHAR(3))", "refused expected STRING"),
            ("CREATE TABLE {t}_x (c STRING COLLATE UTF8_LCASE)", "refused texts have no collation; expected STRING"),
            ("CREATE TABLE {t}_x (c BIGINT UNIQUE)", "fails expected PRIMARY KEY // neither has UNIQUE"),
            ("CREATE TABLE {t}_x (c BIGINT, CHECK (c > 0))", "refused expected PRIMARY KEY"),
            ("CREATE TABLE {t}_lp LIKE {t} TBLPROPERTIES ('a' = 'b')", "stored SELECT count(*) FROM {n0}_lp = [(0,)]"),
            ("CREATE TABLE {t}_x SHALLOW CLONE {t}", "refused CREATE TABLE … LIKE"),
            ("CREATE OR REPLACE TABLE {t}_x CLONE {t} VERSION AS OF 1", "refused CREATE TABLE … LIKE"),
        ),
        "Rows": (
            (
                "INSERT INTO {t}_s VALUES (1, 'a', 'c1', TIMESTAMP '2026-01-01 10:00:00'), (2, 'b', 'c2', TIMESTAMP '2026-01-02 10:00:00'), (3, 'c', 'c1', TIMESTAMP '2026-02-01 10:00:00')",
                "stored SELECT count(*) FROM {n0}_s = [(3,)]",
            ),
            (
                "INSERT INTO {t}_s (id, data) VALUES (4, 'd')",
                "stored SELECT data, category FROM {n0}_s WHERE id = 4 = [('d', None)]",
            ),
            (
                "INSERT INTO {t}_s BY NAME SELECT 'e' AS data, 5L AS id",
                "stored SELECT data FROM {n0}_s WHERE id = 5 = [('e',)]",
            ),
            (
                "INSERT INTO TABLE {t}_s SELECT 6, 'f', 'c3', NULL",
                "stored SELECT category FROM {n0}_s WHERE id = 6 = [('c3',)]",
            ),
            (
                "SELECT id, data, category FROM {t}_s ORDER BY id",
                "rows [(1, 'a', 'c1'), (2, 'b', 'c2'), (3, 'c', 'c1'), (4, 'd', None), (5, 'e', None), (6, 'f', 'c3')]",
            ),
            (
                "SELECT count(1) AS count, data FROM {t}_s GROUP BY data ORDER BY data LIMIT 2",
                "rows [(1, 'a'), (1, 'b')]",
            ),
            (
                "MERGE INTO {t}_s AS t USING (SELECT 1L AS id, 'A' AS data UNION ALL SELECT 7L, 'g') AS s ON t.id = s.id WHEN MATCHED AND s.data = 'A' THEN UPDATE SET t.data = s.data WHEN NOT MATCHED THEN INSERT (id, data) VALUES (s.id, s.data)",
                "stored SELECT data FROM {n0}_s WHERE id IN (1, 7) ORDER BY 1 = [('A',), ('g',)]",
            ),
            (
                "MERGE INTO {t}_s AS t USING (SELECT 2L AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
                "stored SELECT id FROM {n0}_s ORDER BY id = [(1,), (3,), (4,), (5,), (6,), (7,)]",
            ),
            (
                "MERGE INTO {t}_s AS t USING (SELECT 1L AS id) AS s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id = 7 THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.id = 6 THEN UPDATE SET data = 'F'",
                "stored SELECT id, data FROM {n0}_s ORDER BY id = [(1, 'A'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'F')]",
            ),
            (
                "UPDATE {t}_s SET data = 'x', category = 'c9' WHERE ts >= TIMESTAMP '2026-02-01 00:00:00' AND ts < TIMESTAMP '2026-03-01 00:00:00'",
                "stored SELECT id, category FROM {n0}_s WHERE data = 'x' = [(3, 'c9')]",
            ),
            (
                "UPDATE {t}_s SET data = 'y' WHERE EXISTS (SELECT 1 FROM {t}_c AS o WHERE o.id = {t}_s.id)",
                "stored SELECT id FROM {n0}_s WHERE data = 'y' = [(4,)]",
            ),
            (
                "UPDATE {t}_s AS t1 SET data = 'z' WHERE t1.id IN (SELECT id + 1 FROM {t}_c)",
                "stored SELECT id FROM {n0}_s WHERE data = 'z' = [(5,)]",
            ),
            ("DELETE FROM {t}_s WHERE id = 6", "stored SELECT count(*) FROM {n0}_s = [(4,)]"),
            (
                "DELETE FROM {t}_s WHERE id < (SELECT min(id) - 3 FROM {t}_c) + 1",
                "stored SELECT id FROM {n0}_s ORDER BY id = [(3,), (4,), (5,)]",
            ),
            (
                "DELETE FROM {t}_s AS t1 WHERE EXISTS (SELECT 1 FROM {t}_c AS o WHERE t1.id = o.id + 1)",
                "stored SELECT id, data FROM {n0}_s ORDER BY id = [(3, 'x'), (4, 'y')]",
            ),
            ("INSERT OVERWRITE {t}_d SELECT 2L, 'q'", "stored SELECT * FROM {n0}_d = [(2, 'q')]"),
            ("INSERT OVERWRITE {t}_d PARTITION (part = 'q') SELECT 3L", "stored SELECT * FROM {n0}_d = [(3, 'q')]"),
            (
                "INSERT INTO {t}_d REPLACE WHERE part = 'r' SELECT 5L, 'r'",
                "stored SELECT * FROM {n0}_d ORDER BY id = [(3, 'q'), (5, 'r')]",
            ),
            (
                "INSERT OVERWRITE TABLE {t}_d PARTITION (part) SELECT 4L, 'r'",
                "stored SELECT * FROM {n0}_d = [(4, 'r')]",
            ),
            ("INSERT INTO TABLE {t}_d TABLE {t}_d", "stored SELECT count(*) FROM {n0}_d = [(2,)]"),
            ("INSERT INTO {t}_d (part, id) VALUES ('s', 6)", "stored SELECT id FROM {n0}_d WHERE part = 's' = [(6,)]"),
            (
                "WITH new AS (SELECT 8L AS id, 's' AS part) INSERT INTO {t}_d SELECT * FROM new",
                "stored SELECT count(*) FROM {n0}_d WHERE part = 's' = [(2,)]",
            ),
            ("DELETE FROM {t}_d WHERE part IN ('s', 'none')", "stored SELECT count(*) FROM {n0}_d = [(2,)]"),
            (
                "MERGE INTO {t}_d AS t USING (SELECT 4L AS id, 'r' AS part) AS s ON t.id = s.id AND t.part = s.part WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
                "stored SELECT count(*) FROM {n0}_d = [(0,)]",
            ),
            ("TRUNCATE TABLE {t}_d", "stored SELECT count(*) FROM {n0}_d = [(0,)]"),
            (
                "INSERT INTO {t}_d REPLACE WHERE id = 5 SELECT 5L, 'r'",
                "refused identity partition columns, or DELETE and INSERT",
            ),
            ("INSERT INTO {t} SELECT 9", "fails NOT_ENOUGH_DATA_COLUMNS"),
            (
                "COPY INTO {t} FROM '/x' FILEFORMAT = PARQUET",
                "fails INSERT INTO t SELECT * FROM parquet.`path` // COPY INTO is of Databricks alone",
            ),
            ("LOAD DATA INPATH 'x' INTO TABLE {t}", "fails not supported for v2 tables"),
        ),
        "Columns": (
            (
                "ALTER TABLE {t}_s ADD COLUMNS (new_column STRING COMMENT 'new_column docs')",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC], new_column string",
            ),
            (
                "ALTER TABLE {t}_s DROP COLUMNS (new_column)",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC]",
            ),
            (
                "ALTER TABLE {t}_s ADD COLUMN point STRUCT<x: DOUBLE, y: DOUBLE>",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC], point struct<x: double, y: double>",
            ),
            (
                "ALTER TABLE {t}_s ADD COLUMN point.z DOUBLE",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC], point struct<x: double, y: double, z: double>",
            ),
            (
                "ALTER TABLE {t}_s RENAME COLUMN point.z TO depth",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC], point struct<x: double, y: double, depth: double>",
            ),
            (
                "ALTER TABLE {t}_s ADD COLUMN point.w BIGINT FIRST",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC], point struct<w: int64, x: double, y: double, depth: double>",
            ),
            (
                "ALTER TABLE {t}_s DROP COLUMN point.w",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC], point struct<x: double, y: double, depth: double>",
            ),
            (
                "ALTER TABLE {t}_s DROP COLUMN point",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC]",
            ),
            (
                "ALTER TABLE {t}_s ADD COLUMN points ARRAY<STRUCT<x: DOUBLE>>",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC], points list<item: struct<x: double>>",
            ),
            (
                "ALTER TABLE {t}_s ADD COLUMN points.element.z DOUBLE",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC], points list<item: struct<x: double, z: double>>",
            ),
            (
                "ALTER TABLE {t}_s DROP COLUMN points",
                "columns {n0}_s = id int64, data string, category string, ts timestamp[us, tz=UTC]",
            ),
            (
                "ALTER TABLE {t}_s ADD COLUMN data2 INT AFTER data",
                "columns {n0}_s = id int64, data string, data2 int32, category string, ts timestamp[us, tz=UTC]",
            ),
            (
                "ALTER TABLE {t}_s RENAME COLUMN data2 TO payload",
                "columns {n0}_s = id int64, data string, payload int32, category string, ts timestamp[us, tz=UTC]",
            ),
            (
                "ALTER TABLE {t}_s ALTER COLUMN payload TYPE BIGINT",
                "columns {n0}_s = id int64, data string, payload int64, category string, ts timestamp[us, tz=UTC]",
            ),
            (
                "ALTER TABLE {t}_s CHANGE COLUMN payload COMMENT 'bytes'",
                "stored SELECT column_comment FROM information_schema.columns WHERE table_name = '{n0}_s' AND column_name = 'payload' = [('bytes',)]",
            ),
            ("ALTER TABLE {t} ALTER COLUMN k FIRST", 'as (\n  "k" BIGINT,\n  "id"'),
            ("ALTER TABLE {t} ADD COLUMN z INT AFTER id", 'as "id" BIGINT,\n  "z" INTEGER,\n  "at"'),
            ("ALTER TABLE {t} ALTER COLUMN z SET DEFAULT 1 + 2", 'as "z" INTEGER DEFAULT 3'),
            ("ALTER TABLE {t} ALTER COLUMN z DROP DEFAULT", 'as "z" INTEGER,'),
            ("ALTER TABLE {t} ALTER COLUMN id SET NOT NULL", 'as "id" BIGINT NOT NULL'),
            ("ALTER TABLE {t} ADD CONSTRAINT pk PRIMARY KEY (id)", 'as PRIMARY KEY ("id")'),
            ("ALTER TABLE {t} DROP CONSTRAINT IF EXISTS other", 'as PRIMARY KEY ("id")'),
            ("ALTER TABLE {t} DROP CONSTRAINT {n0}_pkey", 'as "at" TIMESTAMPTZ(6)\n)'),
            ("ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL", 'as "id" BIGINT,'),
            ("ALTER TABLE {t} DROP COLUMN z", 'as "id" BIGINT,\n  "at"'),
            ("ALTER TABLE {t} ALTER COLUMN k AFTER id", 'as (\n  "id" BIGINT,\n  "k"'),
            (
                "ALTER TABLE {t}_map ADD COLUMN n MAP<STRING, STRUCT<a: INT>>",
                "columns {n0}_map = m map<string, int32>, n map<string, struct<a: int32>>",
            ),
            ("ALTER TABLE {t} ALTER COLUMN id TYPE INT", "fails NOT_SUPPORTED_CHANGE_COLUMN"),
            ("ALTER TABLE {t} ALTER COLUMN id TYPE STRING", "fails expected a wider type of its kind"),
            ("ALTER TABLE {t} RENAME COLUMN nothing TO x", "fails `nothing` cannot be resolved"),
            ("ALTER TABLE {t} ADD COLUMN id INT", "fails already exists"),
            ("ALTER TABLE {t} DROP COLUMN k", "fails is the source of a partition field"),
            ("ALTER TABLE {t} REPLACE COLUMNS (id BIGINT)", "fails is the source of a partition field"),
            (
                "ALTER TABLE {t}_s SET IDENTIFIER FIELDS id",
                "stored SELECT column_name FROM information_schema.key_column_usage WHERE table_name = '{n0}_s' = [('id',)]",
            ),
            (
                "ALTER TABLE {t}_s DROP IDENTIFIER FIELDS id",
                "stored SELECT column_name FROM information_schema.key_column_usage WHERE table_name = '{n0}_s' = []",
            ),
            (
                "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)",
                "refused expected PRIMARY KEY, which nothing enforces, or a WHERE",
            ),
            ("ALTER TABLE {t} ADD CONSTRAINT c PRIMARY KEY (at)", "fails may be NULL; expected NOT NULL"),
            ("ALTER TABLE {t} DROP CONSTRAINT c", "fails no constraint 'c'"),
            ("ALTER TABLE {t} ADD CONSTRAINT u UNIQUE (id)", "fails expected PRIMARY KEY // neither has UNIQUE"),
            (
                "ALTER TABLE {t} ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES {t}_y (id)",
                "fails expected PRIMARY KEY // neither has foreign keys",
            ),
            (
                "ALTER TABLE {t} ALTER COLUMN at SET DEFAULT current_timestamp()",
                'as "at" TIMESTAMPTZ(6) DEFAULT CURRENT_TIMESTAMP',
            ),
        ),
        "Properties and maintenance settings": (
            ("ALTER TABLE {t} SET TBLPROPERTIES ('comment' = 'A table comment.')", "as COMMENT 'A table comment.'"),
            ("COMMENT ON TABLE {t} IS 'another one'", "as COMMENT 'another one'"),
            ("ALTER TABLE {t} UNSET TBLPROPERTIES ('comment')", "as PARTITIONED BY (k AS k)"),
            ("ALTER TABLE {t} UNSET TBLPROPERTIES ('nothing')", "rows []"),
            ("SHOW TBLPROPERTIES {t}", "rows []"),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('read.split.target-size' = '268435456')",
                "refused the option 'partitions' of a read",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('write.distribution-mode' = 'range')",
                "as 'write.distribution-mode' = 'range'",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'parquet')",
                "refused rows are stored in Lance",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('write.merge.mode' = 'copy-on-write')",
                "as 'write.merge.mode' = 'copy-on-write'",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('write.target-file-size-bytes' = '536870912')",
                "as 'write.target-file-size-bytes' = '536870912'",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '432000000')",
                "as retain = '5d'",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
                "as 'delta.enableChangeDataFeed' = 'true'",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = 'true')",
                "as 'delta.autoOptimize.optimizeWrite' = 'true'",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
                "as 'delta.columnMapping.mode' = 'name'",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 30 days')",
                "as retain = '30d'",
            ),
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 7 days')",
                "as retain = '7d'",
            ),
            ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')", "refused have no meaning here"),
            ("ALTER TABLE {t} SET LOCATION '/x'", "refused a table lies in the root"),
            ("ALTER TABLE {t} SET SERDE 'x'", "fails not supported for v2 tables"),
            ("ALTER TABLE {t} DROP FEATURE deletionVectors", "refused a table has no features to switch"),
            ("ALTER TABLE {t} WRITE ORDERED BY id", "as 'write.distribution-mode' = 'range'"),
            (
                "ALTER TABLE {t} WRITE ORDERED BY k ASC NULLS LAST, id DESC",
                "as 'write.sort-by' = 'k ASC NULLS LAST, id DESC'",
            ),
            ("ALTER TABLE {t} WRITE LOCALLY ORDERED BY k, id", "as 'write.sort-by' = 'k, id'"),
            ("ALTER TABLE {t} WRITE DISTRIBUTED BY PARTITION", "as 'write.distribution-mode' = 'hash'"),
            ("ALTER TABLE {t} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id", "as 'write.sort-by' = 'id'"),
            ("ALTER TABLE {t} WRITE UNORDERED", "as 'write.distribution-mode' = 'none'"),
            ("ALTER TABLE {t} CLUSTER BY (id)", "as 'write.sort-by' = '\"id\"'"),
            (
                "ALTER TABLE {t} CLUSTER BY NONE",
                "as METADATA ('write.merge.mode' = 'copy-on-write', 'write.target-file-size-bytes'",
            ),
        ),
        "Partition fields": (
            ("ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)", "as (k AS k, bucket(4, id) AS id_bucket)"),
            (
                "ALTER TABLE {t} ADD PARTITION FIELD months(at)",
                "as AS id_bucket, year(at) AS at_year, month(at) AS at_month)",
            ),
            (
                "ALTER TABLE {t} REPLACE PARTITION FIELD months(at) WITH days(at)",
                "as month(at) AS at_month, day(at) AS at_day)",
            ),
            ("alter table {t} drop partition field days(at);", "as (k AS k, bucket(4, id) AS id_bucket)"),
            ("ALTER TABLE {t} DROP PARTITION FIELD bucket(4, id)", "as PARTITIONED BY (k AS k)"),
            ("ALTER TABLE {t} ADD PARTITION FIELD /* -- */ bucket(8, id) AS shard", "as bucket(8, id) AS shard"),
            ("ALTER TABLE {t} DROP PARTITION FIELD shard", "as PARTITIONED BY (k AS k)"),
            ("ALTER TABLE {t}_s ADD PARTITION FIELD truncate(4, data)", 'has ADD PARTITION FIELD truncate(4, "data")'),
            (
                "ALTER TABLE {t}_s DROP PARTITION FIELD category",
                "stored SELECT field_id FROM \"{n0}_s$specs\" WHERE is_current ORDER BY position = [('id_bucket',), ('ts_year',), ('ts_month',), ('ts_day',), ('data_truncate',)]",
            ),
            (
                "ALTER TABLE {t}_s REPLACE PARTITION FIELD ts_day WITH hours(ts)",
                "stored SELECT field_id FROM \"{n0}_s$specs\" WHERE is_current ORDER BY position = [('id_bucket',), ('ts_year',), ('ts_month',), ('data_truncate',), ('ts_day',), ('ts_hour',)]",
            ),
            ("SHOW PARTITIONS {t}", "has rows='1'"),
            ("INSERT INTO {t}_c VALUES (1, 'p'), (2, 'p'), (3, 'q')", "stored SELECT count(*) FROM {n0}_c = [(4,)]"),
            ("ALTER TABLE {t}_c ADD PARTITION FIELD data", "refused is not partitioned and cannot become so"),
            ("ALTER TABLE {t} DROP PARTITION FIELD bucket(9, id)", "fails bucket(9"),
            ("ALTER TABLE {t} ADD PARTITION FIELD nothing(id)", "fails nothing"),
            ("ALTER TABLE {t} ADD PARTITION (k = 9)", "fails partitions appear as rows arrive"),
            ("ALTER TABLE {t} ADD PARTITION FIELD months(at) AS m", "refused expected it without a name"),
            ("ALTER TABLE {t} DROP IF EXISTS PARTITION (k = 99)", "stored SELECT count(*) FROM {n} = [(2,)]"),
            (
                "ALTER TABLE {t} PARTITION (k = 1) RENAME TO PARTITION (k = 9)",
                "fails does not support partition management",
            ),
            ("ALTER TABLE {t} RECOVER PARTITIONS", "fails not supported for v2 tables"),
            ("SHOW PARTITIONS {t} PARTITION (k = 1)", "has k='1'"),
            ("MSCK REPAIR TABLE {t}", "fails partitions appear as rows arrive // no table of a catalog takes it"),
        ),
        "Branches and tags": (
            ("ALTER TABLE {t} CREATE BRANCH trial", "stored SELECT name FROM \"{n0}$branches\" = [('trial',)]"),
            (
                "ALTER TABLE {t} CREATE BRANCH IF NOT EXISTS trial",
                "stored SELECT name FROM \"{n0}$branches\" = [('trial',)]",
            ),
            (
                "ALTER TABLE {t} CREATE TAG `first` AS OF VERSION {v}",
                "stored SELECT name, version FROM \"{n0}$tags\" = [('first', {v})]",
            ),
            ("SELECT count(*) FROM {t} VERSION AS OF 'first'", "rows [(2,)]"),
            ("SELECT id FROM {t}.tag_first ORDER BY id", "rows [(1,), (2,)]"),
            ("ALTER TABLE {t} REPLACE TAG `first`", "has REPLACE TAG"),
            (
                "ALTER TABLE {t} CREATE OR REPLACE TAG `first` AS OF VERSION {v}",
                'stored SELECT version FROM "{n0}$tags" = [({v},)]',
            ),
            ("ALTER TABLE {t} DROP TAG `first`", 'stored SELECT name FROM "{n0}$tags" = []'),
            ("ALTER TABLE {t} DROP TAG IF EXISTS `first`", "rows []"),
            ("SELECT name, type FROM {t}.refs ORDER BY name", "rows [('main', 'BRANCH'), ('trial', 'BRANCH')]"),
            (
                "INSERT INTO {t}.branch_trial VALUES (8, 2, NULL)",
                'stored SELECT id FROM "{n0}@trial" ORDER BY id = [(1,), (2,), (8,)]',
            ),
            ("SELECT count(*) FROM {t}.branch_trial", "rows [(3,)]"),
            ("DELETE FROM {t}.branch_trial WHERE id = 8", 'stored SELECT count(*) FROM "{n0}@trial" = [(2,)]'),
            ("SELECT count(*) FROM {t} FOR VERSION AS OF 'trial'", "rows [(2,)]"),
            ("SELECT count(*) FROM {t} FOR SYSTEM_VERSION AS OF 'trial'", "rows [(2,)]"),
            (
                "UPDATE {t}.branch_trial SET at = TIMESTAMP '2026-01-01' WHERE id = 1",
                'stored SELECT count(at) FROM "{n0}@trial" = [(1,)]',
            ),
            (
                "MERGE INTO {t}.branch_trial AS t USING (SELECT 1L AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET at = NULL",
                'stored SELECT count(at) FROM "{n0}@trial" = [(0,)]',
            ),
            ("CALL lake.system.fast_forward('{n}', 'main', 'trial')", "has PUBLISH BRANCH"),
            ("ALTER TABLE {t} DROP BRANCH IF EXISTS nothing", "rows []"),
            ("CALL lake.system.create_tag('{n}', 'kept')", "stored SELECT name FROM \"{n0}$tags\" = [('kept',)]"),
            (
                "ALTER TABLE {t} CREATE TAG y RETAIN 180 DAYS",
                "stored SELECT retain_hours FROM \"{n0}$tags\" WHERE name = 'y' = [(4320.0,)]",
            ),
            ("SELECT max_reference_age_in_ms FROM {t}.refs WHERE name = 'y'", "rows [(15552000000,)]"),
            ("ALTER TABLE {t} DROP TAG y", "stored SELECT name FROM \"{n0}$tags\" = [('kept',)]"),
            (
                "ALTER TABLE {t} CREATE OR REPLACE BRANCH x",
                "stored SELECT name FROM \"{n0}$branches\" WHERE name = 'x' = [('x',)]",
            ),
            ("ALTER TABLE {t} REPLACE TAG x AS OF VERSION 1", "fails no tag 'x'"),
            (
                "ALTER TABLE {t} CREATE OR REPLACE BRANCH x AS OF VERSION {v} RETAIN 7 DAYS",
                "stored SELECT retain_hours FROM \"{n0}$branches\" WHERE name = 'x' = [(168.0,)]",
            ),
            (
                "ALTER TABLE {t} CREATE BRANCH x RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS",
                "refused 'history.expire.max-snapshot-age-ms'",
            ),
            (
                "INSERT INTO {t}.branch_trial VALUES (8, 2, NULL)",
                'stored SELECT count(*) FROM "{n0}@trial" = [(3,)]',
            ),
            (
                "ALTER TABLE {t} REPLACE BRANCH trial AS OF VERSION {v}",
                'stored SELECT count(*) FROM "{n0}@trial" = [(2,)]',
            ),
            ("ALTER TABLE {t} CREATE OR REPLACE BRANCH trial", 'stored SELECT count(*) FROM "{n0}@trial" = [(2,)]'),
            ("ALTER TABLE {t} REPLACE BRANCH nothing", "fails no branch 'nothing'"),
            ("SELECT * FROM {t}.refs WHERE name = 'trial'", "has type='BRANCH'"),
            ("SELECT count(*) FROM {t} VERSION AS OF 'kept'", "rows [(2,)]"),
            ("ALTER TABLE {t} DROP BRANCH x", "stored SELECT name FROM \"{n0}$branches\" = [('trial',)]"),
            ("INSERT INTO {t}.tag_kept SELECT * FROM {t}", "fails tables and branches, not to tags"),
            ("UPDATE {t}.tag_kept SET id = 3", "fails tables and branches, not tags"),
            ("TRUNCATE TABLE {t}.tag_kept", "fails expected a table or a branch"),
            ("SELECT * FROM {t}.tag_kept VERSION AS OF 1", "fails expected one of both"),
            ("DELETE FROM {t}.tag_kept WHERE id = 1", "fails not tags"),
            ("INSERT OVERWRITE {t}.tag_kept SELECT * FROM {t}", "fails not to tags"),
            ("SELECT * FROM {t}.branch_nothing", "fails cannot be found"),
        ),
        "History and time travel": (
            ("INSERT INTO {t} VALUES (7, 2, TIMESTAMP '2026-01-01')", "stored SELECT count(*) FROM {n} = [(3,)]"),
            ("DESC HISTORY {t} LIMIT 1", "has append 1 rows"),
            ("DESCRIBE HISTORY {t}", "has partition spec v"),
            ("DESCRIBE DETAIL {t}", "has format='lance_flight'"),
            ("SELECT count(*) FROM {t} VERSION AS OF {v}", "rows [(2,)]"),
            ("SELECT count(*) FROM {t} FOR VERSION AS OF {v}", "rows [(2,)]"),
            ("SELECT count(*) FROM {t}@v{v}", "rows [(2,)]"),
            ("SELECT count(*) FROM {t} TIMESTAMP AS OF current_timestamp()", "rows [(3,)]"),
            ("SELECT count(*) FROM {t} FOR TIMESTAMP AS OF date_add(current_date(), 1)", "rows [(3,)]"),
            ("SELECT count(*) FROM {t} FOR SYSTEM_TIME AS OF current_timestamp()", "rows [(3,)]"),
            ("SELECT id, _change_type FROM {t}.changes WHERE id = 7", "rows [(7, 'insert')]"),
            ("SELECT id, _change_type FROM {t}.changes_{v} WHERE id > 2", "rows [(7, 'insert')]"),
            (
                "SELECT id, _change_type, _commit_version FROM table_changes('{t}', {v}, {v}) ORDER BY id",
                "rows [(1, 'insert', {v}), (2, 'insert', {v})]",
            ),
            (
                "SELECT id, _change_type FROM {t} WITH (readChangeFeed = 'true', startingVersion = '{v}', endingVersion = '{v}') ORDER BY id",
                "rows [(1, 'insert'), (2, 'insert')]",
            ),
            ("SELECT * FROM {t} WITH (readChangeFeed = 'true')", "fails expected 'startingVersion'"),
            ("SELECT count(*), count(_commit_timestamp) FROM table_changes('{t}', {v}) WHERE id = 7", "rows [(1, 1)]"),
            (
                "CALL lake.system.create_changelog_view(table => '{n}', changelog_view => '{n0}_view', options => map('start-snapshot-id', '{v}'))",
                "rows [('{n0}_view',)]",
            ),
            ("SELECT count(*) FROM {n0}_view WHERE id = 7", "rows [(1,)]"),
            ("RESTORE TABLE {t} TO VERSION AS OF {v}", "stored SELECT count(*) FROM {n} = [(2,)]"),
            ("RESTORE {t} VERSION AS OF {v}", "stored SELECT count(*) FROM {n} = [(2,)]"),
            ("RESTORE TABLE {t} TO TIMESTAMP AS OF '{now}'", "has ROLLBACK TO"),
            ("SELECT snapshot_id FROM {t}.history WHERE snapshot_id = {v}", "rows [({v},)]"),
            ("SELECT latest_snapshot_id FROM {t}.metadata_log_entries WHERE latest_snapshot_id = {v}", "rows [({v},)]"),
            (
                "SELECT parent_id < snapshot_id, operation FROM {t}.snapshots WHERE snapshot_id = {v}",
                "rows [(True, 'append 2 rows into 2 partitions')]",
            ),
            ("CALL lake.system.rollback_to_snapshot('{n}', {v})", "stored SELECT count(*) FROM {n} = [(2,)]"),
            ("CALL lake.system.rollback_to_snapshot(table => 'lake.{n}', snapshot_id => {v})", "has ROLLBACK TO {v}"),
            ("CALL lake.system.set_current_snapshot('{n}', {v})", "has ROLLBACK TO {v}"),
            ("CALL lake.system.rollback_to_timestamp('{n}', TIMESTAMP '{now}')", "has ROLLBACK TO"),
            ("CALL lake.system.ancestors_of('{n}', {v})", "has snapshot_id='{v}'"),
            ("SELECT count(*) FROM {t} TIMESTAMP AS OF '1999-01-01'", "fails no snapshot as old as"),
            ("SELECT count(*) FROM {t} VERSION AS OF 99999", "fails stand in its metadata table 'snapshots'"),
            ("SELECT * FROM {t}.snapshots VERSION AS OF 1", "fails have no versions"),
            ("SELECT * FROM table_changes('{t}', 0, 1)", "fails are not kept; expected a version after"),
            (
                "SELECT id, _change_type, _commit_version FROM table_changes('{t}', '{begin}', '{begin}') ORDER BY id",
                "rows [(1, 'insert', {v}), (2, 'insert', {v})]",
            ),
            ("SELECT * FROM table_changes('{t}', '2020-01-01')", "fails are not kept"),
            ("RESTORE TABLE {t} TO VERSION AS OF 99999", "fails 99999"),
            ("RESTORE TABLE {t} TO TIMESTAMP AS OF '1999-01-01'", "fails no version as old as"),
            ("CALL lake.system.cherrypick_snapshot(table => '{n}', snapshot_id => 1)", "refused publish_branch"),
            ("CALL lake.system.publish_changes(table => '{n}', wap_id => 'x')", "refused publish_branch"),
            ("CALL lake.system.fast_forward('{n}', 'x', 'main')", "refused expected 'main'"),
            (
                "CALL lake.system.create_changelog_view(table => '{n}', options => map('start-timestamp', '1'))",
                "refused are not kept",
            ),
            (
                "CALL lake.system.create_changelog_view(table => '{n}', identifier_columns => array('id'))",
                "refused Did you mean",
            ),
        ),
        "Metadata": (
            ("SELECT DISTINCT file_format FROM {t}.data_files", "rows [('lance',)]"),
            ("SELECT sum(record_count) FROM {t}.data_files", "rows [(2,)]"),
            ("SELECT count(DISTINCT _partition), count(DISTINCT _rowid) FROM {t}", "rows [(2, 2)]"),
            (
                "SELECT t.id, t._partition = p.object_id FROM {t} AS t JOIN {t}.partitions AS p ON t.k = p.k ORDER BY id",
                "rows [(1, True), (2, True)]",
            ),
            ("SELECT _rowid IS NULL FROM {t} WHERE id = 2 LIMIT 3", "rows [(False,)]"),
            ("SELECT * FROM {t} WHERE _partition LIKE 'v%' AND id = 1", "rows [(1, 1, None)]"),
            ("SELECT sum(record_count), count(file_path) > 1 FROM {t}.files", "rows [(2, True)]"),
            ("SELECT record_count, file_count FROM {t}.partitions WHERE k = 1", "rows [(1, 1)]"),
            ("SELECT count(*) > 0 FROM {t}.history", "rows [(True,)]"),
            ("SELECT count(*) > 0 FROM {t}.metadata_log_entries", "rows [(True,)]"),
            ("SELECT count(*) FROM {t}.partitions", "rows [(2,)]"),
            ("SELECT name FROM {t}.tags", "rows [('kept',)]"),
            ("SELECT _file FROM {t}", "refused expected _partition, and t.files"),
            ("SELECT _pos FROM {t}", "refused expected _rowid"),
            ("SELECT DISTINCT _spec_id FROM {t} WHERE id = 1", "rows [('1',)]"),
            ("SELECT * FROM {t}.manifests", "has path='__manifest'"),
            ("SELECT * FROM {t}.all_manifests", "has path='__manifest'"),
            ("SELECT * FROM {t}.entries", "has file_format='lance'"),
            ("SELECT * FROM {t}.all_entries", "has file_format='lance'"),
            ("SELECT * FROM {t}.all_files", "has file_format='lance'"),
            ("SELECT * FROM {t}.all_data_files", "has file_format='lance'"),
            ("SELECT sum(record_count) FROM {t}.files VERSION AS OF {v}", "rows [(2,)]"),
            (
                "SELECT h.snapshot_id, h.is_current_ancestor FROM {t}.history h JOIN {t}.snapshots s ON h.snapshot_id = s.snapshot_id WHERE s.snapshot_id = {v} ORDER BY made_current_at",
                "rows [({v}, True)]",
            ),
            ("SELECT operation FROM {t}.snapshots ORDER BY committed_at DESC LIMIT 1", "has operation="),
            ("SELECT k, record_count FROM {t}.partitions ORDER BY k", "rows [(1, 1), (2, 1)]"),
            ("SELECT count(*) > 0 FROM {t}.files WHERE file_size_in_bytes > 0", "rows [(True,)]"),
            ("SELECT sum(record_count) FROM {t}.partitions VERSION AS OF {v}", "rows [(2,)]"),
            ("SELECT count(*) FROM {t}.snapshots WHERE committed_at >= TIMESTAMP '2020-01-01'", "has count(1)="),
            ("DESCRIBE TABLE {t}.snapshots", "has col_name='snapshot_id'"),
            ("DESCRIBE TABLE {t}.files", "has col_name='file_path'"),
            ("SELECT * FROM {t}.position_deletes", "refused expected delete_files"),
            ("SELECT * FROM {t}.delete_files", "rows []"),
            ("SELECT * FROM {t}.all_delete_files", "rows []"),
            ("SELECT _metadata.file_path FROM {t}", "refused cannot be resolved"),
        ),
        "Maintenance": (
            ("OPTIMIZE {t}", "stored SELECT count(*) FROM {n} = [(2,)]"),
            ("/* a /* nested */ comment */ OPTIMIZE {t}", "rows []"),
            ("-- a comment\nOPTIMIZE /* 'x */ {t} -- ; 'x", "rows []"),
            ("VACUUM {t} RETAIN 168 HOURS DRY RUN", "has kind='nothing'"),
            ("VACUUM {t}", "stored SELECT count(*) FROM {n} = [(2,)]"),
            ("VACUUM {t} FULL RETAIN 200 HOURS", "has kind='nothing'"),
            ("CALL lake.system.expire_snapshots('{n}')", "stored SELECT count(*) FROM {n} = [(2,)]"),
            (
                "CALL lake.system.expire_snapshots(table => '{n}', older_than => TIMESTAMP '2020-01-01 00:00:00')",
                "has kind='nothing'",
            ),
            ("CALL lake.system.remove_orphan_files(table => '{n}', dry_run => true)", "has kind='nothing'"),
            (
                "CALL lake.system.remove_orphan_files(table => '{n}', older_than => TIMESTAMP '2020-01-01')",
                "has kind='nothing'",
            ),
            ("CALL lake.system.rewrite_data_files('{n}')", "stored SELECT count(*) FROM {n} = [(2,)]"),
            ("CALL lake.system.rewrite_data_files(table => '{n}', strategy => 'binpack')", "rows []"),
            ("CALL lake.system.compact('lake.{n}')", "rows []"),
            ("SHOW PROCEDURES IN lake.system", "has rollback_to_snapshot"),
            ("OPTIMIZE {t} ZORDER BY (id)", "refused WRITE ORDERED BY"),
            ("OPTIMIZE {t} WHERE k = 1", "rows []"),
            ("VACUUM {t} RETAIN 1 HOURS", "fails kept for 168 hours"),
            ("VACUUM {t} RETAIN 0 HOURS DRY RUN", "has kind="),
            ("OPTIMIZE {t} FULL", "rows []"),
            ("VACUUM {t} LITE", "has kind='nothing'"),
            ("VACUUM {t} USING INVENTORY (SELECT 1)", "refused VACUUM [FULL | LITE]"),
            ("REORG TABLE {t} APPLY (PURGE)", "stored SELECT count(*) FROM {n} = [(2,)]"),
            ("FSCK REPAIR TABLE {t} DRY RUN", "rows []"),
            ("ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS", "rows []"),
            ("CREATE INDEX i ON {t} (id)", "stored SELECT count(*) FROM {n} = [(2,)]"),
            (
                "CALL lake.system.rewrite_data_files(table => '{n}', options => map('delete-ratio-threshold', '0.5'))",
                "rows []",
            ),
            ("DROP INDEX i ON {t}", "stored SELECT count(*) FROM {n} = [(2,)]"),
            ("GENERATE symlink_format_manifest FOR TABLE {t}", "refused any reader of Lance"),
            (
                "INSERT OVERWRITE {t}_c WITH (sort_by = 'id DESC') SELECT * FROM {t}_c",
                "rows []",
            ),
            (
                "CALL lake.system.rewrite_data_files(table => '{n}', strategy => 'sort')",
                "refused expected binpack, or INSERT OVERWRITE",
            ),
            (
                "CALL lake.system.rewrite_data_files(table => '{n}', sort_order => 'id DESC')",
                "refused expected binpack, or INSERT OVERWRITE",
            ),
            ("CALL lake.system.rewrite_data_files(table => '{n}', where => 'id = 3')", "rows []"),
            ("CALL lake.system.rewrite_data_files(table => '{n}', options => map('min-input-files', '2'))", "rows []"),
            ("CALL lake.system.expire_snapshots(table => '{n}', retain_last => 100)", "has kind='nothing'"),
            ("CALL lake.system.expire_snapshots(table => '{n}', snapshot_ids => array(123))", "refused Did you mean"),
            (
                "CALL lake.system.expire_snapshots(table => '{n}', older_than => TIMESTAMP '2999-01-01 00:00:00')",
                "refused expected a time that has passed",
            ),
            ("CALL lake.system.remove_orphan_files(table => '{n}', location => 'data')", "refused Did you mean"),
            ("CALL lake.system.rewrite_manifests('{n}')", "rows []"),
            ("CALL lake.system.rewrite_position_delete_files('{n}')", "stored SELECT count(*) FROM {n} = [(2,)]"),
            ("CALL lake.system.snapshot('lake.{n}', '{n}_copy')", "stored SELECT count(*) FROM {n0}_copy = [(2,)]"),
            (
                "CALL lake.system.add_files(table => 'public.{n0}_d', source_table => 'parquet.`{f}`')",
                "stored SELECT * FROM {n0}_d WHERE id = 9 = [(9, 'f')]",
            ),
            (
                "CALL lake.system.register_table(table => '{n}', metadata_file => 'x')",
                "refused a table in the root is registered",
            ),
            ("CALL lake.system.compute_table_stats('{n}')", "rows []"),
            ("CALL lake.system.compute_partition_stats('{n}')", "rows []"),
            (
                "CALL lake.system.rewrite_table_path(table => '{n}', source_prefix => 'a', target_prefix => 'b')",
                "refused backup",
            ),
            ("CALL lake.system.nothing('{n}')", "fails expected system"),
            ("CALL lake.nowhere.compact('{n}')", "fails expected system"),
        ),
        "Namespaces, views and schema evolution": (
            ("CREATE NAMESPACE IF NOT EXISTS lake.public", "rows []"),
            (
                "CREATE SCHEMA IF NOT EXISTS lake.{n0}_ns",
                "stored SELECT count(*) FROM information_schema.schemata WHERE schema_name = '{n0}_ns' = [(1,)]",
            ),
            ("SHOW NAMESPACES IN lake LIKE 'pub*'", "rows [('public',)]"),
            ("DESCRIBE NAMESPACE lake.public", "rows [('Catalog Name', 'lake'), ('Namespace Name', 'public')]"),
            (
                "DROP SCHEMA lake.{n0}_ns RESTRICT",
                "stored SELECT count(*) FROM information_schema.schemata WHERE schema_name = '{n0}_ns' = [(0,)]",
            ),
            ("DROP NAMESPACE IF EXISTS lake.{n0}_ns", "rows []"),
            (
                "MERGE WITH SCHEMA EVOLUTION INTO {t}_c AS t USING (SELECT 1L AS id, 'w' AS word) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
                "stored SELECT word FROM {n0}_c WHERE id = 1 = [('w',)]",
            ),
            ("EXPLAIN SELECT id FROM {t} WHERE k = 1", "has partitions: 1 / 2"),
            ("SELECT count(*) <= 2 FROM {t} TABLESAMPLE (50 PERCENT)", "rows [(True,)]"),
            ("CREATE NAMESPACE lake.n COMMENT 'x'", "refused no properties and no comment"),
            ("CREATE NAMESPACE lake.n WITH DBPROPERTIES ('a' = 'b')", "refused no properties and no comment"),
            ("CREATE NAMESPACE lake.n LOCATION '/x'", "refused no properties and no comment"),
            ("COMMENT ON NAMESPACE lake.public IS 'x'", "refused no properties and no comment"),
            ("ALTER NAMESPACE lake.public SET PROPERTIES ('a' = 'b')", "refused no properties and no comment"),
            ("DROP NAMESPACE lake.public CASCADE", "refused the schema public stays"),
            ("CREATE NAMESPACE lake.{n0}_all", "rows []"),
            ("CREATE TABLE lake.{n0}_all.x USING lance_flight AS SELECT 1 AS id", "rows []"),
            ("SHOW TABLES IN lake.{n0}_all", "rows [('{n0}_all', 'x', False)]"),
            ("USE lake.{n0}_all", "rows []"),
            ("SELECT id FROM x", "rows [(1,)]"),
            ("USE spark_catalog.default", "rows []"),
            (
                "DROP NAMESPACE lake.{n0}_all CASCADE",
                "stored SELECT count(*) FROM information_schema.schemata WHERE schema_name = '{n0}_all' = [(0,)]",
            ),
            (
                "INSERT WITH SCHEMA EVOLUTION INTO {t}_d BY NAME SELECT 7L AS id, 'w' AS part, 1.5D AS more",
                "stored SELECT more FROM {n0}_d WHERE part = 'w' = [(1.5,)]",
            ),
            (
                "MERGE WITH SCHEMA EVOLUTION INTO {t}_d AS t USING (SELECT 7L AS id, 'w' AS part, 2D AS more, 'x' AS word) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
                "stored SELECT more, word FROM {n0}_d WHERE part = 'w' = [(2.0, 'x')]",
            ),
            ("EXPLAIN DELETE FROM {t} WHERE k = 1", "has partitions: 1 / 2"),
            ("EXPLAIN DELETE FROM {t} WHERE k = 1 AND id % 2 = 0", "has partitions: 1 / 2"),
            ("EXPLAIN UPDATE {t} SET at = NULL WHERE k = 1", "has partitions: 1 / 2"),
            (
                "EXPLAIN MERGE INTO {t} AS t USING (SELECT 1L AS id) AS s ON t.id = s.id AND t.k = 1 WHEN MATCHED THEN DELETE",
                "has partitions: 1 / 2",
            ),
            ("EXPLAIN FORMATTED SELECT id FROM {t} WHERE k = 1", "has partitions: 1 / 2"),
            ("EXPLAIN EXTENDED SELECT id FROM {t} WHERE k = 1", "has partitions: 1 / 2"),
        ),
    }
)
"""By subject, in their order, over one table and others beside it: a statement, and what then is so.

`rows …` are all of its rows, `has …` is among them, `stored query = …` is what the service answers, `as …` is in the table's definition,
`columns table = …` are those of a table, and `refused …` is in the error. `fails … // why` is too, of a statement that fails in Iceberg
and Delta as well; a reason that the statement does not say itself stands behind it. This is a judgement by their documentation.
"""


_NAMES = {"t": "t", "n": "s.t", "n0": "t", "v": "12", "now": "2026-11-01", "f": "path", "begin": "2026-11-01"}


def page() -> Iterator[str]:
    """Yield the lines of the page's tables."""
    for title, forms in FORMS.items():
        yield from ("", f"## {title}", "", "| statement | here |", "|---|---|")
        for statement, expected in forms:
            kind, _, text = expected.format(**_NAMES).partition(" ")
            shown = statement.format(**_NAMES).replace("\n", " ").replace("|", "\\|")
            answer = {"refused": f"refused: {text}", "fails": f"fails, as there: {text.replace(' // ', '; ')}"}.get(
                kind, "yes"
            )
            mark = "``" if "`" in shown else "`"
            yield f"| {mark} {shown} {mark} | {answer} |" if mark == "``" else f"| `{shown}` | {answer} |"


if __name__ == "__main__":
    print("\n".join(page()))  # noqa: T201 - what a command does
