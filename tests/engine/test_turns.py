"""Turns of statements: how many work, who comes next, and who is refused."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from lance_flight.engine.runtime.admission import AdmissionQueue, AdmissionSlot, Quota, Resource
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.errors import Cancelled, LimitExceeded, QuotaExceeded


def turn(
    turns: AdmissionQueue,
    principal: str = "alice",
    session: str = "a",
    cancellation: Cancellation | None = None,
    quotas: Sequence[Quota] = (),
) -> AdmissionSlot:
    return AdmissionSlot(turns, principal, session, cancellation or Cancellation(), quotas)


class Waiting:
    """Somebody who waits for a turn on a thread of his own, and notes when he got it."""

    def __init__(
        self, turns: AdmissionQueue, principal: str, session: str, served: list[str], quotas: Sequence[Quota] = ()
    ) -> None:
        self.turn = turn(turns, principal, session, quotas=quotas)
        self.error: Exception | None = None
        self._served = served
        before = waiting(turns)
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()
        until_waiting(turns, before + 1)

    def _wait(self) -> None:
        try:
            self.turn.take(is_new=True)
        except Cancelled as error:
            self.error = error
        else:
            self._served.append(f"{self.turn.holder}/{self.turn.session}")

    def join(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()


def waiting(turns: AdmissionQueue) -> int:
    return len(turns._queue)


def until_waiting(turns: AdmissionQueue, number: int) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if waiting(turns) == number:
            return
        pause.wait(0.005)
    pytest.fail(f"{waiting(turns)} wait; expected {number}")


ORDERS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "one after another": (["alice/a", "alice/a"], ["alice/a", "alice/a"]),
    "principals in turn": (
        ["alice/a", "alice/a", "alice/a", "bob/b", "carol/c"],
        ["alice/a", "bob/b", "carol/c", "alice/a", "alice/a"],
    ),
    "sessions in turn": (["alice/a", "alice/a", "alice/x"], ["alice/a", "alice/x", "alice/a"]),
    "principals before sessions": (
        ["alice/a", "alice/x", "alice/y", "bob/b", "bob/b"],
        ["alice/a", "bob/b", "alice/x", "bob/b", "alice/y"],
    ),
}


@pytest.mark.parametrize(("asked", "expected"), ORDERS.values(), ids=ORDERS.keys())
def test_those_who_wait_are_served_in_turn(asked: Sequence[str], expected: Sequence[str]) -> None:
    turns, served = AdmissionQueue(1, 100), list[str]()
    first = turn(turns, "first", "first")
    first.take(is_new=True)
    queue = [Waiting(turns, *name.split("/"), served) for name in asked]
    first.leave()
    while len(served) < len(asked):
        (working,) = [each for each in queue if each.turn._is_held] or [None]
        if working is not None:
            working.turn.leave()
            working.join()
    assert served == expected


def test_no_more_work_than_may() -> None:
    turns = AdmissionQueue(2, 0)
    one, two, three = (turn(turns, name) for name in ("alice", "bob", "carol"))
    one.take(is_new=True)
    two.take(is_new=True)
    with pytest.raises(LimitExceeded, match=r"2 statements are at work, of 2 \(running_statements\), and 0 wait, of 0"):
        three.take(is_new=True)
    one.leave()
    three.take(is_new=True)


def test_a_queue_with_other_bounds_admits_who_waits_and_ends_nobody() -> None:
    turns, served = AdmissionQueue(1, 1), list[str]()
    first = turn(turns)
    first.take(is_new=True)
    second = Waiting(turns, "bob", "b", served)
    turns.resize(2, 0)
    second.join()
    assert served == ["bob/b"]
    with pytest.raises(LimitExceeded, match="2 statements are at work, of 2"):
        turn(turns).take(is_new=True)
    turns.resize(1, 0)
    first.leave()
    with pytest.raises(LimitExceeded, match="1 statements are at work, of 1"):
        turn(turns).take(is_new=True)
    second.turn.leave()
    turn(turns).take(is_new=True)


def test_whoever_waits_for_his_client_lets_others_work() -> None:
    turns = AdmissionQueue(1, 0)
    slow, other = turn(turns), turn(turns)
    slow.take(is_new=True)
    with slow.pause():
        other.take(is_new=True)
        other.leave()
    with pytest.raises(LimitExceeded):
        other.take(is_new=True)


def test_a_turn_that_failed_while_it_was_paused_is_given_up_once() -> None:
    turns = AdmissionQueue(1, 0)
    slow = turn(turns)
    slow.take(is_new=True)
    with pytest.raises(OSError, match="gone"), slow.pause():
        raise OSError("gone")
    slow.leave()
    turn(turns).take(is_new=True)
    with pytest.raises(LimitExceeded):
        turn(turns).take(is_new=True)


def test_who_is_cancelled_waits_no_longer_and_takes_no_turn() -> None:
    turns, served = AdmissionQueue(1, 10), list[str]()
    first = turn(turns)
    first.take(is_new=True)
    cancelled, patient = (Waiting(turns, name, name, served) for name in ("alice", "bob"))
    cancelled.turn.cancellation.cancel(lambda: Cancelled("over"))
    cancelled.join()
    assert isinstance(cancelled.error, Cancelled)
    first.leave()
    patient.join()
    assert served == ["bob/bob"]


def test_a_turn_is_kept_until_work_that_was_given_up_has_ended() -> None:
    turns, ended, is_free = AdmissionQueue(1, 0), threading.Event(), threading.Event()
    first = turn(turns)
    first.take(is_new=True)
    with pytest.raises(TimeoutError):
        first.cancellation.run_in_thread(ended.wait, seconds=0.01)
    first.leave()
    with pytest.raises(LimitExceeded):
        turn(turns).take(is_new=True)
    first.cancellation.after_abandoned(is_free.set)
    ended.set()
    is_free.wait()
    turn(turns).take(is_new=True)


ONE, TWO = (Quota(role=f"at most {most}", resource=Resource.STATEMENTS, limit=most) for most in (1, 2))


def test_who_has_used_up_a_quota_waits_and_lets_others_work() -> None:
    turns, served = AdmissionQueue(3, 100), list[str]()
    first = turn(turns, quotas=[ONE])
    first.take(is_new=True)
    same_role = Waiting(turns, "bob", "b", served, [ONE])
    other = turn(turns, "carol", "c", quotas=[TWO])
    other.take(is_new=True)
    other.leave()
    assert served == []
    first.leave()
    same_role.join()
    assert served == ["bob/b"]
    assert turns.running == {ONE.account: 1}
    same_role.turn.leave()
    assert turns.running == {}


def test_the_next_of_the_queue_is_passed_by_while_its_quota_is_used_up() -> None:
    turns, served = AdmissionQueue(2, 100), list[str]()
    limited, free = turn(turns, quotas=[ONE]), turn(turns, "dora", "d")
    limited.take(is_new=True)
    free.take(is_new=True)
    waits_for_quota = Waiting(turns, "bob", "b", served, [ONE])
    waits_for_slot = Waiting(turns, "carol", "c", served)
    free.leave()
    waits_for_slot.join()
    limited.leave()
    waits_for_quota.join()
    assert served == ["carol/c", "bob/b"]


def test_who_gives_up_waiting_for_a_quota_uses_nothing_of_it() -> None:
    turns, served = AdmissionQueue(2, 100), list[str]()
    first = turn(turns, quotas=[ONE])
    first.take(is_new=True)
    impatient = Waiting(turns, "bob", "b", served, [ONE])
    impatient.turn.cancellation.cancel(lambda: Cancelled("over"))
    impatient.join()
    first.leave()
    assert turns.running == {}
    turn(turns, quotas=[ONE]).take(is_new=True)


def test_those_who_wait_for_one_quota_leave_room_in_the_queue() -> None:
    turns, served = AdmissionQueue(2, 8), list[str]()
    first = turn(turns, quotas=[ONE])
    first.take(is_new=True)
    waiting_for_it = [Waiting(turns, name, name, served, [ONE]) for name in ("bob", "carol")]
    with pytest.raises(QuotaExceeded, match=r"role 'at most 1' has a quota of statements = 1.*2 wait"):
        turn(turns, "dora", "d", quotas=[ONE]).take(is_new=True)
    slot = turn(turns, "erin", "e")
    slot.take(is_new=True)
    other = Waiting(turns, "fay", "f", served)
    for each in (slot, first):
        each.leave()
    for waiter in (other, waiting_for_it[0]):
        waiter.join()
        waiter.turn.leave()
    waiting_for_it[1].join()
    assert sorted(served) == ["bob/bob", "carol/carol", "fay/f"]


def test_one_holder_leaves_turns_and_places_in_the_queue_to_others() -> None:
    """Of 8 turns the first one has 6, and others what is left; of 8 places in the queue likewise."""
    turns, served = AdmissionQueue(8, 8), list[str]()
    for _ in range(6):
        turn(turns).take(is_new=True)
    queued = [Waiting(turns, "alice", "a", served) for _ in range(6)]
    with pytest.raises(LimitExceeded, match=r"6 statements of 'alice' wait, and 6 of all, of 8 \(waiting_statements\)"):
        turn(turns).take(is_new=True)
    bob, carol = turn(turns, "bob"), turn(turns, "carol")
    bob.take(is_new=True)
    carol.take(is_new=True)
    late = Waiting(turns, "dora", "d", served)
    bob.leave()
    late.join()
    assert served == ["dora/d"], "who has least comes first, however long others have waited"
    for each in queued:
        each.turn.cancellation.cancel(lambda: Cancelled("over"))
        each.join()
