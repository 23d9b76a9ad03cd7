"""Work of many processes on one namespace, each of which does a piece."""
