"""Page of the metrics: each family with type, labels and meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.packages import ROOT
from tools.reference import markdown

_SOURCES = {
    "vc-manager and syncer": ("telemetry/metrics.py", "syncer", "vcmanager"),
    "vn-agent": ("vnagent",),
}
_SUFFIXES = {"Counter": "_total", "Histogram": "_bucket"}
_KINDS = {
    "Counter": "counter",
    "Gauge": "gauge",
    "Histogram": "histogram",
    "GaugeMetricFamily": "gauge",
    "CounterMetricFamily": "counter",
}
_HEAD = markdown.build_head(
    "Metrics",
    "the declarations in `telemetry/`, `syncer/`, `vcmanager/` and `vnagent/`",
    "[Monitoring](../monitoring.md) describes how to scrape them. No label has the name of an"
    " object, except for the largest tenants.",
)


def build_page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for component, sources in _SOURCES.items():
        rows = sorted({row for source in sources for row in _iterate_source(ROOT / source)})
        parts.append(f"## {component}\n")
        parts.append(markdown.build_table(("metric", "type", "labels", "meaning"), rows))
    return "\n".join(parts)


def _iterate_source(path: Path) -> Iterator[tuple[str, str, str, str]]:
    for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                if name in _KINDS and (row := _read_declaration(name, node)):
                    yield row


def _read_declaration(kind: str, call: ast.Call) -> tuple[str, str, str, str] | None:
    texts = [_evaluate(each) for each in call.args]
    keywords = {each.arg: _evaluate(each.value) for each in call.keywords}
    if len(texts) < 2 or not isinstance(texts[0], str) or not isinstance(texts[1], str):
        return None
    labels = texts[2] if len(texts) > 2 else keywords.get("labels") or keywords.get("labelnames")
    suffix = _SUFFIXES.get(kind, "")
    name = texts[0] if texts[0].endswith(suffix) else texts[0] + suffix
    listed = ", ".join(markdown.quote(str(each)) for each in labels or ())
    return markdown.quote(name), _KINDS[kind], listed, texts[1]


def _evaluate(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:  # a name or a call
        return None
