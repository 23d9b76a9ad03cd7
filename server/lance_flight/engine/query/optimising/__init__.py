"""DataFusion within one statement: its context and its optimiser, plans that are built again, and the way from a plan to rows."""
