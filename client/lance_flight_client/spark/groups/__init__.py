"""Groups of partition tables that one task joins or aggregates: matched, planned by the driver, and worked on by tasks."""
