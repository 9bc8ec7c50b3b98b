"""How Sphinx makes a site of the documents: ``make docs``.

The sources are the Markdown files as they are, so the root of the repository is the source folder (``-c docs .``):
links between them mean the same here and where the repository is browsed.  What only the site has stands in this file:
the order of the pages, and what names in docstrings are looked for as.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]  # for the reference and for sphinx_parts

project = "tl_dpnp"
author = "The tl_dpnp developers"
project_copyright = author
extensions = [
    "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design",
    "sphinx_parts.gallery",
]

#: The pages by the captions of the side bar.
PAGES = {
    "Using it": ["docs/installing", "docs/coming_from", "docs/calling", "docs/fusion", "docs/cupy",
                 "docs/pytorch", "docs/distributed", "docs/export", "docs/gallery/index"],
    "The language": ["docs/language", "docs/instructions", "docs/glossary", "editors/README"],
    "Speed": ["docs/benchmarks", "docs/realistic-programs", "docs/schedules", "docs/tuning", "docs/amx", "docs/xmx",
              "docs/cuda"],
    "Reference": ["docs/api", "docs/settings", "docs/cache", "docs/debugging"],
    "The project": ["docs/architecture", "CONTRIBUTING", "docs/stability", "asv_bench/README", "CHANGELOG"],
}
#: Titles in the side bar of pages whose own is another page's as well.
TITLES = {"asv_bench/README": "Running the benchmarks"}

root_doc = "README"
include_patterns = ["README.md", *(f"{page}.*" for pages in PAGES.values() for page in pages), "docs/gallery/*.md"]
exclude_patterns = [".*", "build", "tests", "tl_dpnp", "tools"]
suppress_warnings = ["myst.header"]  # an entry of the change log may lack a level

# --- Markdown --------------------------------------------------------------------------------------------------------

source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
highlight_language = "text"

# --- the reference ---------------------------------------------------------------------------------------------------

default_role = "py:obj"
nitpicky = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"

# --- appearance ------------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = "tl_dpnp"
html_static_path = ["sphinx_parts/site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"


def _read(app: Any, name: str, text: list[str]) -> None:
    """Give pages the gallery in place of the list of its programs, and the start page the side bar."""
    text[0] = re.sub(r"\]\(examples/README\.md(#[\w-]+)?\)", "](/docs/gallery/index.md)", text[0])
    if name == root_doc:
        for caption, pages in PAGES.items():
            listed = "\n".join(f"{TITLES[page]} </{page}>" if page in TITLES else f"/{page}" for page in pages)
            text[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def _resolve(app: Any, environment: Any, node: Any, content: Any) -> Any:
    """Find a name in single quotes among the public ones; what is none stays a name: a parameter, a private type."""
    objects = environment.domains["py"]
    target = node.get("reftarget", "").removesuffix("()")
    for name in (f"tl_dpnp.{target}", f"tl_dpnp.language.{target}"):
        if name in objects.objects:
            return objects.resolve_xref(environment, node["refdoc"], app.builder, "obj", name, node, content)
    return content if node.get("refdomain") == "py" else None


def _redirect(app: Any, error: Exception | None) -> None:
    """Have the root of the site lead to the start page."""
    if error is None and app.builder.name == "html":
        Path(app.outdir, "index.html").write_text(
            f'<!doctype html>\n<meta charset="utf-8">\n<title>{project}</title>\n'
            f'<meta http-equiv="refresh" content="0; url={root_doc}.html">\n', encoding="utf-8")


def setup(app: Any) -> None:
    """Register what stands above."""
    app.connect("source-read", _read)
    app.connect("missing-reference", _resolve)
    app.connect("build-finished", _redirect)
