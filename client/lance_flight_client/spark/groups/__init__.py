"""Groups of partition tables that one task joins or aggregates: matched, planned as a source of Spark's, and worked on."""
