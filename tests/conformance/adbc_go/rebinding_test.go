package main

import (
	"context"

	"github.com/apache/arrow-adbc/go/adbc"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The interfaces that the suite asks the driver's values for, beyond those by which the driver hands them out.
type (
	wholeConnection interface {
		adbc.Connection
		adbc.GetSetOptions
	}
	wholeStatement interface {
		adbc.Statement
		adbc.GetSetOptions
		adbc.StatementExecuteSchema
	}
	wholeDatabase interface {
		adbc.Database
		adbc.GetSetOptions
	}
)

// rebindingDriver is the published driver, with statements that do two things which its own leave undone (v1.12.0):
// `statement.SetSqlQuery` keeps the batch of an ingest, for which `ExecuteQuery` then refuses to run the SQL, and
// `statement.executeIngest` does not release the reader that it makes of that batch.
type rebindingDriver struct{ adbc.Driver }
type rebindingDatabase struct{ wholeDatabase }
type rebindingConnection struct{ wholeConnection }
type rebindingStatement struct {
	wholeStatement
	isIngest bool
}

func (d rebindingDriver) NewDatabase(options map[string]string) (adbc.Database, error) {
	database, err := d.Driver.NewDatabase(options)
	if err != nil {
		return nil, err
	}
	return rebindingDatabase{database.(wholeDatabase)}, nil
}

func (d rebindingDatabase) Open(ctx context.Context) (adbc.Connection, error) {
	connection, err := d.wholeDatabase.Open(ctx)
	if err != nil {
		return nil, err
	}
	return rebindingConnection{connection.(wholeConnection)}, nil
}

func (c rebindingConnection) NewStatement() (adbc.Statement, error) {
	statement, err := c.wholeConnection.NewStatement()
	if err != nil {
		return nil, err
	}
	return &rebindingStatement{wholeStatement: statement.(wholeStatement)}, nil
}

func (s *rebindingStatement) SetOption(key, value string) error {
	s.isIngest = s.isIngest || key == adbc.OptionKeyIngestTargetTable
	return s.wholeStatement.SetOption(key, value)
}

func (s *rebindingStatement) SetSqlQuery(query string) error {
	if s.isIngest {
		if err := s.wholeStatement.Bind(ctx, nil); err != nil {
			return err
		}
		s.isIngest = false
	}
	return s.wholeStatement.SetSqlQuery(query)
}

func (s *rebindingStatement) Bind(ctx context.Context, values arrow.RecordBatch) error {
	if !s.isIngest {
		return s.wholeStatement.Bind(ctx, values)
	}
	reader, err := array.NewRecordReader(values.Schema(), []arrow.RecordBatch{values})
	if err != nil {
		return err
	}
	defer reader.Release()
	return s.wholeStatement.BindStream(ctx, reader)
}
