"""Addresses as they stand in URLs."""


def bracketed(host: str) -> str:
    """A host as it stands before a port.

    >>> bracketed("::1"), bracketed("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host else host
