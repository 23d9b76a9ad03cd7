"""`python -m lance_flight_client.spark.connector`: the process that plans for a JVM, in lines of JSON until its input ends."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TextIO

from lance_flight_client.spark.connector import jvm
from lance_flight_client.spark.connector.jvm import failure
from lance_flight_client.spark.connector.methods import METHODS

_THREADS = 16


def answer_request(line: str) -> dict[str, Any]:
    """Return the answer to a request: its number with a result, or with the code and message of an error."""
    request = json.loads(line)
    try:
        return {"id": request["id"], "result": METHODS[request["method"]](request["arguments"])}
    except Exception as exc:  # noqa: BLE001 - the one who asked waits, and is told whatever it was
        return {"id": request["id"], "error": failure(exc)}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests as they come, several at a time."""
    lock = Lock()

    def answer(line: str) -> None:
        text = json.dumps(answer_request(line))
        with lock:
            print(text, file=answers, flush=True)

    with ThreadPoolExecutor(_THREADS) as pool:
        for line in requests:
            pool.submit(answer, line)


def main() -> None:
    """Serve standard input; what else is printed goes to standard error, so that answers stay alone."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin, answers)
    jvm.close()
    # Nobody reads what would still be answered.
    os._exit(0)


if __name__ == "__main__":
    main()
