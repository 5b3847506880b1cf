"""Sphinx configuration of the documentation site, for `make docs`.

Owns the navigation. The pages are plain GitHub Markdown without directives, so Sphinx gets the
navigation while it reads the first page. Hazard: a page that no section lists fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = {
    "Evaluate": (
        "README",
        "docs/compare",
        "docs/limits",
        "docs/faq",
        "docs/support",
        "docs/conformance",
    ),
    "Tutorials": ("docs/tutorials/*",),
    "How to, platform administrator": (
        *("docs/install", "docs/install-kind", "docs/install-k3s", "docs/install-kubeadm"),
        "docs/install-managed",
        *("docs/move-from-vcluster", "docs/usage", "docs/policy", "docs/untrusted-tenants"),
        *(
            "docs/sync-rules",
            "docs/storage",
            "docs/volume-snapshots",
            "docs/ingress",
            "docs/gateway-api",
            "docs/dynamic-resources",
            "docs/networks",
        ),
        *("docs/tenant-content", "docs/autoscaling"),
        *("docs/targets", "docs/snapshots", "docs/api-proxy", "docs/ui", "docs/troubleshooting"),
        *("docs/monitoring", "docs/gitops", "docs/cluster-api", "docs/cluster-inventory"),
        "docs/release",
        "docs/runbooks/README",
    ),
    "Walkthroughs": ("docs/walkthroughs/README", "docs/walkthroughs/0*"),
    "Reference": (
        *("docs/reference/*", "docs/kinds", "charts/virtual-cluster/README", "docs/glossary"),
    ),
    "Explanation": ("docs/concepts", "ARCHITECTURE", "SECURITY", "docs/performance"),
    "Project": (
        *("CONTRIBUTING", "CHANGELOG", "docs/reliability", "docs/machine", "docs/offload"),
        "docs/security-findings",
        "docs/adr/README",
    ),
}
"""Pages by section of the site (Diataxis). A pattern stands for its pages, by their names."""
NESTED = {
    "docs/runbooks/README": "docs/runbooks/VirtualCluster*",
    "docs/adr/README": "docs/adr/0*",
}
"""Index pages, and the pages below each."""

project = "virtual-cluster"
author = "the virtual-cluster maintainers"
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = [
    *("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("charts/virtual-cluster/README.md", "docs/**.md"),
]
myst_heading_anchors = 4
myst_enable_extensions = ["alert"]
html_theme = "furo"
html_title = "virtual-cluster"


def _build_toctree(pages: tuple[str, ...], title: str = "") -> str:
    options = [":hidden:", ":glob:", *([f":caption: {title}"] if title else [])]
    return "\n".join(["", "```{toctree}", *options, "", *(f"/{page}" for page in pages), "```", ""])


def _add_navigation(_app: Sphinx, name: str, content: list[str]) -> None:
    if name == root_doc:
        content[0] += "".join(_build_toctree(pages, title) for title, pages in SECTIONS.items())
    elif name in NESTED:
        content[0] += _build_toctree((NESTED[name],))


def _name_folders(_app: Sphinx, name: str, content: list[str]) -> None:
    """Replace links to folders and to code by their text, which the site does not contain."""
    here = (ROOT / name).parent

    def replace(found: re.Match[str]) -> str:
        path = here / found[2].partition("#")[0]
        return found[0] if path.suffix == ".md" else found[1]

    content[0] = re.sub(r"\[([^\]\n]+)\]\((?!https?:|#)([^)\s]+)\)", replace, content[0])


def setup(app: Sphinx) -> None:
    """Register the two changes of pages while they are read."""
    app.connect("source-read", _add_navigation)
    app.connect("source-read", _name_folders)
