"""SQL as text: tokens and their places, the cursor that parses the statements of the server, references, and bounds of a text."""
