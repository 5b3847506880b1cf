"""The chart's README: how to install it, and each value with its default and meaning.

Owns the text around the table. The table comes from `values.schema.json` and `values.yaml`, so that
it cannot be wrong.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

MAX_DEFAULT_LENGTH = 120
CHART = Path(__file__).resolve().parent / "virtual-cluster"

_HEAD = """\
# virtual-cluster

A Kubernetes control plane for each of many tenants on one cluster, the super cluster. Needs
Kubernetes 1.33 or newer, a default StorageClass, and nodes that can pull the images.

```
helm install virtual-cluster charts/virtual-cluster \\
  --namespace vc-manager --create-namespace --set image.registry=REGISTRY/PREFIX
```

One installation serves one super cluster. The chart installs:

- the custom resource definitions
- vc-manager, the syncer, and an agent on each node
- an account for each of them, with its own narrow role
- a ClusterVersion for each Kubernetes minor, and four TenantPolicies
- seven roles for users and programs

With `apiProxy.enabled` it also installs one Service for the APIs of all tenants
([how to](../../docs/api-proxy.md)). vc-manager also creates an agent for each target (custom
resource `SuperCluster`).

| Role | Rights |
|---|---|
| `virtual-cluster-view` | see VirtualClusters. Part of the usual role `view` |
| `virtual-cluster-edit` | manage the VirtualClusters of a namespace, and fetch their kubeconfigs |
| `virtual-cluster-admin` | the same, with the verbs suspend and use |
| `virtual-cluster-versions` | see the ClusterVersions, when bound for the whole cluster |
| `virtual-cluster-policies` | see the TenantPolicies, when bound for the whole cluster |
| `virtual-cluster-metrics` | read the agents' metrics, when bound for the whole cluster |

`helm uninstall` keeps the definitions, ClusterVersions and TenantPolicies, and so all tenants. **To
remove the tenants as well, delete the VirtualClusters first, while vc-manager still runs.** Then
delete the definitions. The agents of targets are deleted with their SuperClusters.

## Values

| Value | Default | Meaning |
|---|---|---|
"""


def build_readme() -> str:
    """Return the whole README."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = (
        f"| `{path}` | {_format_default(_get_at(values, path))} | {_format_meaning(node)} |\n"
        for path, node in iterate_values(schema, schema)
    )
    return _HEAD + "".join(rows)


def iterate_values(
    node: Mapping[str, Any], schema: Mapping[str, Any], where: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each value that has no named values inside, with its dotted path."""
    for name, value in node["properties"].items():
        path = f"{where}.{name}" if where else name
        resolved = _resolve_reference(value, schema)
        if path == "global":
            continue
        if "properties" in resolved and "$ref" not in value:
            yield from iterate_values(resolved, schema, path)
        else:
            yield path, {**resolved, **value}


def _resolve_reference(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node:
        return node
    found: Mapping[str, Any] = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return found


def _get_at(values: Any, path: str) -> Any:
    for step in path.split("."):
        values = values[step]
    return values


def _format_default(value: Any) -> str:
    spelled = json.dumps(value)
    return f"`{spelled}`" if len(spelled) <= MAX_DEFAULT_LENGTH else "see `values.yaml`"


def _format_meaning(node: Mapping[str, Any]) -> str:
    choice = " or ".join(f"`{each}`" for each in node.get("enum", ()))
    meaning = str(node["description"])
    return f"{meaning} {choice}." if choice else meaning
