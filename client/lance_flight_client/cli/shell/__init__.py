"""The prompt of `lance-flight sql`: commands that begin with a backslash, completion, history, and results for people."""
