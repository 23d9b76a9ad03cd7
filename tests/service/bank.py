"""A bank whose money moves between partitions, in several ways, under readers that count it."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import cycle, islice

import pyarrow as pa
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.selection import IS_FULL
from tests.service.server_process import Server

WRITERS, READERS, TRANSFERS = (8, 8, 40) if IS_FULL else (5, 2, 3)
ACCOUNTS, BRANCHES, START = 24, 6, 1000
TOTAL = ACCOUNTS * START
AGAIN = ("[conflict]", "[serialization_failure]")
TOTALS = "SELECT sum(balance) AS total, count(*) AS accounts, count(DISTINCT id) AS ids FROM {}"


def open_bank(server: Server, table: str) -> None:
    """Accounts, spread over branches."""
    ids = range(ACCOUNTS)
    data = {"id": ids, "branch": [f"branch {n % BRANCHES}" for n in ids], "balance": [START] * ACCOUNTS}
    server.ingest(table, pa.table({name: list(values) for name, values in data.items()}), partition_by="branch")


def in_one_statement(uri: str, table: str, source: int, target: int, amount: int) -> None:
    """Move money with one UPDATE of both accounts."""
    with closing(dbapi.connect(uri, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET balance = balance + CASE id WHEN {source} THEN -{amount} ELSE {amount} END"
            f" WHERE id IN ({source}, {target})"
        )


def in_a_transaction(uri: str, table: str, source: int, target: int, amount: int) -> None:
    """Move money with an UPDATE of each account, and look at the total in between."""
    connection = dbapi.connect(uri)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET balance = balance - {amount} WHERE id = {source}")
            cursor.execute(f"SELECT sum(balance) FROM {table}")
            assert cursor.fetchone() == (TOTAL - amount,), "a transaction sees its own changes, and no others"
            cursor.execute(f"UPDATE {table} SET balance = balance + {amount} WHERE id = {target}")
        connection.commit()
    finally:
        with suppress(Error):
            connection.close()


def in_a_changed_branch(uri: str, table: str, source: int, target: int, amount: int) -> None:
    """Move money, and one of the accounts to another partition."""
    with closing(dbapi.connect(uri, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET balance = balance + CASE id WHEN {source} THEN -{amount} ELSE {amount} END,"
            f" branch = CASE id WHEN {source} THEN 'branch {amount}' ELSE branch END WHERE id IN ({source}, {target})"
        )


def check_that_no_reader_finds_a_wrong_total(
    servers: list[Server], table: str, move: Callable[[str, str, int, int, int], None], say: Callable[[str], None]
) -> None:
    """Move money with many writers, and fail where any reader sees some of it missing or there twice."""
    open_bank(servers[0], table)
    still_moving = threading.Event()
    still_moving.set()

    def write(number: int, uri: str) -> tuple[Counter[int], int]:
        """What was acknowledged to this writer, and how often it had to try again."""
        chance, moved, again = random.Random(number), Counter[int](), 0  # noqa: S311 - any accounts will do
        for _ in range(TRANSFERS):
            source, target = chance.sample(range(ACCOUNTS), 2)
            amount = chance.randint(1, 9)
            while not done(
                lambda source=source, target=target, amount=amount: move(uri, table, source, target, amount)
            ):
                again += 1
            moved.update({target: amount})
            moved.subtract({source: amount})
        return moved, again

    def read(uri: str) -> list[tuple[int, int, int]]:
        """Every total that was seen while money moved, and one more."""
        with closing(dbapi.connect(uri, autocommit=True)) as connection, connection.cursor() as cursor:
            seen = []
            while still_moving.is_set() or not seen:
                cursor.execute(TOTALS.format(table))
                seen += cursor.fetchall()
            return seen

    uris = [server.uri for server in servers]
    with ThreadPoolExecutor(WRITERS + READERS) as pool:
        readers = [pool.submit(read, uri) for uri in islice(cycle(uris), READERS)]
        try:
            results = list(pool.map(write, range(WRITERS), islice(cycle(uris), WRITERS)))
        finally:
            still_moving.clear()
        seen = [total for reader in readers for total in reader.result()]
    wrong = [total for total in seen if total != (TOTAL, ACCOUNTS, ACCOUNTS)]
    say(
        f"bank, {len(servers)} servers, {move.__name__}: {WRITERS * TRANSFERS} transfers, tried again"
        f" {sum(again for _, again in results)} times; wrong totals {len(wrong)} of {len(seen)}"
    )
    assert wrong == []
    moved = Counter(dict.fromkeys(range(ACCOUNTS), START))
    for each, _ in results:
        moved.update(each)
    for server in servers:
        assert dict(server.rows(f"SELECT id, balance FROM {table}")) == dict(moved), "each transfer counts once"


def done(transfer: Callable[[], None]) -> bool:
    """Whether it was acknowledged; a client tries again what met another writer."""
    try:
        transfer()
    except Error as exc:
        if any(code in str(exc) for code in AGAIN):
            return False
        raise
    return True
