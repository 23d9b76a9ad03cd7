"""What can go wrong on the client's side of the wire."""


class ServerError(Exception):
    """What a server answered instead of a result, or that none answered."""
