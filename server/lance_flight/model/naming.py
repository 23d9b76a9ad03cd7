"""Names: tables in SQL, object ids, the 16-character names of partition namespaces, manifest columns and directories.

Spec: Physical Layout and Naming, Manifest Table Schema, Appendix B; decisions 4 and 5.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import struct
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from lance_flight.errors import InvalidInput

_TABLE_DIRECTORY = re.compile(r"[0-9a-f]{8}_v[1-9][0-9]*\$.*\$dataset")
MANIFEST = "__manifest"
PLAIN_SUFFIX = ".lance"
"""The end of the directory of a plain table."""
SEPARATOR = "$"
TABLE = "dataset"
MAIN_BRANCH = "main"
PUBLIC = "public"
"""The schema in SQL of what lies right below a root."""
METADATA_NAMES = frozenset({"partitions", "snapshots", "files", "specs", "tags", "branches", "indexes", "lineage"})
"""Names of metadata tables, which stand after the name of their table: `t$snapshots`, in Spark `lake.t.snapshots`."""
COLUMN_PREFIX = "partition_field_"
BELOW_A_SPEC = r"^v[1-9][0-9]*\$"
"""Matches the object ids of all partition namespaces and tables, and not those of the specs themselves."""
NAME_LENGTH = 16
LONGEST_FILE_NAME = 255
"""Bytes that a file system takes in one name."""
KEY_BYTES = 32

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_UNREADABLE = (".", "`", "\0")
_RESERVED = frozenset(
    ["*", "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]
)
_SQL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_SQL_NAME = re.compile(r"[^A-Za-z0-9_]")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LONGEST = 200
"""Characters of a label, or bytes of a table's name, that we make; files are called after it, with what is added to it."""
_OF_PATHS = "/\\@$."
"""Signs that part paths, or that part the name of a table from a version, a metadata table or a schema."""
_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters that are no text, or end a line."""
_SPEC_NAMESPACE = re.compile(r"v([1-9][0-9]*)")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table of a root: the SQL schema it is in and its name."""

    db_schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.db_schema}.{self.name}"


def check_sql_name(kind: str, name: str) -> str:
    """Return `name` itself if an index may be created called so, else `InvalidInput`."""
    if _SQL_NAME.fullmatch(name) is None:
        raise InvalidInput(f"{kind} name {shown_text(name)} is not allowed; expected [A-Za-z_][A-Za-z0-9_]*")
    return _short(kind, name)


def index_name_of(column: str) -> str:
    """Return the name of an index that was given none, after its column, with `_` for every sign that no index may have in its name.

    >>> index_name_of("price"), index_name_of("meta.embedding"), index_name_of("2024 sales")
    ('price_idx', 'meta_embedding_idx', '_2024_sales_idx')
    """
    name = _NO_SQL_NAME.sub("_", column)[: _LONGEST // 2]
    return f"{'_' if name[:1].isdigit() else ''}{name}_idx"


def check_directory_name(kind: str, name: str) -> str:
    """Return `name` itself if a table or schema may be created called so, else `InvalidInput`: its directory is called after it.

    >>> check_directory_name("table", "Sales 2024")
    'Sales 2024'
    """
    problem = _directory_name_problem(name)
    if problem is not None:
        raise InvalidInput(f"{kind} name {shown_text(name)} is not allowed; {problem}")
    return name


def _directory_name_problem(name: str) -> str | None:
    if name == MANIFEST:
        return "it is what namespaces call their own table"
    if not name or name != name.strip():
        return "expected a name without blanks at its ends" if name else "it is empty"
    for letter in name:
        if letter in _OF_PATHS:
            return f"it has {letter!r}; expected none of {' '.join(_OF_PATHS)}"
    for letter in _decode(name):
        if letter in _OF_PATHS:
            return f"who reads it as a URL finds {letter!r} in it; expected none of {' '.join(_OF_PATHS)}"
        if unicodedata.category(letter) in _CONTROL:
            return f"it has the control character {letter!r}"
    size = len(name.encode())
    return f"it has {size} bytes of UTF-8; expected at most {_LONGEST}" if size > _LONGEST else None


def _decode(name: str) -> str:
    """Return a name as URLs would have it that are decoded until nothing is left to decode."""
    while (decoded := unquote(name)) != name:
        name = decoded
    return name


def shown_text(text: str) -> str:
    """Return a text in quotes as errors repeat it: the beginning of one that is long."""
    return repr(text) if len(text) <= _LONGEST else f"{text[:20]!r}…"


def is_same_text(one: str, other: str) -> bool:
    """Return whether two names are one text in Unicode, be its letters composed or not: some file systems take them for one.

    >>> is_same_text("na\u00efve", "nai\u0308ve")
    True
    """
    return unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


def column_name_problem(name: str) -> str | None:
    """Return why Lance cannot store or read back a column called `name`; None where it can.

    >>> column_name_problem("a.b")
    "column 'a.b' has '.' in its name; expected a name without it"
    """
    for sign in _UNREADABLE:
        if sign in name:
            return f"column {shown_text(name)} has {sign!r} in its name; expected a name without it"
    if name in _RESERVED:
        return f"column {name!r} has a name that Lance keeps for itself; expected another one"
    return None


def check_label(kind: str, name: str) -> str:
    """Return `name` itself if a tag or branch may be called so, else `InvalidInput`.

    What `t@name` would read as a number or a time never begins with a letter; `main` is Lance's name of the main branch.

    >>> check_label("tag", "release-1.0")
    'release-1.0'
    """
    if _LABEL.fullmatch(name) is None:
        raise InvalidInput(f"{kind} name {shown_text(name)} is not allowed; expected [A-Za-z_][A-Za-z0-9_.-]*")
    if name == MAIN_BRANCH:
        raise InvalidInput(f"{kind} name {name!r} is not allowed: it is the main branch")
    return _short(kind, name)


def _short(kind: str, name: str) -> str:
    if len(name) > _LONGEST:
        raise InvalidInput(f"{kind} name {name[:20]!r}… has {len(name)} characters; expected at most {_LONGEST}")
    return name


def partition_column(field_id: str) -> str:
    """Return the `__manifest` column of a partition field.

    >>> partition_column("event_year")
    'partition_field_event_year'
    """
    return COLUMN_PREFIX + field_id


def spec_namespace(spec_id: int) -> str:
    """Return the object id of the namespace that holds everything written under one spec version."""
    return f"v{spec_id}"


def object_id(path: Iterable[str]) -> str:
    """Return the object id of a namespace path.

    >>> object_id(["v1", "k7m2n9p4q8r5s3t6", "dataset"])
    'v1$k7m2n9p4q8r5s3t6$dataset'
    """
    return SEPARATOR.join(path)


def spec_id_of(object_id: str) -> int | None:
    """Return the spec version that an object id lies under, or None where it lies under none.

    >>> spec_id_of("v12$abc$dataset"), spec_id_of("other$abc")
    (12, None)
    """
    match = _SPEC_NAMESPACE.fullmatch(object_id.partition(SEPARATOR)[0])
    return int(match[1]) if match else None


def namespaces_above(object_id: str) -> list[str]:
    """Return the partition namespaces that an object lies in, outermost first.

    >>> namespaces_above("v1$abc$def$dataset")
    ['v1$abc', 'v1$abc$def']
    """
    path = object_id.split(SEPARATOR)
    return [SEPARATOR.join(path[:depth]) for depth in range(2, len(path))]


def new_key() -> bytes:
    """Return a fresh random key for `namespace_name`."""
    return secrets.token_bytes(KEY_BYTES)


def namespace_name(key: bytes, spec_id: int, values: Sequence[pa.Scalar]) -> str:
    """Return the name of the partition namespace of `values` (this level's and the ones above).

    Random to anyone without the key, and the same for two writers that create one partition at one moment,
    so that the primary key of `__manifest` lets only one of them succeed (decision 4).
    """
    digest = hashlib.blake2b(key=key, digest_size=16)
    digest.update(struct.pack("<q", spec_id))
    for value in values:
        for part in _canonical(value):
            digest.update(struct.pack("<q", len(part)))
            digest.update(part)
    number = int.from_bytes(digest.digest(), "big")
    return "".join(_ALPHABET[number // 36**place % 36] for place in range(NAME_LENGTH))


def new_mark() -> str:
    """Return eight random hex digits that mark the directories of one writer, apart from those of any other writer."""
    return secrets.token_hex(4)


def is_table_directory(name: str) -> bool:
    """Return whether a directory is called like one of a partition table.

    >>> is_table_directory("0c569589_v1$nmncdr1u87hicy75$dataset"), is_table_directory("__manifest")
    (True, False)
    """
    return _TABLE_DIRECTORY.fullmatch(name) is not None


def directory_name(object_id: str, mark: str | None = None) -> str:
    """Return a new directory for a table: a mark (None: one of its own) and its object id (V2 layout, Appendix B)."""
    return f"{mark or new_mark()}_{object_id}"


def _canonical(value: pa.Scalar) -> tuple[bytes, bytes]:
    """Encode type and value as bytes, so that no two different values share an encoding."""
    if not value.is_valid:
        return b"null", b""
    kind = str(value.type).encode()
    match value:
        case pa.StringScalar() | pa.LargeStringScalar() | pa.BinaryScalar() | pa.FixedSizeBinaryScalar():
            buffer = value.as_buffer()
            return kind, b"" if buffer is None else buffer.to_pybytes()
        case pa.FloatScalar() | pa.DoubleScalar():
            return kind, struct.pack("<d", value.as_py())
        case pa.TimestampScalar() | pa.Date32Scalar() | pa.Date64Scalar() | pa.Time32Scalar() | pa.Time64Scalar():
            return kind, str(value.value).encode()
        case _:
            return kind, str(value.as_py()).encode()
