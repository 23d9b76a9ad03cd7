"""The index of sessions, against a plain list of what was put into it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.runtime.client_sessions import Session
from lance_flight.engine.runtime.kept_sessions import KeptSessions

SESSIONS = [Session(principal=principal) for principal in ("alice", "alice", "bob", "eve")]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), st.sampled_from(SESSIONS)),
        st.tuples(st.just("pop"), st.sampled_from("abcdef"), st.none()),
        st.tuples(st.just("remove"), st.none(), st.sampled_from(SESSIONS)),
        st.tuples(st.just("oldest"), st.none(), st.none()),
    ),
    max_size=30,
)


@given(STEPS)
def test_an_index_knows_what_a_list_does(steps: list[tuple[str, str | None, Session | None]]) -> None:
    kept, listed = KeptSessions(), list[tuple[str, Session]]()
    for step in steps:
        match step:
            case "put", str(key), Session() as session:
                kept.put(key, session)
                listed = [*(each for each in listed if each[0] != key), (key, session)]
            case "pop", str(key), _ if key in kept:
                assert (key, kept.pop(key)) in listed
                listed = [each for each in listed if each[0] != key]
            case "remove", _, Session() as session:
                kept.remove(session)
                listed = [each for each in listed if each[1] is not session]
            case "oldest", _, _ if listed:
                assert kept.pop_oldest() is listed.pop(0)[1]
    assert [(key, kept[key].session) for key in kept] == listed
    assert (len(kept), set(kept.sessions)) == (len(listed), {session for _, session in listed})
    for each in SESSIONS:
        assert set(kept.keys_of(each)) == {key for key, session in listed if session is each}
        own = [key for key, session in listed if session.principal == each.principal]
        assert (list(kept.of_principal(each.principal)), kept.count_of(each.principal)) == (own, len(own))
