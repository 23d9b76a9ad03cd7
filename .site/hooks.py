"""Collects the pages of the two trees for MkDocs, and draws their diagrams while it builds."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import mmdr
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from pymdownx.slugs import slugify

TOP = Path(__file__).parent.parent
PAGES = (
    "README.md",
    ".github/*.md",
    "server/*.md",
    "server/docs/*.md",
    "client/README.md",
    "client/docs/*.md",
    "client/docs/*.png",
    "tests/README.md",
)
LOOK = {"theme": "neutral", "fontFamily": "arial, sans-serif"}


def diagram(source: str, *_: Any, **__: Any) -> str:
    """Draw a Mermaid diagram as SVG, so that a reader's browser fetches no script."""
    drawn = mmdr.render(f"%%{{init: {json.dumps(LOOK)}}}%%\n{source}").svg()
    # Its styles hold for an id, which several diagrams of a page must not share.
    name = "diagram-" + hashlib.sha256(source.encode()).hexdigest()[:8]
    return f'<div class="diagram">{drawn.replace("merman", name)}</div>'


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Draw blocks of Mermaid, and name the anchors of headings as GitHub does."""
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [{"name": "mermaid", "class": "mermaid", "format": diagram}]
    }
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every page and picture under its path in the repository, so that links between them hold."""
    for pattern in PAGES:
        for path in sorted(TOP.glob(pattern)):
            name = path.relative_to(TOP).as_posix()
            file = File.generated(config, name, abs_src_path=str(path), inclusion=InclusionLevel.INCLUDED)
            file.dest_uri = file.dest_uri.lstrip(".")  # hosts of sites hide directories that begin with a dot
            files.append(file)
    return files
