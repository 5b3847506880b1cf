"""ConfigMaps with the service variables of a tenant's pods.

Pure. Owns the variables that a kubelet derives from Services, and the ConfigMaps that hold them.
Each super namespace has at most two: one with the variables of its Services, and one with those of
the tenant's API only. Pods name one of them as their first `envFrom` source. Must not know pods.

Hazard: a ConfigMap must change with the Services. A container that restarts reads it again, as it
would read the Services on a plain cluster.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import object_meta
from syncer.model.rejections import MALFORMED_OBJECT_ERRORS
from syncer.model.tenant_view import API_SERVICE, TenantView
from tenancy import names, ownership, wellknown

ServiceObject = Mapping[str, Any]
EnvironmentVariables = dict[str, str]

NAMES = frozenset({names.SERVICE_VARIABLES, names.API_VARIABLES})
"""Names of the ConfigMaps. No tenant object has one of them."""
MAX_VARIABLE_BYTES = 1024 * 1024
"""Maximum size in bytes of the names and values of one ConfigMap. An API server accepts 1 MiB of
values (`MaxSecretSize`), and etcd 1.5 MiB with everything else."""

_PLACEHOLDER_HOST = "kubernetes.invalid"


def count_bytes(variables: Mapping[str, str]) -> int:
    """Return the size of variables in bytes."""
    return sum(len(name) + len(value) for name, value in variables.items())


def is_changed(old: Entry | None, new: Entry | None) -> bool:
    """Return whether the variables of a Service differ. A change of its status alone does not."""
    return _get_variables(old) != _get_variables(new)


def _get_variables(service: Entry | None) -> EnvironmentVariables:
    try:
        return _build_variables(service.decode()) if service is not None else {}
    except MALFORMED_OBJECT_ERRORS:
        return {}  # from a hostile API


def build_config_map(
    name: str, namespace: Entry, view: TenantView, variables: Mapping[str, str]
) -> Object:
    """Return the ConfigMap of a name for a tenant namespace, which it records as its owner."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": view.get_super_namespace(namespace.name),
            "labels": ownership.build_owner_labels(view.tenant, namespace.name),
            "annotations": {
                **ownership.build_owner_annotations(view.tenant, namespace.name, namespace.uid),
                # No key is the tenant's, so keys that a webhook adds are not removed.
                wellknown.SYNCED_KEYS: object_meta.encode_keys((), ()),
            },
        },
        **({"data": dict(variables)} if variables else {}),
    }


def build_service_variables(
    services: Iterable[ServiceObject], namespace: str, *, links: bool
) -> EnvironmentVariables:
    """Return the variables that a kubelet derives from the Services that a pod may see."""
    found = {
        (service["metadata"].get("namespace", ""), service["metadata"]["name"]): service
        for service in services
    }
    variables = {place: _build_variables(service) for place, service in found.items()}
    return _merge_visible(variables, namespace, links=links)


def _merge_visible(
    variables: Mapping[tuple[str, str], EnvironmentVariables], namespace: str, *, links: bool
) -> EnvironmentVariables:
    """Return the variables of the Services that a pod may see, by namespace and name of each."""
    visible = {
        name: found
        for (there, name), found in variables.items()
        if (there, name) == API_SERVICE or (links and there == namespace and name != API_SERVICE[1])
    }
    merged: EnvironmentVariables = {}
    for name in sorted(visible):
        merged |= visible[name]
    return merged


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
        self._of_services: dict[tuple[str, str], tuple[Entry, EnvironmentVariables]] = {}
        self._counted: tuple[EnvironmentVariables, int] | None = None
        self._current: tuple[Entry, EnvironmentVariables] | None = None
        """The last ConfigMap that was found current, with the variables."""

    def is_current(self, entry: Entry, variables: EnvironmentVariables) -> bool:
        """Return True if the same ConfigMap was found current with the same variables."""
        known = self._current
        return known is not None and known[0] is entry and known[1] is variables

    def record_current(self, entry: Entry, variables: EnvironmentVariables) -> None:
        """Record that a ConfigMap is current."""
        self._current = (entry, variables)

    def get_variables(
        self, namespace: str, services: list[Entry], *, links: bool
    ) -> EnvironmentVariables:
        """Return the variables that these Services add to the pods of a namespace."""
        # Entries are never changed, so the same entries produce the same variables.
        if (namespace, links) != self._cached_for or services != self._services:
            self._of_services = {
                each.key: (each, self._get_variables_of(each)) for each in services
            }
            found = {place: variables for place, (_, variables) in self._of_services.items()}
            self._variables = _merge_visible(found, namespace, links=links)
            self._cached_for, self._services = (namespace, links), services
        return self._variables

    def _get_variables_of(self, entry: Entry) -> EnvironmentVariables:
        known = self._of_services.get(entry.key)
        if known is not None and known[0] is entry:
            return known[1]
        return _get_variables(entry)

    def count_bytes(self, variables: EnvironmentVariables) -> int:
        """Return the size of variables in bytes."""
        if self._counted is None or self._counted[0] is not variables:
            self._counted = (variables, count_bytes(variables))
        return self._counted[1]


def list_tenant_variables(
    view: TenantView, namespace: str, *, links: bool, cache: ServiceVariables
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
    return cache.get_variables(namespace, own, links=links)


def _build_variables(service: ServiceObject) -> EnvironmentVariables:
    if not _has_address(service):
        return {}
    return _build_variables_of_service(service["metadata"]["name"], service["spec"])


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
