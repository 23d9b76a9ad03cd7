"""Bytes ⇄ commands and actions."""

from __future__ import annotations

import contextlib
import typing
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.errors import InvalidInput
from lance_flight.flight import wire
from lance_flight.flight.wire import Action, Command, decode_action, decode_command, encode_action, encode_command

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
BY_KIND = {
    FieldDescriptor.CPPTYPE_STRING: TEXT,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_ENUM: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(allow_nan=False),
}


def messages_of(kind: type[Message]) -> st.SearchStrategy[Any]:
    """Any message of a class, from its descriptor; a field that can be missing is missing at times."""
    return st.builds(kind, **{field.name: values_of(field) for field in kind.DESCRIPTOR.fields})


def values_of(field: Any) -> st.SearchStrategy[Any]:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return st.dictionaries(TEXT, element_of(inner.fields_by_name["value"]), max_size=3)
    if field.is_repeated:
        return st.lists(element_of(field), max_size=5)
    return st.none() | element_of(field) if field.has_presence else element_of(field)


def element_of(field: Any) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return messages_of(field.message_type._concrete_class)
    return st.binary(max_size=20) if field.type == FieldDescriptor.TYPE_BYTES else BY_KIND[field.cpp_type]


ALL_COMMANDS = typing.get_args(Command)
ALL_ACTIONS = typing.get_args(Action)


@given(st.one_of(*map(messages_of, ALL_COMMANDS)))
def test_a_command_comes_back_from_its_bytes(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


@given(st.one_of(*map(messages_of, ALL_ACTIONS)))
def test_an_action_comes_back_from_its_bytes(action: Action) -> None:
    assert decode_action(*encode_action(action)) == action


def any_of(name: str, body: bytes) -> bytes:
    """A google.protobuf.Any, put together by hand."""
    url = f"type.googleapis.com/arrow.flight.protocol.sql.{name}".encode()
    return b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(body)]) + body


KNOWN_BYTES = {
    "query": (
        any_of("CommandStatementQuery", b"\x0a\x08SELECT 1\x12\x02tx"),
        wire.StatementQuery(query="SELECT 1", transaction_id=b"tx"),
    ),
    "a transaction id that is set and empty": (
        any_of("CommandStatementUpdate", b"\x0a\x01x\x12\x00"),
        wire.StatementUpdate(query="x", transaction_id=b""),
    ),
    "no catalog": (any_of("CommandGetTables", b"\x28\x01"), wire.GetTables(include_schema=True)),
    "an empty catalog": (any_of("CommandGetTables", b"\x0a\x00"), wire.GetTables(catalog="")),
    "repeated": (any_of("CommandGetTables", b"\x22\x01a\x22\x01b"), wire.GetTables(table_types=("a", "b"))),
    "packed numbers": (any_of("CommandGetSqlInfo", b"\x0a\x03\x00\xf4\x03"), wire.GetSqlInfo(info=(0, 500))),
    "negative number": (
        any_of("CommandGetXdbcTypeInfo", b"\x08\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        wire.GetXdbcTypeInfo(data_type=-5),
    ),
    "ingest": (
        any_of("CommandStatementIngest", b"\x0a\x04\x08\x01\x10\x03\x12\x01t\xc2\x3e\x06\x0a\x01k\x12\x01v"),
        wire.StatementIngest(
            table="t",
            table_definition_options=wire.TableDefinitionOptions(if_not_exist=1, if_exists=3),
            options={"k": "v"},
        ),
    ),
}


@pytest.mark.parametrize(("data", "command"), KNOWN_BYTES.values(), ids=KNOWN_BYTES.keys())
def test_the_bytes_of_the_protocol_are_read(data: bytes, command: Command) -> None:
    assert decode_command(data) == command


MALFORMED_COMMANDS = {
    "not protobuf": (b"\xff\xff", "a command of 2 bytes does not decode as google.protobuf.Any"),
    "nothing": (b"", "unknown command type ''; expected one of CommandGetCatalogs, "),
    "unknown type": (any_of("CommandDance", b""), "unknown command type '.*CommandDance'; expected one of"),
    "an action": (any_of("ActionBeginTransactionRequest", b""), "unknown command type '.*ActionBeginTransaction"),
    "broken inside": (any_of("CommandStatementQuery", b"\x0a\x09x"), "CommandStatementQuery of 3 bytes does not"),
    "text that is not UTF-8": (any_of("CommandStatementQuery", b"\x0a\x01\xff"), "CommandStatementQuery of 3 bytes"),
}


@pytest.mark.parametrize(("data", "message"), MALFORMED_COMMANDS.values(), ids=MALFORMED_COMMANDS.keys())
def test_what_is_no_command_is_refused_with_what_was_expected(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        decode_command(data)


MALFORMED_ACTIONS = {
    "unknown": ("Dance", b"", "unknown action 'Dance'; expected one of CreatePreparedStatement, "),
    "not protobuf": ("BeginTransaction", b"\xff", "the body of BeginTransaction of 1 bytes does not decode"),
    "another body": (
        "BeginTransaction",
        any_of("CommandGetCatalogs", b""),
        "the body of BeginTransaction has type '.*CommandGetCatalogs'; expected .*ActionBeginTransactionRequest",
    ),
    "bare and broken": ("SetSessionOptions", b"\x0a\x09", "the body of SetSessionOptions of 2 bytes does not decode"),
}


@pytest.mark.parametrize(("name", "body", "message"), MALFORMED_ACTIONS.values(), ids=MALFORMED_ACTIONS.keys())
def test_what_is_no_action_is_refused_with_what_was_expected(name: str, body: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        decode_action(name, body)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_invalid_input(data: bytes) -> None:
    for decode in (decode_command, lambda body: decode_action("CreatePreparedStatement", body)):
        with contextlib.suppress(InvalidInput):
            decode(data)
