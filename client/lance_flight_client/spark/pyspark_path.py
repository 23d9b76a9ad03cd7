"""The PySpark that a process imports: the installed one, rather than the copy of it in an archive.

Spark puts `pyspark.zip` first on the path of its Python workers. Python keeps no compiled modules of an archive, so that each process that is
not forked compiles them anew: more than a second of a core.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

_ARCHIVE = Path("pyspark", "python", "lib", "pyspark.zip")


def prefer_installed() -> None:
    """Take the archive of PySpark off `sys.path` where the PySpark that it belongs to is installed; to be called before that is imported."""
    if "pyspark" not in sys.modules:
        sys.path[:] = without_archives(sys.path)


def without_archives(path: Sequence[str]) -> list[str]:
    """Return a search path without the archives that lie in a PySpark which it has as a directory as well.

    >>> without_archives(["", "/spark/python/lib/pyspark.zip", "/site-packages"])
    ['', '/spark/python/lib/pyspark.zip', '/site-packages']
    """
    copies = {str(Path(each) / _ARCHIVE) for each in path if (Path(each) / _ARCHIVE).exists()}
    return [each for each in path if each not in copies]
