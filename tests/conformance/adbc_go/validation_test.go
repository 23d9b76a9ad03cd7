// Runs the validation suite that ADBC publishes for its drivers, as it is, with the Flight SQL driver against our server.
// It is built with `go test -c`; the environment tells it the server, and what that has to say of itself.
package main

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/apache/arrow-adbc/go/adbc"
	"github.com/apache/arrow-adbc/go/adbc/driver/flightsql"
	"github.com/apache/arrow-adbc/go/adbc/validation"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	fsql "github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/suite"
)

// quirks claim all that the suite asks for, but for statistics, which Flight SQL has no command for.
type quirks struct {
	memory *memory.CheckedAllocator
	wrap   func(adbc.Driver) adbc.Driver
}

// TestDriver runs the suite with the driver as it is published.
func TestDriver(t *testing.T) {
	validate(t, func(driver adbc.Driver) adbc.Driver { return driver })
}

// TestRebinding runs it with a driver that forgets what is bound as soon as it has other SQL, and frees what it ingests.
func TestRebinding(t *testing.T) {
	validate(t, func(driver adbc.Driver) adbc.Driver { return rebindingDriver{driver} })
}

func validate(t *testing.T, wrap func(adbc.Driver) adbc.Driver) {
	q := &quirks{wrap: wrap}
	suite.Run(t, &validation.DatabaseTests{Quirks: q})
	suite.Run(t, &validation.ConnectionTests{Quirks: q})
	suite.Run(t, &validation.StatementTests{Quirks: q})
}

func (q *quirks) SetupDriver(*testing.T) adbc.Driver {
	q.memory = memory.NewCheckedAllocator(memory.DefaultAllocator)
	return q.wrap(flightsql.NewDriver(q.memory))
}

// TearDownDriver drops the tables of a test, and looks whether the driver has freed its memory.
func (q *quirks) TearDownDriver(t *testing.T, _ adbc.Driver) {
	err := connected(func(c adbc.Connection) error {
		return errors.Join(q.DropTable(c, "bulk_ingest"), q.DropTable(c, "sample_test"))
	})
	if err != nil {
		t.Error(err)
	}
	q.memory.AssertSize(t, 0)
}

func (q *quirks) DatabaseOptions() map[string]string {
	return map[string]string{
		adbc.OptionKeyURI:                os.Getenv("LANCE_FLIGHT_URI"),
		flightsql.OptionCookieMiddleware: adbc.OptionValueEnabled,
	}
}

func (q *quirks) BindParameter(int) string                    { return "?" }
func (q *quirks) SupportsBulkIngest(string) bool              { return true }
func (q *quirks) SupportsConcurrentStatements() bool          { return true }
func (q *quirks) SupportsCurrentCatalogSchema() bool          { return true }
func (q *quirks) SupportsGetSetOptions() bool                 { return true }
func (q *quirks) SupportsExecuteSchema() bool                 { return true }
func (q *quirks) SupportsPartitionedData() bool               { return true }
func (q *quirks) SupportsStatistics() bool                    { return false }
func (q *quirks) SupportsTransactions() bool                  { return true }
func (q *quirks) SupportsGetParameterSchema() bool            { return true }
func (q *quirks) SupportsDynamicParameterBinding() bool       { return true }
func (q *quirks) SupportsErrorIngestIncompatibleSchema() bool { return true }
func (q *quirks) Catalog() string                             { return "lance" }
func (q *quirks) DBSchema() string                            { return "public" }
func (q *quirks) Alloc() memory.Allocator                     { return q.memory }

func (q *quirks) GetMetadata(code adbc.InfoCode) any {
	switch code {
	case adbc.InfoDriverName:
		return "ADBC Flight SQL Driver - Go"
	case adbc.InfoDriverVersion: // is set by the build of the shared library
		return "(unknown or development build)"
	case adbc.InfoDriverArrowVersion:
		return "v" + arrow.PkgVersion
	case adbc.InfoDriverADBCVersion:
		return adbc.AdbcVersion1_1_0
	case adbc.InfoVendorName:
		return "lance-flight"
	case adbc.InfoVendorVersion:
		return os.Getenv("LANCE_FLIGHT_VERSION")
	case adbc.InfoVendorArrowVersion:
		return os.Getenv("LANCE_FLIGHT_ARROW_VERSION")
	}
	return nil
}

// SampleTableSchemaMetadata is what GetTables says of a column beyond its type.
func (q *quirks) SampleTableSchemaMetadata(table string, kind arrow.DataType) arrow.Metadata {
	described := map[string]string{
		fsql.CatalogNameKey: q.Catalog(), "ARROW:FLIGHT:SQL:DB_SCHEMA_NAME": q.DBSchema(), fsql.SchemaNameKey: q.DBSchema(), fsql.TableNameKey: table,
		fsql.IsAutoIncrementKey: "0", fsql.IsReadOnlyKey: "0", fsql.IsSearchableKey: "1",
	}
	if kind.ID() == arrow.STRING {
		described[fsql.TypeNameKey], described[fsql.IsCaseSensitiveKey] = "VARCHAR", "1"
	} else {
		described[fsql.TypeNameKey], described[fsql.IsCaseSensitiveKey] = "BIGINT", "0"
		described[fsql.PrecisionKey], described[fsql.ScaleKey] = "19", "0"
	}
	return arrow.MetadataFrom(described)
}

func (q *quirks) CreateSampleTable(name string, rows arrow.RecordBatch) error {
	return connected(func(c adbc.Connection) error {
		reader, err := array.NewRecordReader(rows.Schema(), []arrow.RecordBatch{rows})
		if err != nil {
			return err
		}
		defer reader.Release()
		_, err = with(c, func(s adbc.Statement) (any, error) {
			must(s.SetOption(adbc.OptionKeyIngestTargetTable, name))
			must(s.BindStream(ctx, reader))
			return s.ExecuteUpdate(ctx)
		})
		return err
	})
}

func (q *quirks) DropTable(c adbc.Connection, name string) error {
	_, err := update(c, fmt.Sprintf(`DROP TABLE IF EXISTS "%s"`, name))
	return err
}

// connected uses a connection of its own, whose memory is not that of the driver under test.
func connected(use func(adbc.Connection) error) error {
	database, err := flightsql.NewDriver(memory.DefaultAllocator).NewDatabase((&quirks{}).DatabaseOptions())
	if err != nil {
		return err
	}
	c, err := database.Open(ctx)
	if err != nil {
		return errors.Join(err, database.Close())
	}
	return errors.Join(use(c), c.Close(), database.Close())
}
