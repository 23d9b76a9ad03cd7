"""Serving: the supervising parent with its servers and HAProxy, and what a server process is put together of."""
