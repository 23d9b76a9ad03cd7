"""Words and clauses of other systems, each written in the SQL that DataFusion reads."""
