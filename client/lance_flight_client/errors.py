"""Errors that the client raises."""


class ServerError(Exception):
    """Error that a server answered instead of a result, or failure to reach a server."""


class JobFailed(Exception):
    """A job of Spark's that failed; `code` is that of the error that a task or the driver's writer met."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
