"""What can go wrong on the client's side of the wire."""


class ServerError(Exception):
    """What a server answered instead of a result, or that none answered."""


class JobFailed(Exception):
    """A job of Spark's that failed; `code` is that of the error that a task or the driver's writer met."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
