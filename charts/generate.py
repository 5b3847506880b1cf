"""Write what can be derived: `python -m charts.generate [--check]`.

RBAC comes from the components' access tables, the chart's README from its values, the users' page
of kinds from the syncer's verdict tables.

Owns the generated files. Must not know why a component needs a permission, which is in its table.
Hazard: the tables must be complete, because a component has no other permissions. A file that was
edited by hand is overwritten.
"""

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from charts import kinds_page, readme
from syncer.rbac import (
    CREDENTIAL_RBAC_RULES,
    NAMESPACE_RBAC_RULES,
    SUPER_RBAC_RULES,
    TARGET_RBAC_RULES,
    TENANT_RBAC_RULES,
)
from tenancy import wellknown
from tenancy.rbac import InvalidRbacRuleError, RbacRule
from vcmanager.rbac import API_PROXY_RBAC_RULES
from vcmanager.rbac import RBAC_RULES as MANAGER_ACCESS
from vnagent.rbac import RBAC_RULES as AGENT_ACCESS
from vnagent.rbac import TARGET_HOME_RBAC_RULES
from vnagent.rbac import TARGET_RBAC_RULES as TARGET_AGENT_ACCESS

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = Path("charts/virtual-cluster/templates")
TENANT_ROLE = Path("clusterversions/bootstrap/syncer-role.yaml")
TARGET_FOLDER = Path("clusterversions/targets")
TARGET_ROLE = TARGET_FOLDER / "cluster-role.yaml"
TARGET_NAMESPACE_ROLE = TARGET_FOLDER / "namespace-role.yaml"
TARGET_AGENT_ROLES = {
    mode: TARGET_FOLDER / f"agent-role-{mode}.yaml" for mode in TARGET_AGENT_ACCESS
}
ACCOUNTS_NAMESPACE = "ACCOUNTS_NAMESPACE"
"""Placeholder in the generated policy, which `kubectl vc target join` replaces."""
_OWN_TOKEN = (
    "variables.kind == '/serviceaccounts' && variables.subResource == 'token' && variables.place =="
    f" '{ACCOUNTS_NAMESPACE}' && request.?name.orValue('') in ['{wellknown.SYNCER}',"
    f" '{wellknown.AGENT}']"
)
TARGET_POLICIES: Mapping[str, tuple[str, str]] = {
    "syncer-policy.yaml": ('expression: "false"', f"expression: >-\n        {_OWN_TOKEN}"),
    "agent-policy.yaml": ('expression: "true"', 'expression: "false"'),
}
"""Templates of the policies that a target also gets, with the one expression that differs there."""
README = Path("charts/virtual-cluster/README.md")
KINDS_PAGE = Path("docs/kinds.md")
WIDTH = 100


@dataclass(frozen=True, slots=True)
class ChartComponent:
    """One component: its account in the chart, and the file of its access table."""

    account: str
    table: str
    rows: tuple[RbacRule, ...]
    unbound: Mapping[str, tuple[RbacRule, ...]] = field(default_factory=dict)
    """ClusterRoles without a binding, by name. A component binds them in single namespaces."""
    enabled_by: str = ""
    """Chart value without which the component does not exist. Empty: it always exists."""


COMPONENTS = (
    ChartComponent(wellknown.MANAGER, "vcmanager/rbac.py", tuple(MANAGER_ACCESS)),
    ChartComponent(
        wellknown.SYNCER,
        "syncer/rbac.py",
        tuple(SUPER_RBAC_RULES),
        {
            wellknown.SYNCER_NAMESPACE_ROLE: NAMESPACE_RBAC_RULES,
            wellknown.SYNCER_CREDENTIAL_ROLE: CREDENTIAL_RBAC_RULES,
        },
    ),
    ChartComponent(wellknown.AGENT, "vnagent/rbac.py", tuple(AGENT_ACCESS)),
    ChartComponent(wellknown.TARGET_AGENT, "vnagent/rbac.py", tuple(TARGET_HOME_RBAC_RULES)),
    ChartComponent(
        wellknown.API_PROXY,
        "vcmanager/rbac.py",
        API_PROXY_RBAC_RULES,
        enabled_by="apiProxy.enabled",
    ),
)


def build_files() -> dict[Path, str]:
    """Return each generated file: its path relative to the repository and its content."""
    found = {
        TEMPLATES / f"{each.account}-rbac.yaml": _build_chart_file(each) for each in COMPONENTS
    }
    return {
        **found,
        TENANT_ROLE: _build_cluster_role(wellknown.SYNCER_USER, tuple(TENANT_RBAC_RULES)),
        TARGET_ROLE: _build_cluster_role("virtual-cluster:target", tuple(TARGET_RBAC_RULES)),
        TARGET_NAMESPACE_ROLE: _build_cluster_role(
            wellknown.SYNCER_NAMESPACE_ROLE, tuple(NAMESPACE_RBAC_RULES)
        ),
        **{
            path: _build_cluster_role(
                "virtual-cluster:target-agent", TARGET_AGENT_ACCESS[mode], table="vnagent/rbac.py"
            )
            for mode, path in TARGET_AGENT_ROLES.items()
        },
        **{TARGET_FOLDER / name: build_target_policy(name) for name in TARGET_POLICIES},
        README: readme.build_readme(),
        KINDS_PAGE: kinds_page.build_page(),
    }


def build_target_policy(name: str) -> str:
    """Return the admission policy of an account for a target, from the chart's template.

    The templates have no conditions, so their few expressions are replaced here.
    """
    template, (at_home, in_target) = (ROOT / TEMPLATES / name).read_text(), TARGET_POLICIES[name]
    texts = dict(re.findall(r'{{- \$(\w+) := "(.*)" }}', template))
    text = re.sub(r"^{{- /\*.*?\*/ -}}\n", "", template, flags=re.DOTALL)
    text = re.sub(r"^{{- \$.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^  labels:\n +{{- include .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r'{{ printf \$(\w+) "(\w+)" }}', lambda found: texts[found[1]] % found[2], text)
    text = re.sub(r"{{ (\.Release\.Namespace|\$release) }}", ACCOUNTS_NAMESPACE, text)
    if text.count(at_home) != 1:
        raise ValueError(f"{name} must have {at_home} once, which a target replaces")
    text = text.replace(at_home, in_target)
    if "{{" in text:
        raise ValueError(f"{name} has an expression that is unknown here. Add it")
    return _build_header(str(TEMPLATES / name)) + text


def list_stale(root: Path) -> list[Path]:
    """Return the generated files that are missing or differ from the tables."""
    return [path for path, text in build_files().items() if not _is_current(root / path, text)]


def format_rules(rows: Iterable[RbacRule]) -> str:
    """Return the rows as the rules of a role, in the order of the table, each with its reason."""
    return "".join(_format_rule(row) for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the stale files. With --check, only print their names and return 1."""
    parser = argparse.ArgumentParser(prog="python -m charts.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on stale files")
    check = parser.parse_args(arguments).check
    found = list_stale(ROOT)
    for path in found:
        sys.stdout.write(f"{path} {'is stale' if check else 'written'}\n")
        if not check:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(build_files()[path])
    return 1 if check and found else 0


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


def _build_chart_file(component: ChartComponent) -> str:
    wide = [row for row in component.rows if not row.namespaced]
    narrow = [row for row in component.rows if row.namespaced]
    name = f"virtual-cluster:{component.account}"
    documents = []
    if wide:
        documents += _build_role("ClusterRole", name, component.account, wide, namespaced=False)
    if narrow:
        documents += _build_role(
            "Role", component.account, component.account, narrow, namespaced=True
        )
    for role, rows in component.unbound.items():
        documents += _build_role("ClusterRole", role, component.account, rows, namespaced=False)[:1]
    text = "---\n".join(documents)
    if component.enabled_by:
        text = f"{{{{- if .Values.{component.enabled_by} }}}}\n{text}{{{{- end }}}}\n"
    return _build_header(component.table) + text


def _build_role(
    kind: str, name: str, account: str, rows: Iterable[RbacRule], *, namespaced: bool
) -> list[str]:
    labels = (
        '  labels:\n    {{- include "virtual-cluster.labels" (dict "root" . "component" "'
        f'{account}") | nindent 4 }}}}\n'
    )
    where = "  namespace: {{ .Release.Namespace }}\n" if namespaced else ""
    return [
        (
            f"apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n"
            f"{where}{labels}rules:\n{format_rules(rows)}"
        ),
        (
            f"apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}Binding\nmetadata:\n"
            f"  name: {name}\n{where}{labels}"
            f"roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {name}\n"
            f"subjects:\n  - kind: ServiceAccount\n    name: {account}\n"
            "    namespace: {{ .Release.Namespace }}\n"
        ),
    ]


def _build_cluster_role(
    name: str, rows: tuple[RbacRule, ...], *, table: str = "syncer/rbac.py"
) -> str:
    for row in rows:
        if row.namespaced:
            raise InvalidRbacRuleError(
                f"{row} is for one namespace, but the role {name} holds everywhere; set"
                " namespaced=False"
            )
    return (
        _build_header(table)
        + "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n"
        + f"  name: {name}\nrules:\n{format_rules(rows)}"
    )


def _build_header(table: str) -> str:
    return f"# Written by `python -m charts.generate` from {table}. Change it there.\n"


def _format_rule(row: RbacRule) -> str:
    first, last = _build_conditions(row)
    lines = [
        *first,
        *(f"  # {line}" for line in textwrap.wrap(row.reason, WIDTH - 4)),
        f'  - apiGroups: ["{row.group}"]',
        *_format_list("resources", row.resources),
        *(_format_list("resourceNames", row.names) if row.names else ()),
        *_format_list("verbs", row.verbs),
        *last,
    ]
    return "\n".join(lines) + "\n"


def _build_conditions(row: RbacRule) -> tuple[Sequence[str], Sequence[str]]:
    """Return the template lines around a row that depends on a value of the chart."""
    if row.enabled_by is None:
        return (), ()
    value, choices = row.enabled_by
    if choices == ("true",):  # a switch
        return [f"  {{{{- if .Values.{value} }}}}"], ["  {{- end }}"]
    spelled = " ".join(f'"{choice}"' for choice in choices)
    return [f"  {{{{- if has .Values.{value} (list {spelled}) }}}}"], ["  {{- end }}"]


def _format_list(key: str, values: Sequence[str]) -> list[str]:
    inline = f"    {key}: [{', '.join(values)}]"
    if len(inline) <= WIDTH:
        return [inline]
    return [f"    {key}:", *(f"      - {value}" for value in values)]


if __name__ == "__main__":
    sys.exit(main())
