"""Passwords: how they are stored, and that wrong ones cannot use up the machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.errors import InvalidInput, Unavailable
from lance_flight.flight.passwords import MOST_REMEMBERED, Cost, PasswordChecks, StoredPassword

from tests.engine.waiting import until
from tests.flight.identities import CHEAP

PATIENCE = 30.0


@given(password=st.text(st.characters(codec="utf-8")), other=st.text(st.characters(codec="utf-8")))
def test_a_stored_password_matches_itself_alone(password: str, other: str) -> None:
    stored = StoredPassword.parse(StoredPassword.of(password, CHEAP).text)
    assert stored.matches(password)
    assert stored.matches(other) is (other == password or ascii(other) == ascii(password))


def test_equal_passwords_are_stored_differently() -> None:
    assert StoredPassword.of("x", CHEAP).text != StoredPassword.of("x", CHEAP).text


def test_the_same_characters_match_however_they_are_typed() -> None:
    assert StoredPassword.of("p\u00e4ss", CHEAP).matches("pa\u0308ss")


def test_the_test_vector_of_the_rfc() -> None:
    # RFC 7914, section 12: "pleaseletmein", "SodiumChloride", N = 16384, r = 8, p = 1, of which the first 32 bytes.
    text = "scrypt$14$8$1$U29kaXVtQ2hsb3JpZGU=$cCO9yzr9c0hGbAbT/0yVbeE+RAZQ1xBnuKkBY6qwQPo="
    stored = StoredPassword(
        cost=Cost(log_n=14, r=8, p=1),
        salt=b"SodiumChloride",
        hash=bytes.fromhex("7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"),
    )
    assert stored.matches("pleaseletmein")
    assert not stored.matches("pleaseletmeout")
    with pytest.raises(InvalidInput):
        StoredPassword.parse(text)  # its salt is too short for us


GOOD = StoredPassword.of("secret", CHEAP).text
BAD = {
    "nothing": "",
    "the password itself": "correct horse",
    "another scheme": GOOD.replace("scrypt", "bcrypt"),
    "a part too few": GOOD.rpartition("$")[0],
    "a part too many": GOOD + "$",
    "no number": GOOD.replace("$4$", "$x$"),
    "no Base64": GOOD[:-4] + "!!!!",
    "a short hash": GOOD.rpartition("$")[0] + "$AAAA",
    "more memory than there may be": GOOD.replace("$4$8$", "$24$8$"),
    "blocks beyond measure": GOOD.replace("$4$8$", "$4$99999999$"),
    "an N beyond measure": GOOD.replace("$4$8$", "$999999999$8$"),
    "a negative N": GOOD.replace("$4$8$", "$-4$8$"),
    "no passes": GOOD.replace("$8$1$", "$8$0$"),
    "a thousand passes": GOOD.replace("$8$1$", "$8$1000$"),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_what_is_no_stored_password_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected") as raised:
        StoredPassword.parse(text)
    assert not text or text not in str(raised.value)


def test_neither_a_password_nor_its_hash_is_shown() -> None:
    stored = StoredPassword.of("secret", CHEAP)
    assert repr(stored) == "StoredPassword(cost=Cost(log_n=4, r=8, p=1))"


class Counted(StoredPassword):
    """Counts how often it is compared, and waits to be let go."""

    __slots__ = ("compared", "go", "running")

    @classmethod
    def made(cls, password: str) -> Counted:
        counted = cls.of(password, CHEAP)
        assert isinstance(counted, Counted)
        for name, value in (("compared", []), ("go", threading.Event()), ("running", [])):
            object.__setattr__(counted, name, value)
        counted.go.set()
        return counted

    compared: list[str]
    running: list[int]
    go: threading.Event

    def matches(self, password: str) -> bool:
        self.compared.append(password)
        assert self.go.wait(PATIENCE)
        return StoredPassword.matches(self, password)


def checks(pause: Callable[[float], None] = lambda _: None, **arguments: int) -> PasswordChecks:
    return PasswordChecks(pause=pause, **arguments)


def test_a_password_is_checked_once_however_often_it_comes() -> None:
    stored, checking = Counted.made("right"), checks()
    assert [checking.matches(stored, said) for said in ("right", "wrong", "right", "wrong", "right")] == [
        True,
        False,
        True,
        False,
        True,
    ]
    assert stored.compared == ["right", "wrong"]


def test_what_came_out_counts_for_the_stored_password_that_it_was_held_against() -> None:
    checking = checks()
    assert checking.matches(StoredPassword.of("old", CHEAP), "old")
    assert not checking.matches(StoredPassword.of("new", CHEAP), "old")


def test_what_is_remembered_is_bounded() -> None:
    checking, stored, known = checks(), StoredPassword.decoy(CHEAP), Counted.made("right")
    checking.matches(known, "right")
    for number in range(MOST_REMEMBERED + 10):
        checking.matches(stored, str(number))
    assert len(checking._known) == MOST_REMEMBERED
    assert checking.matches(known, "right")
    assert known.compared == ["right"], "guesses displace no right password"


def test_a_wrong_password_is_followed_by_a_pause_of_three_times_what_it_took() -> None:
    moments, pauses = iter([10.0, 10.5, 20.0, 20.5]), []
    checking = PasswordChecks(pause=pauses.append, clock=lambda: next(moments))
    stored = StoredPassword.of("right", CHEAP)
    checking.matches(stored, "wrong")
    checking.matches(stored, "wrong")
    checking.matches(stored, "right")
    assert pauses == [1.5]


def test_one_password_is_checked_at_a_time_and_too_many_are_turned_away() -> None:
    stored, other, checking = Counted.made("right"), Counted.made("other"), checks(most_waiting=3)
    stored.go.clear()
    with ThreadPoolExecutor(3) as threads:
        first = [threads.submit(checking.matches, stored, said) for said in ("a", "right")]
        until(lambda: checking._waiting.total() == 2)  # both have a place
        with pytest.raises(Unavailable, match="try again in a moment"):
            checking.matches(stored, "c")
        assert len(stored.compared) == 1
        last = threads.submit(checking.matches, other, "other")
        stored.go.set()
        assert [waiting.result(PATIENCE) for waiting in (*first, last)] == [False, True, True]
    assert checking.matches(stored, "right")
