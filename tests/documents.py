"""The documents of the project: its pages, their blocks of code, tables, headings and links."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parent.parent
PAGES = tuple(
    sorted(
        page.relative_to(TOP).as_posix()
        for pattern in (
            "*.md",
            ".github/*.md",
            "server/**/*.md",
            "client/**/*.md",
            "docker/**/*.md",
            "tests/**/*.md",
            "benchmarks/**/*.md",
        )
        for page in TOP.glob(pattern)
    )
)
"""Every Markdown file of the project, by its path from the top."""
DOCUMENTS = tuple(page for page in PAGES if page.startswith(("README.md", ".github/", "server/", "client/")))
"""Those that are about the service and its clients."""

_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str, section: str | None = None) -> str:
    """Return the text of a page, or of one of its sections by the heading of that (level 2)."""
    text = (TOP / page).read_text()
    if section is None:
        return text
    _, found, rest = text.partition(f"\n## {section}\n")
    assert found, f"{page} has no section {section!r}"
    return rest.partition("\n## ")[0]


def blocks(page: str, language: str, section: str | None = None) -> list[str]:
    """Return the fenced blocks of one language, in their order."""
    return [code for name, code in _FENCED.findall(text_of(page, section)) if name == language]


def without_code(text: str) -> str:
    """Return a text without its fenced blocks."""
    return _FENCED.sub("", text)


def rows_of(page: str, section: str | None = None) -> list[list[str]]:
    """Return the cells of every table row, the rows of headings too."""
    lines = [line for line in without_code(text_of(page, section)).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
