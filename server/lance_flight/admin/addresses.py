"""Formatting of addresses in URLs."""


def bracket_host(host: str) -> str:
    """Return a host as it is written before a port, with IPv6 addresses in brackets.

    >>> bracket_host("::1"), bracket_host("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host else host
