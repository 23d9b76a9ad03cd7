"""Tables as DataFusion reads them: stored ones, pruned and read in lanes, and those that are computed."""
