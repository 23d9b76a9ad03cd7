"""The browser that tests drive."""

from __future__ import annotations

import shutil
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The one of this machine; None leaves it to Playwright, which may have downloaded one."""

FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--process-per-site", "--disable-gpu"]
"""All pages of a console in one process, which a page of its own would keep busy for a second or two, and nothing for graphics."""


def expect(what: Any) -> Any:
    """What is expected of a page or a part of it, by Playwright, which takes half a second to import."""
    from playwright.sync_api import expect as expected

    expected.set_options(timeout=15_000)
    return expected(what)
