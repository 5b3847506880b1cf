"""Environment and downward API of a super pod: the tenant's services, names and labels.

Pure. Owns the service variables that a kubelet of the tenant would set. Owns the rewriting of field
references, so that a pod reads the tenant's values. Must not know DNS.

Hazard: every container must set KUBERNETES_* itself. Otherwise the super kubelet sets these
variables to the super cluster's API.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from kubeio.cache.store import Entry
from syncer.model import object_meta
from syncer.model.tenant_view import API_SERVICE, TenantView
from syncer.rules.configuration import cache_transforms
from tenancy import names, wellknown
from tenancy.policies import BASELINE_POLICY, MetadataSpec

ServiceObject = Mapping[str, Any]
EnvironmentVariables = dict[str, str]

_PLACEHOLDER_HOST = "kubernetes.invalid"
_RECORDED_FIELDS = {"metadata.namespace": wellknown.NAMESPACE, "metadata.uid": wellknown.UID}

LABELS_FILE_ANNOTATION = f"mirror.{wellknown.DOMAIN}/labels"
"""Annotation with the tenant pod's labels, in the format of a kubelet's downward API file."""
ANNOTATIONS_FILE_ANNOTATION = f"mirror.{wellknown.DOMAIN}/annotations"
"""Annotation with the tenant pod's annotations, in the format of a kubelet's downward API file."""


def build_service_variables(
    services: Iterable[ServiceObject], namespace: str, *, links: bool
) -> EnvironmentVariables:
    """Return the variables that a kubelet derives from the Services that a pod may see."""
    found: dict[str, ServiceObject] = {}
    for service in services:
        metadata = service["metadata"]
        name, there = metadata["name"], metadata.get("namespace", "")
        if not _has_address(service):
            continue
        if (there, name) == API_SERVICE or (
            links and there == namespace and name != API_SERVICE[1]
        ):
            found[name] = service
    variables: EnvironmentVariables = {}
    for name in sorted(found):
        variables.update(_build_variables_of_service(name, found[name]["spec"]))
    return variables


def build_external_api_services(master: ServiceObject, endpoint: str) -> list[ServiceObject]:
    """Return the Service of the tenant's API as clients see it that reach it by its URL.

    Without a URL, the address is a name that does not resolve. Otherwise the kubelet would write
    the address of its own cluster.
    """
    try:
        url = urlsplit(endpoint)
        host, port = url.hostname or _PLACEHOLDER_HOST, url.port or 443
    except ValueError:
        host, port = _PLACEHOLDER_HOST, 443
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    return [{**master, "spec": {"clusterIP": host, "ports": ports}}]


class ServiceVariables:
    """Cache of the last namespace's variables, because pods of one burst are built in a row."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._cached_for: tuple[str, bool] = ("", False)
        self._services: list[Entry] = []
        self._variables: EnvironmentVariables = {}

    def get_variables(
        self, namespace: str, services: list[Entry], *, links: bool
    ) -> EnvironmentVariables:
        """Return the variables that these Services add to the pods of a namespace."""
        # Entries are never changed, so the same entries produce the same variables.
        if (namespace, links) != self._cached_for or services != self._services:
            decoded = [entry.decode() for entry in services]
            self._variables = build_service_variables(decoded, namespace, links=links)
            self._cached_for, self._services = (namespace, links), services
        return self._variables


def tenant_variables(
    view: TenantView, namespace: str, *, links: bool, linked: ServiceVariables
) -> EnvironmentVariables:
    """Return the variables that Services add to the pods of a namespace. Must not be changed.

    If `links` is False, only the Service of the tenant's API is included.
    """
    store = view.stores["Service"]
    master = store.get(*API_SERVICE)
    own = [] if master is None else [master]
    if view.get_target_network is not None:
        reached = view.get_target_network().endpoint
        services = [
            each for it in own for each in build_external_api_services(it.decode(), reached)
        ]
        return build_service_variables(services, namespace, links=False)
    if links:
        own += store.list(namespace)
    return linked.get_variables(namespace, own, links=links)


def provided_variables(
    view: TenantView,
    namespace: str,
    container: Mapping[str, Any],
    take: Callable[[int], None],
) -> Collection[str]:
    """Return the variables that the envFrom sources of a container set now.

    `take` is called with the number of keys before they are evaluated.
    """
    found: set[str] = set()
    for source in container.get("envFrom") or ():
        for field_name, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            ref = source.get(field_name) or {}
            entry = _named(view, kind, namespace, ref.get("name", ""))
            if entry is not None:
                keys = list(cache_transforms.list_variables(entry.decode()))
                take(len(keys))
                found |= {f"{source.get('prefix') or ''}{key}" for key in keys}
    return found


def _named(view: TenantView, kind: str, namespace: str, name: str) -> Entry | None:
    # The builder has already replaced the root CA's name by its super name in the copy.
    return view.stores[kind].get(
        namespace, names.TENANT_ROOT_CA if name == names.SUPER_ROOT_CA else name
    )


def _has_address(service: ServiceObject) -> bool:
    spec = service.get("spec") or {}
    return spec.get("clusterIP") not in (None, "", "None") and bool(spec.get("ports"))


def _build_variables_of_service(name: str, spec: Mapping[str, Any]) -> EnvironmentVariables:
    prefix = name.replace("-", "_").upper()
    address, ports = spec["clusterIP"], spec["ports"]
    variables = {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(ports[0]["port"]),
    }
    for port in ports:
        if port.get("name"):
            suffix = port["name"].replace("-", "_").upper()
            variables[f"{prefix}_SERVICE_PORT_{suffix}"] = str(port["port"])
    for index, port in enumerate(ports):
        protocol, number = port.get("protocol") or "TCP", port["port"]
        host = f"[{address}]" if ":" in address else address
        url = f"{protocol.lower()}://{host}:{number}"
        if index == 0:
            variables[f"{prefix}_PORT"] = url
        link = f"{prefix}_PORT_{number}_{protocol.upper()}"
        variables[link] = url
        variables[f"{link}_PROTO"] = protocol.lower()
        variables[f"{link}_PORT"] = str(number)
        variables[f"{link}_ADDR"] = address
    return variables


def build_environment(
    container: Mapping[str, Any],
    variables: EnvironmentVariables,
    provided: Collection[str],
    *,
    account: str,
    mirrors: "FieldRefRewriter",
) -> list[dict[str, Any]]:
    """Return a container's `env`: service variables first, then the tenant's own, rewritten.

    A kubelet prefers `envFrom` to service variables, and `env` to `envFrom`. Names that an
    `envFrom` source provides are therefore left out.
    """
    own = container.get("env") or []
    named = {variable.get("name") for variable in own} | set(provided)
    service = [{"name": k, "value": v} for k, v in variables.items() if k not in named]
    return service + [_rewrite_variable(variable, account, mirrors) for variable in own]


def _rewrite_variable(
    variable: dict[str, Any], account: str, mirrors: "FieldRefRewriter"
) -> dict[str, Any]:
    value_from = variable.get("valueFrom") or {}
    field = (value_from.get("fieldRef") or {}).get("fieldPath")
    if field is None:
        return variable
    if field == "spec.serviceAccountName":
        return {"name": variable["name"], "value": account}
    return {
        **variable,
        "valueFrom": {"fieldRef": mirrors.rewrite_field_ref(value_from["fieldRef"])},
    }


def rewrite_downward_items(
    items: Sequence[dict[str, Any]], mirrors: "FieldRefRewriter"
) -> list[dict[str, Any]]:
    """Return the items of a downward API volume, rewritten."""
    return [
        {**item, "fieldRef": mirrors.rewrite_field_ref(item["fieldRef"])}
        if item.get("fieldRef")
        else item
        for item in items
    ]


class FieldRefRewriter:
    """Rewriter of one pod's field references. It collects the annotations that they need."""

    def __init__(
        self, metadata: Mapping[str, Any], passing: MetadataSpec = BASELINE_POLICY.metadata
    ) -> None:
        """Create the rewriter. `passing` decides which keys the super pod has itself."""
        self._passing = passing
        self._labels = metadata.get("labels") or {}
        self._annotations = metadata.get("annotations") or {}
        self.needed_annotations: dict[str, str] = {}

    def rewrite_field_ref(self, ref: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reference that reads the tenant's value in the super pod."""
        path = str(ref.get("fieldPath", ""))
        return {**ref, "fieldPath": self._rewrite_path(path)}

    def _rewrite_path(self, path: str) -> str:
        if path in _RECORDED_FIELDS:
            return _build_annotation_path(_RECORDED_FIELDS[path])
        if path == "metadata.labels":
            return self._mirror_whole_map(LABELS_FILE_ANNOTATION, self._labels)
        if path == "metadata.annotations":
            return self._mirror_whole_map(ANNOTATIONS_FILE_ANNOTATION, self._annotations)
        if path.startswith("metadata.labels["):
            return self._mirror_single_key(path, "labels", self._labels, _parse_key(path))
        if path.startswith("metadata.annotations["):
            return self._mirror_single_key(path, "annotations", self._annotations, _parse_key(path))
        return path

    def _mirror_whole_map(self, key: str, values: Mapping[str, str]) -> str:
        if key not in self.needed_annotations:  # a pod may request a long text thousands of times
            self.needed_annotations[key] = format_downward_file(values)
        return _build_annotation_path(key)

    def _mirror_single_key(self, path: str, field: str, values: Mapping[str, str], key: str) -> str:
        passes = (
            object_meta.is_label_synced(key, self._passing)
            if field == "labels"
            else object_meta.is_annotation_synced("Pod", key, self._passing)
        )
        if passes:
            return path
        mirror = object_meta.build_mirror_key(field, key)
        self.needed_annotations[mirror] = str(values.get(key, ""))
        return _build_annotation_path(mirror)


def _build_annotation_path(key: str) -> str:
    return f"metadata.annotations['{key}']"


def _parse_key(path: str) -> str:
    return path[path.index("[") + 1 : -1].strip("'\"")


def format_downward_file(values: Mapping[str, str]) -> str:
    """Return a map as the kubelet writes it into a downward API file: `key="value"` lines."""
    return "\n".join(f"{key}={_quote(str(values[key]))}" for key in sorted(values))


def _quote(text: str) -> str:
    """Return a text as Go's %q prints it, for the usual values of labels and annotations."""
    return "".join(['"', *(_escape(character) for character in text), '"'])


_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
