"""Serving of the console, and of the tools of an assistant, until a signal ends it."""

from __future__ import annotations

import argparse
import importlib
import ipaddress
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lance_flight.config import ServerConfig
from lance_flight.connections import bracket_host
from lance_flight.errors import InvalidInput, Unsupported
from lance_flight.flight.authentication import heading
from lance_flight.flight.passwords import hash_of, make_token
from lance_flight.threads import SignalEvent

from lance_flight_client.adbc import Credentials, connect, execute
from lance_flight_client.cli.connecting import ChosenServer
from lance_flight_client.errors import ServerError

_LONGEST_TIMEOUT = 86_400
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9a-fA-F:]+")


def serve_console(options: argparse.Namespace) -> int:
    """Serve the console until an interrupt."""
    check_listening(options)
    check_limits(options)
    server = ChosenServer.of(options)
    credentials = None if options.login else server.credentials
    if credentials is not None:
        try:
            with server.naming(), server.connect() as connection:
                execute(connection, "SELECT 1")
        except ServerError as exc:
            if not any(sign in str(exc) for sign in ("[unauthenticated]", "rejected the credentials")):
                raise
            credentials = None
    serving = console_library()
    given = serving.ConsoleOptions(
        uri=server.address,
        credentials=credentials,
        host=options.host,
        port=options.port,
        hosts=options.allow_host,
        certificate=options.https_certificate,
        key=options.https_key,
        writes=options.writes,
        limits=serving.ConsoleLimits(options.max_rows, options.timeout),
    )
    stop = SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with _listening(serving, given) as console:
        print(f"The console of {server.address}: {console.address}", flush=True)
        stop.wait()
    return 0


@contextmanager
def _listening(serving: Any, options: Any) -> Iterator[Any]:
    """Run a console; `InvalidInput` where it cannot listen there, or cannot read its certificate."""
    with ExitStack() as stack:
        try:
            console = stack.enter_context(serving.running(options, announce_address))
        except (OSError, OverflowError) as exc:
            where = f"{options.host}, port {options.port}"
            raise InvalidInput(f"the console cannot listen on {where}: {exc}; expected others, or --port 0") from exc
        yield console


def announce_address(address: str) -> None:
    """Print the address for a further browser."""
    print(f"For another browser: {address}", flush=True)


def console_library() -> Any:
    """Return the module that serves the console; `Unsupported` where the extra is not installed."""
    try:
        return importlib.import_module("lance_flight_client.console.app")
    except ImportError as exc:
        raise Unsupported(
            f"the console needs {exc.name}, which is not installed here; install lance-flight[console]"
        ) from exc


def check_limits(options: argparse.Namespace) -> None:
    """Refuse limits of rows and seconds that no statement can have."""
    if options.max_rows < 1:
        raise InvalidInput(f"--max-rows is {options.max_rows}; expected 1 or more")
    if not 0 < options.timeout <= _LONGEST_TIMEOUT:
        raise InvalidInput(
            f"--timeout is {options.timeout:g}; expected more than 0 and at most {_LONGEST_TIMEOUT} seconds"
        )


def check_listening(options: argparse.Namespace) -> None:
    """Refuse an address beyond this machine without a certificate."""
    if (options.https_certificate is None) != (options.https_key is None):
        raise InvalidInput("--https-certificate and --https-key belong together; expected both or none")
    if not all(_HOST.fullmatch(name) for name in options.allow_host):
        raise InvalidInput(f"--allow-host is {', '.join(options.allow_host)!r}; expected names of hosts, without ports")
    try:
        is_near = options.host == "localhost" or ipaddress.ip_address(options.host).is_loopback
    except ValueError:
        is_near = False
    if not is_near and options.https_certificate is None:
        raise InvalidInput(
            f"--host is {options.host!r}, which other machines reach; expected --https-certificate and --https-key with it"
        )


def serve_mcp(options: argparse.Namespace) -> int:
    """Serve the tools until the assistant ends the command, or a signal does."""
    check_limits(options)
    if options.max_characters < 1:
        raise InvalidInput(f"--max-characters is {options.max_characters}; expected 1 or more")
    check_listening(options)
    if options.port is not None and (options.user is not None or options.token_file is not None):
        raise InvalidInput(
            "--user and --token-file are of one caller, and --port is for several; expected none of them"
        )
    library = _library()
    with _server_of(options) as server:
        return _serve(options, server, library)


@contextmanager
def _server_of(options: argparse.Namespace) -> Iterator[ChosenServer]:
    """Yield the server that options name, or one over `--root` in this process, which only this process has a token for."""
    if options.root is None:
        yield ChosenServer.of(options)
        return
    given = [name for name in ("uri", "user", "token_file", "profile", "port") if getattr(options, name) is not None]
    if given:
        raise InvalidInput(f"--root and --{given[0].replace('_', '-')} were given; expected one of them")
    service, token = importlib.import_module("lance_flight.serving.service"), make_token()
    with TemporaryDirectory() as place:
        tokens = Path(place) / "tokens.toml"
        tokens.write_text(f'{heading("tokens", _ASSISTANT)}\nsha256 = "{hash_of(token)}"\n')
        built = service.build(options.root, ServerConfig(port=0, tokens_file=str(tokens)))
    try:
        yield ChosenServer(built.server.uri, Credentials(token=token))
    finally:
        built.doors.stop()
        built.server.shutdown()


_ASSISTANT = "assistant"
"""Principal of the tools over a root without a server."""


def _serve(options: argparse.Namespace, server: ChosenServer, library: Any) -> int:
    given = library.McpOptions(
        uri=server.address,
        credentials=server.credentials,
        most_rows=options.max_rows,
        most_characters=options.max_characters,
        seconds=options.timeout,
        writes=options.writes,
    )
    if options.port is None:
        with server.naming(), server.connect() as connection:
            execute(connection, "SELECT 1")
        library.server_of(given).run("stdio")
        return 0
    try:
        library.serve_http(
            given,
            host=options.host,
            port=options.port,
            hosts=options.allow_host,
            needs_token=_needs_token(server),
            certificate=options.https_certificate,
            key=options.https_key,
            started=lambda port: print(f"Tools of {server.address}: {_address(options, port)}", flush=True),
        )
    except (OSError, OverflowError, SystemExit) as exc:
        where = f"{options.host}, port {options.port}"
        raise InvalidInput(f"the tools cannot be served at {where}: {exc}; expected others, or --port 0") from exc
    return 0


def _needs_token(server: ChosenServer) -> bool:
    """Return whether the server refuses callers without a credential; one that does not answer yet may."""
    try:
        with connect(server.address) as connection:
            execute(connection, "SELECT 1")
    except ServerError:
        return True
    return False


def _address(options: argparse.Namespace, port: int) -> str:
    return f"http{'' if options.https_certificate is None else 's'}://{bracket_host(options.host)}:{port}/mcp"


def _library() -> Any:
    """Return the module of the tools; `Unsupported` where the extra is not installed."""
    try:
        return importlib.import_module("lance_flight_client.mcp")
    except ImportError as exc:
        raise Unsupported(f"the tools need {exc.name}, which is not installed here; install lance-flight[mcp]") from exc
