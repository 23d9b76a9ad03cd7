// Calls the ADBC driver for Flight SQL in Go in the ways that the tests want to know of, and prints one line
// `name = value`, or `name ! error`, for each call. Its argument is the URI of a server.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/arrow-adbc/go/adbc"
	"github.com/apache/arrow-adbc/go/adbc/driver/flightsql"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var ctx = context.Background()

func main() {
	database, err := flightsql.NewDriver(memory.DefaultAllocator).NewDatabase(map[string]string{adbc.OptionKeyURI: os.Args[1]})
	must(err)
	connection, err := database.Open(ctx)
	must(err)
	if len(os.Args) > 2 {
		parameters(connection, os.Args[2])
		return
	}
	metadata(connection)
	ingests(connection)
	statements(connection)
	partitions(connection)
	transactions(connection)
	transactionsInSQL()
	must(connection.Close())
}

func metadata(c adbc.Connection) {
	codes := []adbc.InfoCode{adbc.InfoVendorName, adbc.InfoDriverName, adbc.InfoVendorSql, adbc.InfoVendorSubstrait}
	say("GetInfo", func() (any, error) { return rowsOf(c.GetInfo(ctx, codes)) })
	say("GetTableTypes", func() (any, error) { return rowsOf(c.GetTableTypes(ctx)) })
	depths := []adbc.ObjectDepth{adbc.ObjectDepthCatalogs, adbc.ObjectDepthDBSchemas, adbc.ObjectDepthTables}
	for _, depth := range depths {
		say(fmt.Sprintf("GetObjects to depth %d", depth), func() (any, error) {
			return rowsOf(c.GetObjects(ctx, depth, nil, nil, text("planes"), nil, nil))
		})
	}
	say("GetObjects to columns", func() (any, error) {
		reader, err := c.GetObjects(ctx, adbc.ObjectDepthAll, nil, text("pub%"), text("flights"), text("pr%"), []string{"TABLE"})
		if err != nil {
			return nil, err
		}
		return names(reader), nil
	})
	say("GetTableSchema", func() (any, error) { return schemaOf(c.GetTableSchema(ctx, nil, text("public"), "flights")) })
	say("GetTableSchema of no table", func() (any, error) { return schemaOf(c.GetTableSchema(ctx, nil, nil, "nowhere")) })
}

func ingests(c adbc.Connection) {
	modes := []string{
		adbc.OptionValueIngestModeCreate, adbc.OptionValueIngestModeAppend, adbc.OptionValueIngestModeReplace,
		adbc.OptionValueIngestModeCreateAppend, adbc.OptionValueIngestModeCreate,
	}
	for number, mode := range modes {
		name := mode[strings.LastIndex(mode, ".")+1:]
		say(fmt.Sprintf("ingest %d, %s", number, name), func() (any, error) {
			return with(c, func(s adbc.Statement) (any, error) {
				must(s.SetOption(adbc.OptionKeyIngestTargetTable, "by_go"))
				must(s.SetOption(adbc.OptionKeyIngestMode, mode))
				must(s.BindStream(ctx, numbers(1, 2, 3)))
				return s.ExecuteUpdate(ctx)
			})
		})
	}
	say("rows after the ingests", func() (any, error) { return query(c, "SELECT count(*) FROM by_go") })
}

func statements(c adbc.Connection) {
	say("query", func() (any, error) { return query(c, "SELECT id, price FROM flights ORDER BY id") })
	say("update", func() (any, error) { return update(c, "UPDATE by_go SET n = n + 10 WHERE n > 1") })
	say("schema of a query", func() (any, error) {
		return with(c, func(s adbc.Statement) (any, error) {
			must(s.SetSqlQuery("SELECT id, price FROM flights"))
			return schemaOf(s.(adbc.StatementExecuteSchema).ExecuteSchema(ctx))
		})
	})
	say("parameters", func() (any, error) {
		return with(c, func(s adbc.Statement) (any, error) {
			must(s.SetSqlQuery("SELECT carrier FROM flights WHERE id = ?"))
			must(s.Prepare(ctx))
			return schemaOf(s.GetParameterSchema())
		})
	})
	say("prepared query", func() (any, error) {
		return with(c, func(s adbc.Statement) (any, error) {
			must(s.SetSqlQuery("SELECT carrier FROM flights WHERE id = ?"))
			must(s.Prepare(ctx))
			must(s.BindStream(ctx, numbers(1)))
			reader, _, err := s.ExecuteQuery(ctx)
			return rowsOf(reader, err)
		})
	})
	say("prepared query of several rows", func() (any, error) {
		return with(c, func(s adbc.Statement) (any, error) {
			must(s.SetSqlQuery("SELECT carrier FROM flights WHERE id = ?"))
			must(s.Prepare(ctx))
			must(s.BindStream(ctx, numbers(1, 2)))
			reader, _, err := s.ExecuteQuery(ctx)
			return rowsOf(reader, err)
		})
	})
	say("prepared update of several rows", func() (any, error) {
		return with(c, func(s adbc.Statement) (any, error) {
			must(s.SetSqlQuery("INSERT INTO by_go VALUES (?)"))
			must(s.Prepare(ctx))
			must(s.BindStream(ctx, numbers(100, 101)))
			return s.ExecuteUpdate(ctx)
		})
	})
	say("wrong SQL", func() (any, error) { return query(c, "SELECT nope FROM flights") })
	say("cancelled", func() (any, error) {
		cancelling, cancel := context.WithCancel(ctx)
		defer cancel()
		return with(c, func(s adbc.Statement) (any, error) {
			must(s.SetSqlQuery("SELECT value FROM generate_series(1, 1000000000)"))
			reader, _, err := s.ExecuteQuery(cancelling)
			if err != nil {
				return nil, err
			}
			defer reader.Release()
			reader.Next()
			cancel()
			for reader.Next() {
			}
			return reader.Err() != nil, nil
		})
	})
}

func partitions(c adbc.Connection) {
	say("partitions", func() (any, error) {
		return with(c, func(s adbc.Statement) (any, error) {
			must(s.SetOption("adbc.flight.sql.rpc.call_header.lance-flight-endpoints", "2"))
			must(s.SetSqlQuery("SELECT id FROM flights"))
			_, parts, _, err := s.ExecutePartitions(ctx)
			if err != nil {
				return nil, err
			}
			read := []string{}
			for _, part := range parts.PartitionIDs {
				rows, err := rowsOf(c.ReadPartition(ctx, part))
				if err != nil {
					return nil, err
				}
				read = append(read, rows.(string))
			}
			return fmt.Sprint(len(parts.PartitionIDs), " with ", len(read), " answers"), nil
		})
	})
}

func transactions(c adbc.Connection) {
	say("create", func() (any, error) { return update(c, "CREATE TABLE in_parts (id bigint) PARTITIONED BY (id)") })
	options := c.(adbc.PostInitOptions)
	must(options.SetOption(adbc.OptionKeyAutoCommit, adbc.OptionValueDisabled))
	say("insert to be rolled back", func() (any, error) { return update(c, "INSERT INTO in_parts VALUES (1000)") })
	say("rollback", func() (any, error) { return nil, c.Rollback(ctx) })
	say("insert to be committed", func() (any, error) { return update(c, "INSERT INTO in_parts VALUES (2000)") })
	say("commit", func() (any, error) { return nil, c.Commit(ctx) })
	must(options.SetOption(adbc.OptionKeyAutoCommit, adbc.OptionValueEnabled))
	say("rows after the transactions", func() (any, error) { return query(c, "SELECT id FROM in_parts") })
	say("BEGIN without cookies", func() (any, error) { return update(c, "BEGIN") })
}

// transactionsInSQL sends BEGIN before anything else, over a connection that keeps cookies.
func transactionsInSQL() {
	options := map[string]string{adbc.OptionKeyURI: os.Args[1], flightsql.OptionCookieMiddleware: adbc.OptionValueEnabled}
	database, err := flightsql.NewDriver(memory.DefaultAllocator).NewDatabase(options)
	must(err)
	c, err := database.Open(ctx)
	must(err)
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		say("BEGIN, "+end, func() (any, error) {
			if _, err := update(c, "BEGIN"); err != nil {
				return nil, err
			}
			if _, err := update(c, "DELETE FROM in_parts"); err != nil {
				return nil, err
			}
			if _, err := update(c, end); err != nil {
				return nil, err
			}
			return query(c, "SELECT count(*) AS rows FROM in_parts")
		})
	}
	say("a version by a clause", func() (any, error) {
		if _, err := update(c, "ALTER TABLE in_parts CREATE TAG empty"); err != nil {
			return nil, err
		}
		if _, err := update(c, "INSERT INTO in_parts VALUES (7), (8)"); err != nil {
			return nil, err
		}
		return query(c, "SELECT count(*) AS rows FROM in_parts FOR TAG empty")
	})
	say("a row by its _rowid", func() (any, error) {
		if _, err := update(c, "DELETE FROM in_parts WHERE _rowid IN (SELECT _rowid FROM in_parts WHERE id = 7)"); err != nil {
			return nil, err
		}
		return query(c, "SELECT *, _partition IS NULL AS plain FROM in_parts")
	})
	must(c.Close())
}

func say(name string, call func() (any, error)) {
	value, err := call()
	var failure adbc.Error
	switch {
	case errors.As(err, &failure):
		fmt.Printf("%s ! %s: %s\n", name, failure.Code, strings.ReplaceAll(failure.Msg, "\n", " "))
	case err != nil:
		fmt.Printf("%s ! %v\n", name, err)
	default:
		fmt.Printf("%s = %v\n", name, value)
	}
}

func with(c adbc.Connection, use func(adbc.Statement) (any, error)) (any, error) {
	statement, err := c.NewStatement()
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	return use(statement)
}

func query(c adbc.Connection, sql string) (any, error) {
	return with(c, func(s adbc.Statement) (any, error) {
		must(s.SetSqlQuery(sql))
		reader, _, err := s.ExecuteQuery(ctx)
		return rowsOf(reader, err)
	})
}

func update(c adbc.Connection, sql string) (any, error) {
	return with(c, func(s adbc.Statement) (any, error) {
		must(s.SetSqlQuery(sql))
		return s.ExecuteUpdate(ctx)
	})
}

func rowsOf(reader array.RecordReader, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	var rows strings.Builder
	for reader.Next() {
		encoded, err := json.Marshal(reader.RecordBatch())
		if err != nil {
			return nil, err
		}
		rows.Write(encoded)
	}
	return rows.String(), reader.Err()
}

// names are those of the columns in what GetObjects answers.
func names(reader array.RecordReader) string {
	rows, err := rowsOf(reader, nil)
	must(err)
	found := []string{}
	for _, part := range strings.Split(rows.(string), `"column_name":"`)[1:] {
		found = append(found, part[:strings.Index(part, `"`)])
	}
	return strings.Join(found, ", ")
}

func schemaOf(schema *arrow.Schema, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	fields := []string{}
	for _, field := range schema.Fields() {
		fields = append(fields, fmt.Sprintf("%s %s nullable=%t", field.Name, field.Type, field.Nullable))
	}
	return strings.Join(fields, ", "), nil
}

func numbers(values ...int64) array.RecordReader {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	builder.Field(0).(*array.Int64Builder).AppendValues(values, nil)
	reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{builder.NewRecordBatch()})
	must(err)
	return reader
}

func text(value string) *string { return &value }

func must(err error) {
	if err != nil {
		panic(err)
	}
}
