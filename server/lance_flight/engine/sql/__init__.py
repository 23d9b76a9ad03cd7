"""SQL as text: tokens, the cursor that parses the server's own statements, and the rewrites of queries for DataFusion."""
