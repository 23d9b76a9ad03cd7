"""A program that calls a console over HTTP, and is no browser."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lance_flight_client.console.answering import CHANGE_HEADER

from tests.console.conftest import Console


@dataclass
class Client:
    """Calls a console as a program that is no browser."""

    console: Console
    cookie: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def netloc(self) -> str:
        return urlsplit(self.console.base).netloc

    def call(
        self, path: str, method: str = "GET", body: str | None = None, headers: Mapping[str, str | None] | None = None
    ) -> tuple[int, Mapping[str, str], str]:
        connection = http.client.HTTPConnection(self.netloc, timeout=30)
        given: dict[str, str | None] = {"Host": self.netloc, "Cookie": self.cookie}
        if method != "GET":
            given |= {"Origin": f"http://{self.netloc}", CHANGE_HEADER: "1", "Content-Type": "application/json"}
        given |= headers or {}
        connection.request(method, path, body, {name: value for name, value in given.items() if value is not None})
        answer = connection.getresponse()
        said = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        connection.close()
        return said

    def enter(self) -> Client:
        status, headers, _ = self.call("/?" + urlsplit(self.console.running.address).query)
        assert status == 303
        self.cookie = headers["set-cookie"].partition(";")[0]
        return self
