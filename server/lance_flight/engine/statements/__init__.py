"""The statements of this server: how each is read, what it needs, and which rows or changes it becomes."""
