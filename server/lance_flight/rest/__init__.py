"""The Lance REST catalog over the backend: what LanceDB's clients and `lance.namespace.RestNamespace` speak."""
