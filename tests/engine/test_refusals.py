"""What is refused says why, in the words of a client, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import pytest

from tests.engine.database import Client, Database
from tests.engine.refusals import REFUSED_STATEMENTS
from tests.engine.refused_queries import REFUSED_QUERIES
from tests.search.refused_searches import REFUSED_SEARCHES
from tests.service.server_process import files

SUBJECTS = REFUSED_STATEMENTS | REFUSED_QUERIES | REFUSED_SEARCHES
CASES = [
    pytest.param(subject, layout, statement, id=f"{subject}{layout}: {statement[:60]}")
    for subject, refusals in SUBJECTS.items()
    for layout in refusals.layouts
    for statement in refusals.refused
]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Client]:
    """Gives a client of a root with the tables of a subject, which all of its statements share."""

    @cache
    def made(subject: str, layout: str) -> Client:
        database = Database(tmp_path_factory.mktemp("refusals") / "root")
        for statement in ("CREATE TABLE kept (id INT)", *SUBJECTS[subject].made):
            database.run(statement.replace("{layout}", layout))
        return Client(database)

    return made


@pytest.mark.parametrize(("subject", "layout", "statement"), CASES)
def test_a_statement_is_refused_with_the_reason_and_changes_nothing(
    clients: Callable[[str, str], Client], subject: str, layout: str, statement: str
) -> None:
    client, refusals = clients(subject, layout), SUBJECTS[subject]
    before = files(client.root)
    said = client.refuses(refusals.form.format(statement))
    parts = refusals.refused[statement].split(" … ")
    assert re.search(".*".join(map(re.escape, parts)), said, re.DOTALL), said
    assert [part for part in ("[internal]", "Traceback", str(client.root)) if part in said] == []
    assert files(client.root) == before
