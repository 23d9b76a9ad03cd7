"""The browser that tests drive."""

from __future__ import annotations

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The one of this machine; None leaves it to Playwright, which may have downloaded one."""
