"""The connector's Python that writes down what its JVM asks: `python -m tests.spark.recording LOG`.

It takes every predicate, so that Spark goes on to aggregates, and changes nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lance_flight_client.spark.connector import __main__ as connector
from lance_flight_client.spark.connector.jvm import Arguments
from lance_flight_client.spark.connector.methods import METHODS

Method = Callable[[Arguments], Any]

ANSWERS: dict[str, Method] = {
    "push_predicates": lambda given: ["whole"] * len(given["predicates"]),
    "push_aggregates": lambda _: None,
    "push_limit": lambda _: None,
    "can_delete": lambda _: True,
    "delete_where": lambda _: None,
    "create_table": lambda _: None,
    "alter_table": lambda _: None,
}
"""Methods that are answered here, and whose arguments are kept."""


def main(log: Path) -> None:
    def kept(name: str, method: Method) -> Method:
        def answer(given: Arguments) -> Any:
            asked = {key: value for key, value in given.items() if key not in {"options", "handle"}}
            with log.open("a", encoding="utf-8") as file:
                print(json.dumps([name, asked]), file=file)
            return method(given)

        return answer

    connector.METHODS = {**METHODS, **{name: kept(name, method) for name, method in ANSWERS.items()}}  # type: ignore[assignment]
    connector.main()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
