"""Streams of IPC frames that are wrong in every way that Arrow's format leaves room for, drawn from a seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tests.hostile.frames import field

WORDS = pa.array(["x", None, "y", "zz"] * 4)
NUMBERS = pa.array([1, 2, None, 4] * 4)
VIEWS = pa.array(["short", None, "one that is longer than a view", ""] * 4, pa.string_view())
TYPES = pa.array([0, 1] * 8, pa.int8())
OFFSETS = pa.array(range(17), pa.int32())
CODES = pa.array([0, 1, None, 1] * 4, pa.int8())

COLUMNS: Mapping[str, pa.Array] = {
    "numbers": NUMBERS,
    "texts": WORDS,
    "booleans": pa.array([True, None] * 8),
    "decimals": pa.array([1, None] * 8).cast(pa.decimal128(30, 2)),
    "large texts": WORDS.cast(pa.large_utf8()),
    "fixed binary": pa.array([b"abc", None] * 8, pa.binary(3)),
    "string views": VIEWS,
    "binary views": VIEWS.cast(pa.binary_view()),
    "lists": pa.ListArray.from_arrays(OFFSETS, NUMBERS),
    "large lists": pa.LargeListArray.from_arrays(OFFSETS.cast(pa.int64()), WORDS),
    "list views": pa.ListViewArray.from_arrays(OFFSETS[:16], pa.array([1] * 16, pa.int32()), WORDS),
    "fixed lists": pa.FixedSizeListArray.from_arrays(pa.concat_arrays([NUMBERS, NUMBERS]), 2),
    "structs": pa.StructArray.from_arrays([WORDS, NUMBERS], ["x", "y"]),
    "maps": pa.MapArray.from_arrays(OFFSETS, pa.array(["k"] * 16), WORDS),
    "dense unions": pa.UnionArray.from_dense(TYPES, OFFSETS[:16], [NUMBERS, WORDS]),
    "sparse unions": pa.UnionArray.from_sparse(TYPES, [NUMBERS, WORDS]),
    "runs": pc.run_end_encode(WORDS),
    "nulls": pa.nulls(16),
    "uuids": pa.array([bytes(range(16)), None] * 8, pa.uuid()),
    "dictionaries": pa.DictionaryArray.from_arrays(CODES, pa.array(["x", "y"])),
    "dictionaries of views": pa.DictionaryArray.from_arrays(CODES, pa.array(["x", "y"], pa.string_view())),
    "dictionaries in lists": pa.ListArray.from_arrays(OFFSETS, WORDS.dictionary_encode()),
    "dictionaries in structs": pa.StructArray.from_arrays([WORDS.dictionary_encode()], ["x"]),
    "dictionaries in runs": pa.RunEndEncodedArray.from_arrays(list(range(1, 17)), WORDS.dictionary_encode()),
    "dictionaries of dictionaries": pa.DictionaryArray.from_arrays(
        CODES, pa.StructArray.from_arrays([pa.array(["x", "y"]).dictionary_encode()], ["x"])
    ),
}
LENGTHS = (-1, -(2**63), 2**63 - 1, 2**62, 2**40, 2**33, 2**31 - 1, 2**31, 1 << 20, 17, 0)


@dataclass(frozen=True, slots=True)
class Frame:
    """A FlightData message: the IPC header, None for none, the body, and metadata of the application's."""

    header: bytes | None
    body: bytes = b""
    said: bytes = b""

    @property
    def message(self) -> bytes:
        """The message without a descriptor."""
        header = b"" if self.header is None else field(2, self.header)
        said = field(3, self.said) if self.said else b""
        return header + said + (field(1000, self.body) if self.body else b"")


def stream(columns: Mapping[str, pa.Array], **options: object) -> list[Frame]:
    """The frames of two batches, the second with other dictionaries: replaced, or deltas."""
    first = pa.record_batch(dict(columns))
    more = {name: _grown(column) for name, column in columns.items()}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, first.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(first)
        writer.write_batch(pa.record_batch(more, schema=first.schema))
    return [
        Frame(message.metadata.to_pybytes(), message.body.to_pybytes() if message.body else b"")
        for message in pa.ipc.MessageReader.open_stream(sink.getvalue())
    ]


def _grown(column: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(column.type) or not pa.types.is_string(column.type.value_type):
        return column
    return pa.DictionaryArray.from_arrays(column.indices, pa.concat_arrays([column.dictionary, pa.array(["more"])]))


def craft(chance: random.Random) -> tuple[str, list[Frame]]:
    """A stream with one to three things wrong, and what they are."""
    names = chance.sample(sorted(COLUMNS), chance.choice([1, 1, 2, 4]))
    codec = chance.choice([None, None, "lz4", "zstd"])
    made = stream(
        {name: COLUMNS[name] for name in names},
        compression=codec,
        emit_dictionary_deltas=chance.random() < 1 / 2,
        unify_dictionaries=False,
        metadata_version=chance.choice([pa.ipc.MetadataVersion.V5] * 4 + [pa.ipc.MetadataVersion.V4])
        if not any("unions" in name for name in names)
        else pa.ipc.MetadataVersion.V5,
    )
    wrong = chance.choices(sorted(WRONG), k=chance.choice([1, 1, 2, 3]))
    for each in wrong:
        if made:
            made = WRONG[each](chance, made)
    return f"{', '.join(names)} ({codec}): {'; '.join(wrong)}", made


def messages(command: bytes, made: Sequence[Frame]) -> list[bytes]:
    """The messages of a DoPut, the first one with its descriptor."""
    head = field(1, command)
    sent = [frame.message for frame in made] or [b""]
    return [head + sent[0], *sent[1:]]


Wrong = Callable[[random.Random, list[Frame]], list[Frame]]


def _somewhere(change: Callable[[random.Random, Frame], Frame]) -> Wrong:
    """A change of one frame."""

    def changed(chance: random.Random, made: list[Frame]) -> list[Frame]:
        at = chance.randrange(len(made))
        return [*made[:at], change(chance, made[at]), *made[at + 1 :]]

    return changed


def _without_header(chance: random.Random, made: list[Frame]) -> list[Frame]:
    """A frame more, of metadata or a body alone, or of nothing."""
    bare = chance.choice(
        [Frame(None), Frame(None, b"12345678"), Frame(None, said=b"said"), Frame(b""), Frame(None, b"", b"x")]
    )
    at = chance.randrange(len(made) + 1)
    return [*made[:at], bare, *made[at:]]


def _missing(chance: random.Random, made: list[Frame]) -> list[Frame]:
    at = chance.randrange(len(made))
    return made[:at] + made[at + 1 :]


def _twice(chance: random.Random, made: list[Frame]) -> list[Frame]:
    at, to = chance.randrange(len(made)), chance.randrange(len(made) + 1)
    return [*made[:to], made[at], *made[to:]]


def _in_disorder(chance: random.Random, made: list[Frame]) -> list[Frame]:
    return chance.sample(made, len(made))


def _of_another_stream(chance: random.Random, made: list[Frame]) -> list[Frame]:
    """A frame of another stream's: a schema in the middle, a dictionary that nobody knows, a batch of other columns."""
    other = stream({name: COLUMNS[name] for name in chance.sample(sorted(COLUMNS), 2)})
    at = chance.randrange(len(made) + 1)
    return [*made[:at], chance.choice(other), *made[at:]]


def _tensor(chance: random.Random, made: list[Frame]) -> list[Frame]:
    """A message that is neither schema, dictionary nor batch."""
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(NUMBERS.fill_null(0).to_numpy()), sink)
    at = chance.randrange(len(made) + 1)
    return [*made[:at], Frame(sink.getvalue().to_pybytes()[8:]), *made[at:]]


def _header_number(chance: random.Random, frame: Frame) -> Frame:
    """A length, an offset or a count of the header that cannot be."""
    if not frame.header or len(frame.header) < 16:
        return frame
    width, form = chance.choice([(8, "<q"), (8, "<q"), (4, "<i"), (2, "<h"), (1, "<b")])
    at = chance.randrange(0, len(frame.header) - width + 1, width)
    low, high = -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1
    number = min(max(chance.choice(LENGTHS), low), high)
    return replace(frame, header=frame.header[:at] + struct.pack(form, number) + frame.header[at + width :])


def _header_length(chance: random.Random, frame: Frame) -> Frame:
    """One of the numbers that Arrow writes as 64 bits where it has one: rows, NULLs, places and sizes of buffers."""
    header = frame.header or b""
    known = [at for at in range(0, len(header) - 7, 8) if 0 < struct.unpack_from("<q", header, at)[0] < 1 << 16]
    if not known:
        return frame
    at = chance.choice(known)
    return replace(frame, header=header[:at] + struct.pack("<q", chance.choice(LENGTHS)) + header[at + 8 :])


def _body_number(chance: random.Random, frame: Frame) -> Frame:
    """An offset, a size of a view or of a run, a code, or the length before a compressed buffer that cannot be."""
    width, form = chance.choice([(4, "<i"), (8, "<q")])
    if len(frame.body) < width:
        return frame
    at = chance.randrange(0, len(frame.body) - width + 1, width)
    low, high = -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1
    number = min(max(chance.choice(LENGTHS), low), high)
    return replace(frame, body=frame.body[:at] + struct.pack(form, number) + frame.body[at + width :])


def _noise(chance: random.Random, frame: Frame) -> Frame:
    which = chance.choice(["header", "body"])
    data = bytearray(getattr(frame, which) or b"\0")
    for _ in range(chance.choice([1, 4, 32])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return replace(frame, **{which: bytes(data)})


def _cut(chance: random.Random, frame: Frame) -> Frame:
    which = chance.choice(["header", "body"])
    data = getattr(frame, which) or b""
    return replace(frame, **{which: data[: chance.randrange(len(data) + 1)]})


WRONG: Mapping[str, Wrong] = {
    "a frame without a header": _without_header,
    "another frame without a header": _without_header,
    "a frame missing": _missing,
    "a frame twice": _twice,
    "frames in disorder": _in_disorder,
    "a frame of another stream": _of_another_stream,
    "a tensor": _tensor,
    "a number of the header": _somewhere(_header_number),
    "a length of the header": _somewhere(_header_length),
    "a length of the header, too": _somewhere(_header_length),
    "a number of the body": _somewhere(_body_number),
    "a number of the body, too": _somewhere(_body_number),
    "noise": _somewhere(_noise),
    "cut": _somewhere(_cut),
    "a body without its header": _somewhere(lambda _, frame: replace(frame, header=None)),
    "a header without its body": _somewhere(lambda _, frame: replace(frame, body=b"")),
}
