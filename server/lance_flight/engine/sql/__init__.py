"""SQL as text: tokens, the cursor that our own statements are read with, and what is done to a query before DataFusion sees it."""
