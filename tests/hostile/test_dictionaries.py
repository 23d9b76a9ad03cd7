"""Dictionaries among what clients send: the stream that ends pyarrow's server gets nowhere, and what is taken arrives whole."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import polars as pl
import pyarrow as pa
import pytest
from adbc_driver_manager import Error
from lance_flight.flight import wire
from lance_flight.flight.passwords import hash_of
from lance_flight.flight.wire import encode_command
from lance_flight_client import adbc

from tests.hostile.frames import call, field, frames
from tests.hostile.outside import Guarded, described
from tests.hostile.prepared import INTO, prepared
from tests.service.server_process import Server, serving

WORDS = pa.array(["x", None, "y", "x"]).dictionary_encode()
VIEWS = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0], pa.uint32()), pa.array(["x", "y"], pa.string_view()))
PLAIN = ["x", None, "y", "x"]
OFFSETS = pa.array([0, 1, 2, 3, 4], pa.int32())
NESTED = {
    "a dictionary": WORDS,
    "of views": VIEWS,
    "in a list": pa.ListArray.from_arrays(OFFSETS, WORDS),
    "in a struct": pa.StructArray.from_arrays([WORDS], ["x"]),
    "in a struct in a list": pa.ListArray.from_arrays(OFFSETS, pa.StructArray.from_arrays([WORDS], ["x"])),
    "in a map": pa.MapArray.from_arrays(OFFSETS, pa.array(["k"] * 4), WORDS),
    "of a fixed size": pa.FixedSizeListArray.from_arrays(pa.array([5, None, 6, 5]).dictionary_encode(), 1),
    "of a list view": pa.ListViewArray.from_arrays(OFFSETS[:-1], pa.array([1] * 4, pa.int32()), WORDS),
    "in an extension type": pa.ExtensionArray.from_storage(pa.opaque(WORDS.type, "t", "v"), WORDS),
    "in runs": pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4], WORDS),
}
HEADLESS = {"a body": field(1000, b"12345678"), "metadata": field(3, b"said"), "nothing": b""}


@pytest.fixture(scope="module")
def channel(target: Guarded) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(target.server.uri.removeprefix("grpc://")) as opened:
        yield opened


@pytest.mark.parametrize("headless", HEADLESS.values(), ids=HEADLESS)
@pytest.mark.parametrize("column", NESTED.values(), ids=NESTED)
def test_parameters_with_a_dictionary_are_refused_before_its_frame_is_read(
    target: Guarded, channel: grpc.Channel, column: pa.Array, headless: bytes
) -> None:
    handle = prepared(target.server.client, "SELECT $1")
    for command in (
        wire.PreparedStatementQuery(prepared_statement_handle=handle),
        wire.PreparedStatementUpdate(prepared_statement_handle=handle),
    ):
        sent = frames(encode_command(command), [pa.record_batch({"v": column})])
        status, words = call(channel, "DoPut", [*sent[:2], headless, *sent[2:]])
        assert (status, "[invalid_schema]" in words, "column 'v'" in words, "dictionary<" in words) == (
            "INVALID_ARGUMENT", True, True, True,
        ), words  # fmt: skip
        assert "cast" in words
    assert target.server.value("SELECT 1") == 1


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that asks who calls; `owner` may do everything, `nobody` has no role at all."""
    place = tmp_path_factory.mktemp("asking")
    tokens = "".join(
        f'[tokens.{name}]\nsha256 = "{hash_of(name * 9)}"\nprincipal = "{name}"\n' for name in ("owner", "nobody")
    )
    (place / "tokens.toml").write_text(tokens)
    (place / "tokens.toml").chmod(0o600)
    (place / "policy.toml").write_text('[roles.owner]\nmembers = ["owner"]\ngrants = ["ALL ON *"]\n')
    files = ("--tokens-file", str(place / "tokens.toml"), "--policy-file", str(place / "policy.toml"))
    with serving(place / "root", *files) as server:
        yield server


@pytest.mark.parametrize("column", NESTED.values(), ids=NESTED)
def test_an_ingest_of_a_known_principal_takes_no_dictionary(asking: Server, column: pa.Array) -> None:
    rows = frames(encode_command(INTO), [pa.record_batch({"v": column})])
    for name in ("nobody", "owner"):
        with grpc.insecure_channel(asking.uri.removeprefix("grpc://")) as channel:
            metadata = (("authorization", f"Bearer {name * 9}"),)
            status, words = call(channel, "DoPut", [*rows[:2], HEADLESS["a body"], *rows[2:]], metadata)
        assert status == "INVALID_ARGUMENT", words
        for part in ("[invalid_schema]", "column 'v'", "dictionary<", "dictionary_ingest", "cast to"):
            assert part in words
    assert asking.process.poll() is None


def test_what_the_helpers_send_has_no_dictionaries(asking: Server) -> None:
    rows = pa.table({"words": WORDS, "views": VIEWS, "nested": NESTED["in a struct"]})
    with adbc.connect(asking.uri, adbc.Credentials(token="owner" * 9)) as connection:
        # A driver that is still writing when it is refused says that it could not, and not why.
        refused = "dictionary_ingest|failure writing dictionary batches"
        with connection.cursor() as cursor, pytest.raises(Error, match=refused):
            cursor.adbc_ingest("decoded", rows.select(["words"]), mode="create")
        for data in (rows, rows.to_reader()):
            assert adbc.ingest(connection, "decoded", data, mode="create_append") == 4
        stored = adbc.execute(connection, "SELECT * FROM decoded").rows
        assert stored is not None
        assert stored.schema.types == [pa.utf8(), pa.utf8(), pa.struct({"x": pa.utf8()})]
        assert stored.to_pydict() == {
            "words": PLAIN * 2, "views": PLAIN * 2, "nested": [{"x": word} for word in PLAIN * 2],
        }  # fmt: skip


@pytest.mark.parametrize("column", NESTED.values(), ids=NESTED)
def test_an_ingest_on_loopback_without_identity_takes_dictionaries(
    target: Guarded, channel: grpc.Channel, column: pa.Array
) -> None:
    target.run("DROP TABLE IF EXISTS fed")
    sent = frames(encode_command(INTO), [pa.record_batch({"v": column})])
    assert call(channel, "DoPut", sent) == ("OK", "")
    stored = target.run("SELECT * FROM fed")["v"]
    assert "dictionary" not in str(stored.type)
    assert stored.to_pylist() == decoded_rows(column)


def decoded_rows(column: pa.Array) -> list[object]:
    """The values of a column, whatever pyarrow makes of views in dictionaries."""
    if column.type == VIEWS.type:
        return PLAIN
    return [value.as_py() if isinstance(value, pa.Scalar) else value for value in column]


def test_categories_of_polars_are_stored_as_text(target: Guarded) -> None:
    target.run("DROP TABLE IF EXISTS categories")
    kinds = {"c": pl.Categorical, "e": pl.Enum(["x", "y"])}
    frame = pl.DataFrame({name: pl.Series(PLAIN, dtype=kind) for name, kind in kinds.items()})
    reader = pa.RecordBatchReader.from_stream(frame)
    assert reader.schema.field("c").type == pa.dictionary(pa.uint32(), pa.string_view())
    client, rows = target.server.client, reader.read_all()
    writer, answers = client.do_put(described(wire.StatementIngest(
        table="categories", table_definition_options=wire.TableDefinitionOptions(if_not_exist=1, if_exists=2)
    )), rows.schema)  # fmt: skip
    with writer:
        writer.write_table(rows)
        writer.done_writing()
        answers.read()
    assert target.run("SELECT c, e FROM categories").to_pydict() == {"c": PLAIN, "e": PLAIN}
