"""The documents: links lead somewhere, tables say what the code says, commands parse, and nothing in them is untested."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import re
import shlex
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pytest
from lance_flight import errors
from lance_flight.catalog.commits.commit import CONFLICTS
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.query.tables.metadata_tables import LINEAGE, METADATA_TABLES
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.engine.statements.sessions import assign, options
from lance_flight.errors import LanceFlightError
from lance_flight.flight import passwords
from lance_flight.flight.passwords import Cost, StoredPassword, Users
from lance_flight.flight.status import flight_error
from lance_flight.model.index_kinds import ALIASES, KINDS
from lance_flight.model.transforms import TRANSFORMS
from lance_flight_client.cli import parser
from lance_flight_client.spark.program import parser as spark_parser

from tests.documents import DOCUMENTS, PAGES, TOP, blocks, rows_of, text_of, without_code

_LINK = re.compile(r"(?<!!)\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
README_LINES = 200
SOURCES = TOP / "server" / "lance_flight"
FOREIGN_OPTIONS = {
    "--add-opens",
    "--candidate",
    "--no-image",
    "--remote",
    "--group",
    "--only",
    "--only-group",
    "--quiet",
    "--strict",
    "--with",
    "--scenario",
    "--port",
    "--master",
    "--driver-memory",
    "--properties-file",
}
"""Options of Java, uv, Spark, MkDocs, `benchmarks`, `tests.conformance` and `docker/release`."""

STATUS = MappingProxyType(
    {
        "InvalidArgument": "INVALID_ARGUMENT",
        "Missing": "NOT_FOUND",
        "Unimplemented": "UNIMPLEMENTED",
        "FlightUnauthenticatedError": "UNAUTHENTICATED",
        "FlightUnauthorizedError": "PERMISSION_DENIED",
        "FlightUnavailableError": "UNAVAILABLE",
        "FlightCancelledError": "CANCELLED",
        "FlightTimedOutError": "DEADLINE_EXCEEDED",
        "FlightServerError": "UNKNOWN",
        "FlightInternalError": "INTERNAL",
    }
)
"""What pyarrow makes of an exception in a handler: the gRPC status on the wire."""

DECISION = ("Context", "Decision", "Consequence")
"""The parts of a record, below its title and its status."""

TESTED: Mapping[str, str] = MappingProxyType(
    {
        "README.md python": "test_readme.py",
        "client/docs/bi-tools.md python": "conformance/test_recipes.py",
        "client/docs/dataset.md python": "dataset/test_page.py, dataset/test_torch.py",
        "client/docs/drivers.md go": "conformance/test_recipes.py",
        "client/docs/drivers.md javascript": "conformance/test_recipes.py",
        "client/docs/drivers.md python": "test_readme.py, conformance/test_recipes.py, spark/test_spark.py",
        "client/docs/files.md sh": "service/test_ingest_command.py",
        "client/docs/ibis.md python": "conformance/test_recipes.py",
        "client/docs/jupysql.md ipython": "conformance/test_recipes.py",
        "client/docs/mcp.md json": "service/test_mcp.py",
        "client/docs/lancedb.md javascript": "lancedb/test_page.py",
        "client/docs/lancedb.md python": "lancedb/test_page.py",
        "client/docs/pandas.md python": "conformance/test_recipes.py",
        "client/docs/pipelines.md sh": "spark/test_pipelines.py",
        "client/docs/pipelines.md toml": "spark/test_pipelines.py",
        "client/docs/polars.md python": "conformance/test_recipes.py",
        "client/docs/rag.md python": "conformance/test_rag_page.py",
        "client/docs/rag.md sh": "conformance/test_rag_page.py",
        "client/docs/rag.md sql": "conformance/test_rag_page.py",
        "client/docs/rag.md toml": "conformance/test_rag_page.py",
        "client/docs/shell.md sh": "service/test_shell.py",
        "client/docs/shell.md sql": "service/test_file_tables.py",
        "client/docs/shell.md toml": "service/test_connecting.py",
        "client/docs/spark-joins.md python": "spark/test_spark.py",
        "client/docs/spark-maintenance.md python": "spark/test_spark.py",
        "client/docs/spark-read-write.md python": "spark/test_spark.py",
        "client/docs/spark-sql.md python": "spark/test_sql_page.py",
        "client/docs/spark-sql.md sh": "spark/test_sql_page.py",
        "client/docs/spark-sql.md sql": "spark/test_sql_page.py",
        "client/docs/sqlalchemy.md python": "conformance/test_recipes.py",
        "client/docs/streams.md python": "spark/test_spark.py",
        "server/docs/lancedb-sql.md python": "service/test_lancedb_sql.py",
        "server/docs/attached-tables.md sql": "test_readme.py",
        "server/docs/branches.md sql": "test_readme.py",
        "server/docs/functions.md sql": "engine/test_functions.py",
        "server/docs/json.md sql": "test_readme.py",
        "server/docs/configuration.md toml": "test_deployment.py",
        "server/docs/identity.md toml": "test_documents.py",
        "server/docs/lineage.md sql": "test_readme.py",
        "server/docs/policies.md toml": "test_documents.py",
        "server/docs/python.md python": "test_readme.py",
        "server/docs/runbooks.md sh": "faults/test_runbooks.py",
        "server/docs/runbooks.md sql": "faults/test_runbooks.py",
        "server/docs/search.md sql": "test_readme.py",
        "server/docs/sql.md sql": "test_readme.py",
        "server/docs/evolution.md sql": "test_readme.py",
        "server/docs/blobs.md sql": "test_readme.py",
        "server/docs/plain-tables.md sql": "test_readme.py",
        "server/docs/joins.md sql": "test_readme.py",
        "server/docs/transactions.md python": "test_readme.py",
    }
)
"""Every page with code of a language, and the tests that run or read it."""


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.findall(without_code(text_of(page))):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-1")
    return found


def links(page: str) -> list[str]:
    """The relative links of a page."""
    text = _INLINE_CODE.sub("", without_code(text_of(page)))
    return [target for target in _LINK.findall(text) if not re.match(r"[a-z+]+:", target)]


def broken(page: str) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = ((TOP / page).parent / path).resolve() if path else TOP / page
        is_there = file.is_relative_to(TOP) and file.exists()
        if not is_there or (anchor and anchor not in anchors(file.relative_to(TOP).as_posix())):
            yield target


def test_every_link_leads_somewhere() -> None:
    assert [f"{page}: {target}" for page in PAGES for target in broken(page)] == []


def test_every_page_is_linked_from_a_readme() -> None:
    read = {"README.md", "server/README.md", "client/README.md"}
    linked = {
        ((TOP / page).parent / target.partition("#")[0]).resolve().relative_to(TOP).as_posix()
        for page in read
        for target in links(page)
        if target[0] != "#"
    }
    assert set(DOCUMENTS) - linked - {"README.md"} == set()


def test_every_page_is_in_the_navigation_of_the_site_once() -> None:
    pages = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", text_of(".site/mkdocs.yml"), re.MULTILINE)
    assert sorted(pages) == sorted({*DOCUMENTS, "tests/README.md"})


def test_the_readme_is_short() -> None:
    assert len(text_of("README.md").splitlines()) <= README_LINES


def test_every_block_of_code_names_its_language() -> None:
    assert [page for page in DOCUMENTS if "```" in without_code(text_of(page))] == []


def test_all_code_in_documents_is_tested() -> None:
    languages = {
        f"{page} {language}"
        for page in DOCUMENTS
        for language in re.findall(r"^```(\w+)$", text_of(page), re.MULTILINE)
        if language not in {"text", "mermaid"}
    }
    assert languages == set(TESTED)
    assert all((TOP / "tests" / file).exists() for files in TESTED.values() for file in files.split(", "))


def commands() -> list[list[str]]:
    """The command lines of lance-flight in indented blocks, with what a shell does taken off."""
    lines = [
        line for page in DOCUMENTS for line in re.findall(r"^ {4,}(\S.*)$", without_code(text_of(page)), re.MULTILINE)
    ]
    calls = [line.partition("lance-flight ")[2] for line in lines if re.search(r"(^|run )lance-flight ", line)]
    return [shlex.split(re.split(r"\d?>>? ", call)[0], comments=True) for call in calls]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_documented_commands_are_those_of_the_program(command: list[str]) -> None:
    assert parser().parse_args(command).command == command[0]


def test_documented_session_options_are_those_of_the_code() -> None:
    documented = {row[0].strip("`"): row[1].strip("`") for row in rows_of("server/docs/sql.md", "Session options")[2:]}
    shown = {True: "on", False: "off"}
    known = options(Session())
    assert documented == {
        name: shown[value] if isinstance(value, bool) else str(value) for name, value in known.items()
    }


def test_documented_values_of_session_options_are_taken() -> None:
    for name, default, example, _ in rows_of("server/docs/sql.md", "Session options")[2:]:
        for value in (default, example):
            assign(Session(), name.strip("`"), value.strip("`"))


def test_documented_metadata_tables_are_those_of_the_code() -> None:
    text = text_of("server/docs/sql.md", "Tables and functions that the service adds")
    documented = set(re.findall(r"`t\$(\w+)`", text))
    assert documented == {*METADATA_TABLES, LINEAGE}


def kinds_of_error(base: type[LanceFlightError] = LanceFlightError) -> Iterator[type[LanceFlightError]]:
    yield base
    for each in base.__subclasses__():
        yield from kinds_of_error(each)


def test_documented_partition_fields_are_those_of_the_code() -> None:
    named = [row[0].strip("`").partition("(")[0] for row in rows_of("server/docs/sql.md", "Partition fields")[2:]]
    assert named == ["column", *(name for name in TRANSFORMS if name != "identity"), "expr"]


def test_documented_kinds_of_index_are_those_of_the_code() -> None:
    kinds = " ".join(row[0] for row in rows_of("server/docs/search.md", "Kinds of indices")[2:])
    assert sorted(re.findall(r"`(\w+)`", kinds)) == sorted([*KINDS, *ALIASES])


def test_documented_errors_are_those_of_the_code() -> None:
    documented = {row[0].strip("`"): (row[1], row[2]) for row in rows_of("server/docs/errors.md")[2:]}
    known = {"internal": ("XX000", STATUS[type(flight_error(KeyError("x"))).__name__])}
    for kind in kinds_of_error():
        if kind.__module__ == errors.__name__:
            error = kind.__new__(kind)
            known[kind.code] = kind.sqlstate, STATUS[type(flight_error(error)).__name__]
    assert documented == known


def test_documented_conflicts_are_those_of_the_code() -> None:
    documented = rows_of("server/docs/transactions.md", "What conflicts")[2:]
    assert documented == [[rule.transaction, rule.change] for rule in CONFLICTS]


def test_documented_stored_keys_are_those_of_the_code() -> None:
    source = "".join(
        file.read_text() for top in ("server/lance_flight", "client") for file in (TOP / top).rglob("*.py")
    )
    stored = set(re.findall(r'"(lance_flight:[a-z_]+|lance:field_id|lance\.namespace\.[a-z_.]+)"', source))
    stored |= set(re.findall(r"b'(lance_flight:[a-z_]+)'", source))
    documented = [
        row[0].strip("`") for row in rows_of("server/docs/stored-formats.md") if ":" in row[0] or ".n" in row[0]
    ]
    assert sorted(documented) == sorted(stored)


def test_the_documented_version_of_tickets_is_that_of_the_code() -> None:
    version = re.search(
        r"^_VERSION = (\d+)$", (TOP / "server/lance_flight/flight/tickets.py").read_text(), re.MULTILINE
    )
    assert version is not None
    assert f"first byte, now {version[1]}" in text_of("server/docs/stored-formats.md")
    assert f"tickets have version {version[1]}" in text_of("server/CHANGELOG.md")


def test_the_documented_policy_is_one() -> None:
    example, with_quotas = blocks("server/docs/policies.md", "toml")
    policies = Policies.parse(example)
    assert set(policies.roles) == {"tenant_a", "tenants", "support", "operators"}
    assert len(policies.access("anna").grants) == 3
    quotas = Policies.parse(with_quotas).quotas
    assert [quota.limit for quota in quotas.allowance("anna", ["tenant_a"]).quotas] == [4, 2 << 30, 50 << 30]
    assert [(quota.limit, quota.principal) for quota in quotas.allowance("bob", []).quotas] == [(2, "bob")]
    assert quotas.allowance("root", ["operators"]).quotas == ()


def test_the_documented_users_and_tokens_are_read() -> None:
    (example,) = blocks("server/docs/identity.md", "toml")
    users, _, tokens = example.partition("[tokens.etl]")
    password = StoredPassword.of("correct horse", Cost(log_n=4))
    read = Users.parse(users.replace("scrypt$15$8$3$…", password.text))
    assert read.named["alice"].groups == ("analysts",)
    (token,) = passwords.parse_tokens("[tokens.etl]" + tokens.replace("…", "0" * 48)).values()
    assert token.principal.groups == ("loaders",)
    assert token.expires is not None


def test_every_decision_that_code_names_is_documented() -> None:
    documented = set(re.findall(r"^### (\d+a?)\. ", text_of("server/docs/decisions.md"), re.MULTILINE))
    named = {
        number
        for top in ("server", "client", "tests")
        for file in (TOP / top).rglob("*.py")
        for numbers in re.findall(r"\b[Dd]ecisions? (\d+a?(?:(?:, | and )\d+a?)*)", file.read_text())
        for number in re.findall(r"\d+a?", numbers)
    }
    assert named - documented == set()


def test_every_decision_is_a_record() -> None:
    _, *records = re.split(r"^### ", text_of("server/docs/decisions.md"), flags=re.MULTILINE)
    parts = (r"\d+a?\. [^\n]+", r"\*(?:Accepted|Replaced by)[^*]+\*", *(rf"\*\*{part}\.\*\* .+" for part in DECISION))
    form = re.compile(r"\n\n".join(parts), re.DOTALL)
    assert [record.partition("\n")[0] for record in records if form.match(record) is None] == []


def options_of(top: argparse.ArgumentParser) -> Iterator[str]:
    """The options of a program and its commands, once these have declared them."""
    for action in top._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                with contextlib.suppress(SystemExit):
                    top.parse_known_args([name])
                yield from options_of(command)


def test_options_that_documents_name_are_those_of_the_programs() -> None:
    named = {
        option
        for page in DOCUMENTS
        for code in _INLINE_CODE.findall(without_code(text_of(page)))
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", code)
    }
    known = {*options_of(parser()), *options_of(spark_parser()), *FOREIGN_OPTIONS}
    assert named - known == set()


def test_the_table_of_what_to_change_names_files_and_packages() -> None:
    """A path of a cell starts at the package, or beside the last one that does."""
    missing = []
    for what, where in rows_of("server/README.md", "Where to change what")[2:]:
        beside = SOURCES
        for code in re.findall(r"`([\w./]+(?:\.py|/))`", where):
            top = TOP if code.startswith("client/") else SOURCES
            found = next((at for at in (top / code, beside / code) if at.exists()), None)
            if found is None:
                missing.append((what, code))
            elif found == top / code:
                beside = found if found.is_dir() else found.parent
    assert missing == []


def test_every_file_that_documents_name_is_there() -> None:
    files = [f"/{file.relative_to(TOP).as_posix()}" for file in TOP.rglob("*.py") if ".venv" not in file.parts]
    named = {
        (page, file)
        for page in DOCUMENTS
        for code in _INLINE_CODE.findall(without_code(text_of(page)))
        for file in re.findall(r"[\w/]+\.py\b", code)
    }
    assert sorted(each for each in named if not any(file.endswith(f"/{each[1]}") for file in files)) == []


def test_every_test_that_the_page_about_tests_names_is_there() -> None:
    tests = TOP / "tests"
    modules = {file.relative_to(tests).with_suffix("").as_posix() for file in tests.rglob("test_*.py")}
    named = re.findall(r"`((?:\w+/)?test_[\w*]+)`", text_of("tests/README.md"))
    assert [name for name in named if not fnmatch.filter(modules, name)] == []
