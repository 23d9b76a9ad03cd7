"""Flight SQL service: decodes commands, dispatches them to a backend, and streams Arrow batches."""
