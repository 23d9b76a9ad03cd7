"""From the text of a query to its plan, in a session that the statement runs in."""
