"""The kinds of index that a namespace can have: Lance's, under the names that SQL has for them, with their options.

```text
scalar   btree · bitmap · zonemap · bloomfilter · label_list · ngram      used by filters
text     inverted                                                         used by full_text_search
vector   ivf_flat · ivf_sq · ivf_pq · ivf_rq · ivf_hnsw_flat · ivf_hnsw_sq · ivf_hnsw_pq     used by vector_search
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

import pyarrow as pa

from lance_flight.errors import InvalidInput
from lance_flight.model.arrow_types import is_multivector, vector_type

OptionValue = str | int | float | bool


class Family(Enum):
    """Kind of search that an index serves."""

    SCALAR = "scalar"
    TEXT = "text"
    VECTOR = "vector"


class Lookup(Enum):
    """Conditions that a scalar index finds rows by, without their column being read."""

    VALUE = "a value"
    RANGE = "a range of values, or NULL"
    ELEMENT = "an element of a list"
    SUBSTRING = "a part of a text"


METRICS = ("l2", "cosine", "dot", "hamming")
"""Distances between vectors; the least is the nearest: the squared length, 1 - cosine, 1 - dot product, differing bits."""

BYTE_METRIC = "hamming"
"""The one for vectors of bytes, and for no others."""

MULTIVECTOR_METRIC = "cosine"
"""The one for indices of multivectors."""

_TEXT: Mapping[str, type] = MappingProxyType(
    {
        "with_position": bool,
        "base_tokenizer": str,
        "language": str,
        "stem": bool,
        "lower_case": bool,
        "remove_stop_words": bool,
        "ascii_folding": bool,
        "max_token_length": int,
        "min_ngram_length": int,
        "max_ngram_length": int,
        "prefix_only": bool,
    }
)
_IVF: Mapping[str, type] = MappingProxyType({"metric": str, "num_partitions": int})
_PQ: Mapping[str, type] = MappingProxyType({"num_sub_vectors": int, "num_bits": int})
PACKED_BITS = 4
"""So few that Lance puts the numbers of two sub-vectors into a byte."""
_BITS = (PACKED_BITS, 8)
"""Lance refuses others when it learns, and where 12 or more ask for more vectors than there are, it indexes nothing."""
_LEAST_EDGES, _EDGES, _BREADTH = 4, 20, 150
"""Of a graph: the least `m`, and what Lance takes for `m` and `ef_construction` where nothing is said."""
_GRAMS: Mapping[str, OptionValue] = MappingProxyType(
    {"min_ngram_length": 3, "max_ngram_length": 3, "prefix_only": False}
)
"""What Lance takes for the options of n-grams where nothing is said."""
MOST_GRAM = 32
"""Longest n-grams: an index has one for each length and character of a text."""
_GRAPH_ROWS = 1 << 20
_HNSW: Mapping[str, type] = MappingProxyType({"m": int, "ef_construction": int})


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKind:
    """One kind of index: its name in Lance, its options, and the number of rows that makes it worth having.

    A table with fewer rows is read as fast without, and small tables without an index are read several at a time.
    `rows_of_part` are those that Lance puts into one part of an index of vectors, where nothing else is asked for. Filters look up
    `lookups` in it.
    """

    name: str
    family: Family
    options: Mapping[str, type] = field(default_factory=dict)
    least_rows: int = 4096
    rows_of_part: int = 4096
    lookups: frozenset[Lookup] = frozenset()

    def __reduce__(self) -> tuple[Callable[[str], IndexKind], tuple[str]]:
        # Processes that build an index are sent its kind, whose mappings of options cannot all be pickled.
        return index_kind, (self.name,)

    @property
    def is_quantised(self) -> bool:
        """True if the index stores quantised vectors: the numbers of learnt pieces that they are made of."""
        return "num_sub_vectors" in self.options

    @property
    def stores_vectors(self) -> bool:
        """True if the index stores vectors as they are."""
        return self.family is Family.VECTOR and self.name.endswith("flat")

    @property
    def lance(self) -> str:
        """Return the name of this kind in Lance."""
        return self.name.upper()

    def check_options(self, options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
        """Return the options with values of their types.

        `InvalidInput` names the one that cannot be, by itself or beside others.
        """
        checked = {name: self._check_option(name, value) for name, value in options.items()}
        for name, is_right, expected in _bounds(checked):
            if not is_right:
                raise InvalidInput(f"option {name!r} of an index is {checked[name]!r}; expected {expected}")
        return checked

    def _check_option(self, name: str, value: OptionValue) -> OptionValue:
        known = self.options.get(name)
        if known is None:
            raise InvalidInput(
                f"an index of kind {self.name} has no option {name!r}; expected {_list_words(self.options)}"
            )
        if known is bool and isinstance(value, str) and value.lower() in _BOOLEANS:
            return _BOOLEANS[value.lower()]
        if known is int and isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if type(value) is not known or (known is int and int(value) < 1):
            expected = "a number above 0" if known is int else known.__name__
            raise InvalidInput(f"option {name!r} of an index is {value!r}; expected {expected}")
        if name == "metric":
            return checked_metric(str(value))
        return value


def _bounds(options: Mapping[str, OptionValue]) -> Iterator[tuple[str, bool, str]]:
    """Yield each option that has bounds, whether it keeps them, and what is expected."""
    bits, sub_vectors = options.get("num_bits"), options.get("num_sub_vectors")
    edges, breadth = (int(options.get(name, known)) for name, known in (("m", _EDGES), ("ef_construction", _BREADTH)))
    yield from _gram_bounds(options)
    if bits is not None:
        yield "num_bits", bits in _BITS, " or ".join(map(str, _BITS))
    if sub_vectors is not None and bits == PACKED_BITS:
        yield "num_sub_vectors", int(sub_vectors) % 2 == 0, f"an even number where num_bits is {PACKED_BITS}"
    if "m" in options:
        yield "m", edges >= _LEAST_EDGES, f"{_LEAST_EDGES} or more"
        yield "m", edges <= breadth, f"no more than ef_construction, which is {breadth}"
    if "ef_construction" in options:
        yield "ef_construction", edges <= breadth, f"no less than m, which is {edges}"


def _gram_bounds(options: Mapping[str, OptionValue]) -> Iterator[tuple[str, bool, str]]:
    is_used = options.get("base_tokenizer") == "ngram"
    least, most = (int(options.get(name, _GRAMS[name])) for name in ("min_ngram_length", "max_ngram_length"))
    for name, usual in _GRAMS.items():
        if name in options:
            yield name, is_used or options[name] == usual, f"{usual}, since base_tokenizer is not 'ngram'"
    if "max_ngram_length" in options:
        yield "max_ngram_length", least <= most <= MOST_GRAM, f"from {least} (min_ngram_length) to {MOST_GRAM}"
    if "min_ngram_length" in options:
        yield "min_ngram_length", least <= most, f"no more than max_ngram_length, which is {most}"


_BOOLEANS = MappingProxyType({"true": True, "on": True, "false": False, "off": False})

COMPARED = frozenset({Lookup.VALUE, Lookup.RANGE})
"""What comparisons with literals look up."""
_SCALAR = MappingProxyType(
    {
        "btree": COMPARED,
        "bitmap": COMPARED,
        "zonemap": COMPARED,
        "bloomfilter": frozenset({Lookup.VALUE}),
        "ngram": frozenset({Lookup.SUBSTRING}),
    }
)

KINDS: Mapping[str, IndexKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            *(IndexKind(name=name, family=Family.SCALAR, lookups=lookups) for name, lookups in _SCALAR.items()),
            # Lance reads all of such an index to open it: 4 ms of 1,000 elements, 20 ms of 12,000, as long as 40,000 lists take.
            IndexKind(name="label_list", family=Family.SCALAR, lookups=frozenset({Lookup.ELEMENT}), least_rows=16_384),
            IndexKind(name="inverted", family=Family.TEXT, options=_TEXT, least_rows=0),
            IndexKind(name="ivf_flat", family=Family.VECTOR, options=_IVF),
            IndexKind(name="ivf_sq", family=Family.VECTOR, options=_IVF),
            IndexKind(name="ivf_pq", family=Family.VECTOR, options={**_IVF, **_PQ}, rows_of_part=8192),
            IndexKind(name="ivf_rq", family=Family.VECTOR, options=_IVF),
            IndexKind(name="ivf_hnsw_flat", family=Family.VECTOR, options={**_IVF, **_HNSW}, rows_of_part=_GRAPH_ROWS),
            IndexKind(name="ivf_hnsw_sq", family=Family.VECTOR, options={**_IVF, **_HNSW}, rows_of_part=_GRAPH_ROWS),
            IndexKind(
                name="ivf_hnsw_pq", family=Family.VECTOR, options={**_IVF, **_PQ, **_HNSW}, rows_of_part=_GRAPH_ROWS
            ),
        )
    }
)
ALIASES: Mapping[str, str] = MappingProxyType({"hnsw": "ivf_hnsw_sq", "fts": "inverted", "vector": "ivf_pq"})


def index_kind(name: str) -> IndexKind:
    """Return the kind of this name, in any case, or of an alias; `InvalidInput` lists what there is.

    >>> index_kind("HNSW").lance
    'IVF_HNSW_SQ'
    """
    lower = name.lower()
    kind = KINDS.get(ALIASES.get(lower, lower))
    if kind is None:
        raise InvalidInput(f"index kind {name!r}; expected one of {', '.join([*KINDS, *ALIASES])}")
    return kind


def checked_metric(name: str) -> str:
    """Return a metric in lower case; `InvalidInput` lists what there is."""
    if name.lower() not in METRICS:
        raise InvalidInput(f"metric is {name!r}; expected one of {', '.join(METRICS)}")
    return name.lower()


def metrics_of(column: pa.DataType) -> Sequence[str]:
    """Return the metrics that vectors of a type are compared by: what is no vector of bytes, by all that floats are."""
    kind = vector_type(column)
    are_bytes = pa.types.is_fixed_size_list(kind) and pa.types.is_uint8(kind.value_type)
    return [metric for metric in METRICS if (metric == BYTE_METRIC) == are_bytes]


def index_metrics_of(column: pa.DataType) -> Sequence[str]:
    """Return the metrics that an index of vectors of a type may have: Lance builds those of multivectors by one alone."""
    known = metrics_of(column)
    return [metric for metric in known if metric == MULTIVECTOR_METRIC] if is_multivector(column) else known


def fitting_metric(column: pa.Field, name: str, metrics: Callable[[pa.DataType], Sequence[str]] = metrics_of) -> str:
    """Return a metric in lower case that vectors of a column are compared by, one of `metrics` of its type; `InvalidInput` lists those."""
    metric, fitting = checked_metric(name), metrics(column.type)
    if metric not in fitting:
        expected = ", ".join(fitting) or "none"
        raise InvalidInput(
            f"metric is {name!r}; expected {expected} for column {column.name!r}, which is {column.type}"
        )
    return metric


def _list_words(options: Mapping[str, type]) -> str:
    return ", ".join(options) or "none"
