"""Translation of Spark's errors of a failed job into one line.

Our own errors are raised in processes that Spark starts, and arrive as the text of a traceback within its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lance_flight import errors
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lance_flight_client.errors import JobFailed

OTHER = "spark"
"""The code of an error that is not one of ours."""

_OURS = re.compile(rf"^{re.escape(errors.__name__)}\.(?P<name>\w+): (?P<message>.+)$", re.MULTILINE)
_CAUSES = re.compile(r"^(?::|Caused by:) [\w.$]+: (?P<message>.+)$", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+(; line \d+ pos \d+;?)?\s*$")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise errors of Spark as `JobFailed`: ours with the code that they have, all else with `OTHER`."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as exc:
        raise failure(str(exc)) from exc


def failure(text: str) -> JobFailed:
    r"""Return what an error of Spark with this text comes to.

    >>> error = failure("Traceback …\nlance_flight.errors.NotFound: no table 'fligths'\n\nDriver stacktrace: …")
    >>> error.code, str(error)
    ('not_found', "no table 'fligths'")
    >>> str(failure("An error occurred\n: a.b.FailedRead: cannot read x.csv\n  at …\nCaused by: a.b.Malformed: [null,3]"))
    'cannot read x.csv; [null,3]'
    """
    # The last one is what the others led to.
    for found in reversed(list(_OURS.finditer(text))):
        kind = getattr(errors, found["name"], None)
        if isinstance(kind, type) and issubclass(kind, errors.LanceFlightError):
            return JobFailed(kind.code, found["message"])
    causes = [found["message"] for found in _CAUSES.finditer(text)]
    lines = dict.fromkeys(_STATE.sub("", line).rstrip(".") for line in causes or text.strip().splitlines()[:1])
    return JobFailed(OTHER, "; ".join(lines) or "Spark does not say why")
