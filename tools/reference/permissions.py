"""Page of the permissions: each rule of each component, with its reason."""

from __future__ import annotations

from charts import generate
from tenancy.rbac import RbacRule
from tools.reference import markdown

_HEAD = markdown.build_head(
    "Permissions",
    "the access tables of the components",
    "No component has other permissions in the super cluster. A ClusterRole without a binding is"
    " bound in single namespaces.",
)
_COLUMNS = ("group", "resources", "verbs", "reason")


def build_page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for each in generate.COMPONENTS:
        parts.append(f"## {each.account}\n\nFrom `{each.table}`.\n")
        parts.append(_build_table(each.rows))
        for name, rows in each.unbound.items():
            parts.append(f"### ClusterRole {name}\n\nBound in single namespaces.\n")
            parts.append(_build_table(rows))
    return "\n".join(parts)


def _build_table(rows: tuple[RbacRule, ...]) -> str:
    return markdown.build_table(_COLUMNS, map(_build_row, rows))


def _build_row(rule: RbacRule) -> tuple[str, str, str, str]:
    resources = ", ".join(map(markdown.quote, rule.resources))
    reason = rule.reason
    if rule.enabled_by is not None:
        name, values = rule.enabled_by
        reason += f" Only if the chart value {markdown.quote(name)} is {' or '.join(values)}."
    return markdown.quote(rule.group) or "core", resources, ", ".join(rule.verbs), reason
