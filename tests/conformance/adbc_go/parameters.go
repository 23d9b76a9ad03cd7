package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-adbc/go/adbc"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// parameters runs the statements of a file, of lines `name TAB SQL TAB setter=text|…`, each with its values bound in a batch
// of their own types, and prints the rows of each as `[a][b]`, or the number of rows that it changed.
func parameters(c adbc.Connection, path string) {
	text, err := os.ReadFile(path)
	must(err)
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		parts := strings.Split(line, "\t")
		say(parts[0], func() (any, error) {
			return with(c, func(s adbc.Statement) (any, error) { return outcome(s, parts[1], parts[2]) })
		})
	}
}

func outcome(s adbc.Statement, sql string, bound string) (any, error) {
	must(s.SetSqlQuery(sql))
	if err := s.Prepare(ctx); err != nil {
		return nil, err
	}
	if bound != "" {
		must(s.Bind(ctx, batchOf(strings.Split(bound, "|"))))
	}
	if !strings.HasPrefix(sql, "SELECT") && !strings.HasPrefix(sql, "WITH") {
		return s.ExecuteUpdate(ctx)
	}
	reader, _, err := s.ExecuteQuery(ctx)
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	var rows strings.Builder
	for reader.Next() {
		column := reader.RecordBatch().Column(0)
		for row := 0; row < column.Len(); row++ {
			fmt.Fprintf(&rows, "[%s]", column.ValueStr(row))
		}
	}
	return rows.String(), reader.Err()
}

func batchOf(values []string) arrow.RecordBatch {
	fields, columns := []arrow.Field{}, []arrow.Array{}
	for place, value := range values {
		setter, text, _ := strings.Cut(value, "=")
		column := columnOf(setter, text)
		fields = append(fields, arrow.Field{Name: strconv.Itoa(place), Type: column.DataType(), Nullable: true})
		columns = append(columns, column)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 1)
}

func columnOf(setter string, text string) arrow.Array {
	types := map[string]arrow.DataType{
		"int": arrow.PrimitiveTypes.Int32, "long": arrow.PrimitiveTypes.Int64, "double": arrow.PrimitiveTypes.Float64,
		"string": arrow.BinaryTypes.String, "decimal": &arrow.Decimal128Type{Precision: 9, Scale: 2},
		"date": arrow.FixedWidthTypes.Date32, "timestamp": &arrow.TimestampType{Unit: arrow.Microsecond},
		"boolean": arrow.FixedWidthTypes.Boolean, "null": arrow.Null,
	}
	builder := array.NewBuilder(memory.DefaultAllocator, types[strings.TrimPrefix(setter, "object:")])
	defer builder.Release()
	switch b := builder.(type) {
	case *array.Int32Builder:
		b.Append(int32(number(text)))
	case *array.Int64Builder:
		b.Append(number(text))
	case *array.Float64Builder:
		value, err := strconv.ParseFloat(text, 64)
		must(err)
		b.Append(value)
	case *array.StringBuilder:
		b.Append(text)
	case *array.Decimal128Builder:
		value, err := decimal128.FromString(text, 9, 2)
		must(err)
		b.Append(value)
	case *array.Date32Builder:
		b.Append(arrow.Date32FromTime(moment("2006-01-02", text)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(moment("2006-01-02 15:04:05", text).UnixMicro()))
	case *array.BooleanBuilder:
		b.Append(text == "true")
	default:
		b.AppendNull()
	}
	return builder.NewArray()
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	must(err)
	return value
}

func moment(layout string, text string) time.Time {
	value, err := time.ParseInLocation(layout, text, time.UTC)
	must(err)
	return value
}
