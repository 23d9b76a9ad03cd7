"""Full-text queries: words, phrases and what must or must not be there, as Lance takes them.

```text
query = part { part }          part = [+|-] ( word | "several words" )
```
A row matches where it has any of the parts; `+` ones must be there, `-` ones must not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Self

from lance.query import BooleanQuery, FullTextOperator, FullTextQuery, MatchQuery, Occur, PhraseQuery

from lance_flight.errors import InvalidInput

_PART = re.compile(r"""(?P<sign>[+-]?)(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))""")


class Mode(Enum):
    """What a query without signs asks for: any of its words, all of them, or all of them side by side."""

    ANY = "any"
    ALL = "all"
    PHRASE = "phrase"

    @classmethod
    def named(cls, name: str) -> Self:
        """The mode of a name, in any case; `InvalidInput` lists what there is."""
        try:
            return cls(name.lower())
        except ValueError:
            raise InvalidInput(
                f"mode of a full-text search is {name!r}; expected {', '.join(mode.value for mode in cls)}"
            ) from None


def needs_index(words: str, *, mode: Mode, fuzziness: int = 0) -> bool:
    """Whether Lance answers a query from an index alone: one of phrases, or of words that may differ."""
    return mode is Mode.PHRASE or fuzziness > 0 or '"' in words


def text_query(words: str, *, mode: Mode, fuzziness: int = 0, slop: int = 0) -> Callable[[str], FullTextQuery]:
    """What makes the query for a column; `fuzziness` letters of a word, and `slop` words of a phrase, may differ.

    >>> type(text_query('lance +"open format"', mode=Mode.ANY)("body")).__name__
    'BooleanQuery'
    """
    if mode is Mode.PHRASE:
        return lambda column: PhraseQuery(words, column, slop=slop)
    found = list(_PART.finditer(words))
    if not any(part["sign"] or part["phrase"] is not None for part in found):
        operator = FullTextOperator.AND if mode is Mode.ALL else FullTextOperator.OR
        return lambda column: MatchQuery(words, column, operator=operator, fuzziness=fuzziness)
    plain = Occur.MUST if mode is Mode.ALL else Occur.SHOULD
    signs = {"+": Occur.MUST, "-": Occur.MUST_NOT, "": plain}

    def query(column: str) -> FullTextQuery:
        return BooleanQuery([(signs[part["sign"]], _part(part, column, fuzziness, slop)) for part in found])

    return query


def _part(part: re.Match[str], column: str, fuzziness: int, slop: int) -> FullTextQuery:
    if part["phrase"] is not None:
        return PhraseQuery(part["phrase"], column, slop=slop)
    return MatchQuery(part["word"], column, fuzziness=fuzziness)
