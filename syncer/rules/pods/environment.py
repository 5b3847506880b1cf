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
from syncer.model.tenant_view import MASTER, TenantView
from syncer.rules.configuration import cache_transforms
from tenancy import names, wellknown
from tenancy.policies import BASELINE, Metadata

Service = Mapping[str, Any]
Variables = dict[str, str]

_NO_HOST = "kubernetes.invalid"
_RECORDED = {"metadata.namespace": wellknown.NAMESPACE, "metadata.uid": wellknown.UID}

LABELS_TEXT = f"mirror.{wellknown.DOMAIN}/labels"
"""Annotation with the tenant pod's labels, in the format of a kubelet's downward API file."""
ANNOTATIONS_TEXT = f"mirror.{wellknown.DOMAIN}/annotations"
"""Annotation with the tenant pod's annotations, in the format of a kubelet's downward API file."""


def service_variables(services: Iterable[Service], namespace: str, *, links: bool) -> Variables:
    """Return the variables that a kubelet derives from the Services that a pod may see."""
    found: dict[str, Service] = {}
    for service in services:
        metadata = service["metadata"]
        name, there = metadata["name"], metadata.get("namespace", "")
        if not _has_address(service):
            continue
        if (there, name) == MASTER or (links and there == namespace and name != MASTER[1]):
            found[name] = service
    variables: Variables = {}
    for name in sorted(found):
        variables.update(_of_service(name, found[name]["spec"]))
    return variables


def reached_at(master: Service, endpoint: str) -> list[Service]:
    """Return the Service of the tenant's API as clients see it that reach it by its URL.

    Without a URL, the address is a name that does not resolve. Otherwise the kubelet would write
    the address of its own cluster.
    """
    try:
        url = urlsplit(endpoint)
        host, port = url.hostname or _NO_HOST, url.port or 443
    except ValueError:
        host, port = _NO_HOST, 443
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    return [{**master, "spec": {"clusterIP": host, "ports": ports}}]


class Linked:
    """Cache of the last namespace's variables, because pods of one burst are built in a row."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._asked: tuple[str, bool] = ("", False)
        self._services: list[Entry] = []
        self._variables: Variables = {}

    def of(self, namespace: str, services: list[Entry], *, links: bool) -> Variables:
        """Return the variables that these Services add to the pods of a namespace."""
        # Entries are never changed, so the same entries produce the same variables.
        if (namespace, links) != self._asked or services != self._services:
            decoded = [entry.decode() for entry in services]
            self._variables = service_variables(decoded, namespace, links=links)
            self._asked, self._services = (namespace, links), services
        return self._variables


def tenant_variables(view: TenantView, namespace: str, *, links: bool, linked: Linked) -> Variables:
    """Return the variables that Services add to the pods of a namespace. Must not be changed.

    If `links` is False, only the Service of the tenant's API is included.
    """
    store = view.stores["Service"]
    master = store.get(*MASTER)
    own = [] if master is None else [master]
    if view.away is not None:
        reached = view.away().endpoint
        services = [each for it in own for each in reached_at(it.decode(), reached)]
        return service_variables(services, namespace, links=False)
    if links:
        own += store.list(namespace)
    return linked.of(namespace, own, links=links)


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
                keys = list(cache_transforms.variables(entry.decode()))
                take(len(keys))
                found |= {f"{source.get('prefix') or ''}{key}" for key in keys}
    return found


def _named(view: TenantView, kind: str, namespace: str, name: str) -> Entry | None:
    # The builder has already replaced the root CA's name by its super name in the copy.
    return view.stores[kind].get(
        namespace, names.TENANT_ROOT_CA if name == names.SUPER_ROOT_CA else name
    )


def _has_address(service: Service) -> bool:
    spec = service.get("spec") or {}
    return spec.get("clusterIP") not in (None, "", "None") and bool(spec.get("ports"))


def _of_service(name: str, spec: Mapping[str, Any]) -> Variables:
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


def environment(
    container: Mapping[str, Any],
    variables: Variables,
    provided: Collection[str],
    *,
    account: str,
    mirrors: "Mirrors",
) -> list[dict[str, Any]]:
    """Return a container's `env`: service variables first, then the tenant's own, rewritten.

    A kubelet prefers `envFrom` to service variables, and `env` to `envFrom`. Names that an
    `envFrom` source provides are therefore left out.
    """
    own = container.get("env") or []
    named = {variable.get("name") for variable in own} | set(provided)
    service = [{"name": k, "value": v} for k, v in variables.items() if k not in named]
    return service + [_rewritten(variable, account, mirrors) for variable in own]


def _rewritten(variable: dict[str, Any], account: str, mirrors: "Mirrors") -> dict[str, Any]:
    value_from = variable.get("valueFrom") or {}
    field = (value_from.get("fieldRef") or {}).get("fieldPath")
    if field is None:
        return variable
    if field == "spec.serviceAccountName":
        return {"name": variable["name"], "value": account}
    return {**variable, "valueFrom": {"fieldRef": mirrors.field_ref(value_from["fieldRef"])}}


def downward_items(items: Sequence[dict[str, Any]], mirrors: "Mirrors") -> list[dict[str, Any]]:
    """Return the items of a downward API volume, rewritten."""
    return [
        {**item, "fieldRef": mirrors.field_ref(item["fieldRef"])} if item.get("fieldRef") else item
        for item in items
    ]


class Mirrors:
    """Rewriter of one pod's field references. It collects the annotations that they need."""

    def __init__(self, metadata: Mapping[str, Any], passing: Metadata = BASELINE.metadata) -> None:
        """Create the rewriter. `passing` decides which keys the super pod has itself."""
        self._passing = passing
        self._labels = metadata.get("labels") or {}
        self._annotations = metadata.get("annotations") or {}
        self.needed: dict[str, str] = {}

    def field_ref(self, ref: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reference that reads the tenant's value in the super pod."""
        path = str(ref.get("fieldPath", ""))
        return {**ref, "fieldPath": self._path(path)}

    def _path(self, path: str) -> str:
        if path in _RECORDED:
            return _annotation(_RECORDED[path])
        if path == "metadata.labels":
            return self._whole(LABELS_TEXT, self._labels)
        if path == "metadata.annotations":
            return self._whole(ANNOTATIONS_TEXT, self._annotations)
        if path.startswith("metadata.labels["):
            return self._single(path, "labels", self._labels, _key(path))
        if path.startswith("metadata.annotations["):
            return self._single(path, "annotations", self._annotations, _key(path))
        return path

    def _whole(self, key: str, values: Mapping[str, str]) -> str:
        if key not in self.needed:  # a pod may request a long text thousands of times
            self.needed[key] = as_file(values)
        return _annotation(key)

    def _single(self, path: str, field: str, values: Mapping[str, str], key: str) -> str:
        passes = (
            object_meta.passes_label(key, self._passing)
            if field == "labels"
            else object_meta.passes_annotation("Pod", key, self._passing)
        )
        if passes:
            return path
        mirror = object_meta.mirror_key(field, key)
        self.needed[mirror] = str(values.get(key, ""))
        return _annotation(mirror)


def _annotation(key: str) -> str:
    return f"metadata.annotations['{key}']"


def _key(path: str) -> str:
    return path[path.index("[") + 1 : -1].strip("'\"")


def as_file(values: Mapping[str, str]) -> str:
    """Return a map as the kubelet writes it into a downward API file: `key="value"` lines."""
    return "\n".join(f"{key}={_quoted(str(values[key]))}" for key in sorted(values))


def _quoted(text: str) -> str:
    """Return a text as Go's %q prints it, for the usual values of labels and annotations."""
    return "".join(['"', *(_escaped(character) for character in text), '"'])


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


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
