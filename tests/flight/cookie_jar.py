"""The cookies of a Flight client, as drivers keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyarrow import flight


class CookieJar(flight.ClientMiddlewareFactory):  # type: ignore[misc]
    """Sends the cookies that were given, on every connection that uses it; `given` counts answers with a new one."""

    def __init__(self, cookies: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.cookies = dict(cookies or {})
        self.given = 0

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        """One call."""
        return _Call(self)


class _Call(flight.ClientMiddleware):  # type: ignore[misc]
    def __init__(self, jar: CookieJar) -> None:
        super().__init__()
        self._jar = jar

    def sending_headers(self) -> dict[str, str]:
        held = self._jar.cookies
        return {"cookie": "; ".join(f"{name}={value}" for name, value in held.items())} if held else {}

    def received_headers(self, headers: Mapping[str, Sequence[str]]) -> None:
        for text in headers.get("set-cookie", ()):
            pair, *attributes = text.split(";")
            name, _, value = pair.strip().partition("=")
            if any(attribute.strip().lower() == "max-age=0" for attribute in attributes):
                self._jar.cookies.pop(name, None)
            else:
                self._jar.cookies[name] = value
                self._jar.given += 1
