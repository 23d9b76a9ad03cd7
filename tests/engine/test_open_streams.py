"""What streams hold for their clients: it is counted as long as it is there, and given back when a stream is ended from beside it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from datafusion import SessionContext, udf
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.streams import STREAM_BYTES, HeldBytes, OpenStreams, cancellable
from lance_flight.errors import Cancelled, LimitExceeded

from tests.engine.waiting import until

ROWS = 1000
BATCH = pa.record_batch({"n": pa.array(range(ROWS), pa.int64())})


def partitions(count: int, batches: int) -> SessionContext:
    """A table in so many partitions, each of so many batches."""
    context = SessionContext()
    context.register_record_batches("t", [[BATCH] * batches for _ in range(count)])
    return context


def read(context: SessionContext, held: HeldBytes, sql: str = "SELECT n FROM t") -> Iterator[pa.RecordBatch]:
    return cancellable(lambda: context.sql(sql).execute_stream_partitioned(), Cancellation(), held)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_partition_is_read_to_its_end(count: int) -> None:
    held = HeldBytes()
    assert sum(batch.num_rows for batch in read(partitions(count, 3), held)) == count * 3 * ROWS
    assert held.size == 0


def test_what_partitions_compute_ahead_is_counted_until_the_reader_stops() -> None:
    held = HeldBytes()
    reading = read(partitions(4, 5), held)
    next(reading)
    assert held.size == 4 * BATCH.nbytes, "each of them is at its next batch"
    reading.close()  # type: ignore[attr-defined]
    assert held.size == 0


def test_a_slow_reader_has_no_more_ahead_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_flight.engine.runtime.streams.AHEAD_BYTES", 2 * BATCH.nbytes)
    computed: list[pa.Array] = []

    def noted(numbers: pa.Array) -> pa.Array:
        computed.append(numbers)
        return numbers

    context, held, ahead = partitions(6, 20), HeldBytes(), list[int]()
    context.register_udf(udf(noted, [pa.int64()], pa.int64(), "volatile", "noted"))
    reading = read(context, held, "SELECT noted(n) AS n FROM t")
    for taken in range(1, 61):
        next(reading)
        until(lambda taken=taken: len(computed) - taken >= held.size // BATCH.nbytes)
        ahead.append(held.size // BATCH.nbytes)
    assert (ahead[0], ahead[-1] <= 2) == (6, True)


def test_an_error_of_one_partition_ends_all() -> None:
    held = HeldBytes()
    with pytest.raises(Exception, match="Divide by zero"):
        list(read(partitions(3, 2), held, "SELECT 1 / (n - 5) AS x FROM t"))
    assert held.size == 0


def test_a_cancelled_reader_is_woken() -> None:
    cancellation, held = Cancellation(), HeldBytes()
    context = SessionContext()
    sql = "SELECT count(*) FROM generate_series(1, 1000000) a CROSS JOIN generate_series(1, 1000000) b"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            lambda: list(cancellable(lambda: context.sql(sql).execute_stream_partitioned(), cancellation, held))
        )
        cancellation.cancel(lambda: Cancelled("enough"))
        with pytest.raises(Cancelled, match="enough"):
            waiting.result()


def endless(ended: list[type[BaseException]]) -> Generator[pa.RecordBatch]:
    """Batches without an end, which note what ends them."""
    try:
        while True:
            yield BATCH
    except BaseException as error:
        ended.append(type(error))
        raise


def messages(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    yield from (batch.slice(0, 10) for batch in batches)


class Opened:
    """A stream of which the client has one message."""

    def __init__(self, streams: OpenStreams) -> None:
        self.ended: list[type[BaseException]] = []
        self.cancellation = Cancellation()
        batches = endless(self.ended)
        self.sent = streams.open(batches, streams.held.part(), self.cancellation).send(messages(batches))
        next(self.sent)


def test_a_stream_counts_the_batch_of_which_its_client_has_a_part() -> None:
    streams = OpenStreams()
    opened = Opened(streams)
    assert (len(streams), streams.held.size) == (1, STREAM_BYTES + BATCH.nbytes)
    opened.sent.close()  # type: ignore[attr-defined]
    assert (len(streams), streams.held.size, opened.ended) == (0, 0, [GeneratorExit])


def test_the_query_of_a_client_that_takes_nothing_is_ended_and_its_message_stays_counted() -> None:
    streams = OpenStreams(Limits(stream_idle_timeout=1e-9))
    opened = Opened(streams)
    streams.watch()
    until(lambda: opened.ended == [LimitExceeded])
    assert streams.held.size == STREAM_BYTES + BATCH.nbytes
    with pytest.raises(LimitExceeded, match=r"the client has taken no rows for 1e-09 seconds \(stream_idle_timeout\)"):
        next(opened.sent)
    assert (len(streams), streams.held.size) == (0, 0)


def test_a_query_that_is_cancelled_ends_whatever_its_client_does() -> None:
    streams = OpenStreams()
    opened = Opened(streams)
    opened.cancellation.cancel(lambda: Cancelled("enough"))
    streams.watch()
    until(lambda: opened.ended == [Cancelled])
    with pytest.raises(Cancelled, match="enough"):
        next(opened.sent)


def test_clients_that_take_rows_are_left_alone() -> None:
    streams = OpenStreams(Limits(stream_idle_timeout=60))
    opened = Opened(streams)
    streams.watch()
    assert next(opened.sent).num_rows == 10
    assert opened.ended == []


def test_a_stream_whose_rows_are_all_made_is_left_to_its_client() -> None:
    streams = OpenStreams(Limits(stream_idle_timeout=1e-9))
    batches = (batch for batch in [BATCH])
    sent = streams.open(batches, streams.held.part(), Cancellation()).send(messages(list(batches)))
    next(sent)
    streams.watch()
    assert list(sent) == []


def test_a_new_stream_waits_for_room_and_is_woken_by_its_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_flight.engine.runtime.streams.QUEUE_SECONDS", 60)
    streams = OpenStreams(Limits(stream_memory=1))
    opened = Opened(streams)
    cancellation = Cancellation()
    with ThreadPoolExecutor(2) as pool:
        cancelled = pool.submit(streams.wait_for_room, cancellation)
        cancellation.cancel(lambda: Cancelled("enough"))
        with pytest.raises(Cancelled, match="enough"):
            cancelled.result()
        admitted = pool.submit(streams.wait_for_room, Cancellation())
        opened.sent.close()  # type: ignore[attr-defined]
        until(lambda: streams.watch() or admitted.done())
        admitted.result()


def test_there_is_room_again_under_other_limits() -> None:
    streams = OpenStreams(Limits(stream_memory=1, waiting_statements=0))
    _opened = Opened(streams)
    with pytest.raises(
        LimitExceeded, match=r"1 open streams hold \d+ bytes that .* not taken, \d+ of them for 'anonymous', of 1 \("
    ):
        streams.wait_for_room(Cancellation())
    streams.apply(Limits(stream_memory=1 << 30))
    streams.wait_for_room(Cancellation())
