"""Formatting of addresses in URLs."""


def bracketed(host: str) -> str:
    """Return a host as it is written before a port, with IPv6 addresses in brackets.

    >>> bracketed("::1"), bracketed("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host else host
