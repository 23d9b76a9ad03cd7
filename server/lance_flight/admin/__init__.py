"""Administration of a server: health, readiness, metrics, logs and traces."""
