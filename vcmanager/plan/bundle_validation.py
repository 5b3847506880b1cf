"""Validation of ClusterVersion bundles of upstream's shape, before they are completed.

Owns the messages for bundles that cannot be completed. Pure. Must not know what is added to them.
Hazard: a bundle is arbitrary text. Whatever later code assumes about its shape must be checked
here.
"""

from collections.abc import Mapping
from typing import Any

from tenancy.specs import ComponentBundle, InvalidSpecError
from vcmanager.plan import service_cidrs, upstream_bundles


def check_bundle(name: str, component: str, bundle: ComponentBundle) -> None:
    """Refuse a bundle that could not be completed. Raises SpecProblemError."""
    where = f"ClusterVersion {name}: {upstream_bundles.BUNDLE_FIELDS[component]}"
    named = bundle.metadata.get("name", component)
    if named != component:
        raise InvalidSpecError(f"{where}.metadata.name is {named!r}. It must be {component}")
    stateful_set = bundle.statefulset
    _require_object(f"{where}.statefulset", stateful_set, "apps/v1", "StatefulSet")
    found = stateful_set["metadata"]["name"]
    if found != component:
        raise InvalidSpecError(
            f"{where}.statefulset.metadata.name is {found!r}. It must be {component}"
        )
    pod_spec = _get_object_at(stateful_set, f"{where}.statefulset", "spec", "template", "spec")
    containers = pod_spec.get("containers")
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        raise InvalidSpecError(
            f"{where}.statefulset.spec.template.spec.containers is empty. The first container must"
            f" run {component}"
        )
    for field in ("args", "command"):
        words = containers[0].get(field) or []
        if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
            raise InvalidSpecError(
                f"{where}: {field} of the first container must be a list of strings"
            )
    _check_volumes(where, pod_spec, containers[0])
    replicas = stateful_set["spec"].get("replicas", 1)
    if type(replicas) is not int or replicas < 0:
        raise InvalidSpecError(f"{where}.statefulset.spec.replicas is {replicas!r}. Use a number")
    if component == upstream_bundles.ETCD and replicas == 0:
        raise InvalidSpecError(
            f"{where}.statefulset.spec.replicas is 0, but a tenant needs etcd. Use 1 or 3"
        )
    if bundle.service is not None:
        _check_service(f"{where}.service", bundle.service)
    elif component != upstream_bundles.CONTROLLER_MANAGER:
        raise InvalidSpecError(f"{where} has no service. Add it beside statefulset")


def check_bundles_together(name: str, bundles: Mapping[str, ComponentBundle]) -> None:
    """Refuse bundles, each of which passed `check_bundle`, that cannot be side by side.

    Raises SpecProblemError.
    """
    seen: dict[str, str] = {}
    for component, bundle in bundles.items():
        if bundle.service is None:
            continue
        service, field = (
            bundle.service["metadata"]["name"],
            upstream_bundles.BUNDLE_FIELDS[component],
        )
        if service in seen:
            raise InvalidSpecError(
                f"ClusterVersion {name}: {seen[service]} and {field} both have a service named"
                f" {service!r}. Rename one of them"
            )
        seen[service] = field


def _check_service(where: str, service: Any) -> None:
    _require_object(where, service, "v1", "Service")
    found = service["metadata"]["name"]
    if found in (
        service_cidrs.API_SERVICE,
        service_cidrs.DNS_SERVICE,
        service_cidrs.METRICS_SERVICE,
    ):
        raise InvalidSpecError(
            f"{where}.metadata.name is {found!r}, which vc-manager uses for its own Service."
            " Choose another name"
        )
    spec = _get_object_at(service, where, "spec")
    ports = spec.get("ports")
    if not ports or not _is_list_of_objects(ports) or not isinstance(spec.get("selector"), dict):
        raise InvalidSpecError(f"{where}.spec needs ports and a selector")
    for number, port in enumerate(ports):
        if type(port.get("port")) is not int:
            raise InvalidSpecError(
                f"{where}.spec.ports[{number}].port is not a number. Use a number"
            )
        if not isinstance(port.get("targetPort", ""), int | str):
            raise InvalidSpecError(
                f"{where}.spec.ports[{number}].targetPort is neither a number nor a name"
            )


def _check_volumes(where: str, pod_spec: Mapping[str, Any], container: Mapping[str, Any]) -> None:
    volumes, mounts = pod_spec.get("volumes") or [], container.get("volumeMounts") or []
    if not _is_list_of_objects(volumes, "name") or not _is_list_of_objects(
        mounts, "name", "mountPath"
    ):
        raise InvalidSpecError(
            f"{where}: volumes and the first container's volumeMounts must be lists of objects with"
            " a name, mounts with a mountPath too"
        )
    for volume in volumes:
        for kind in ("secret", "configMap", "projected"):
            if not isinstance(volume.get(kind) or {}, dict):
                raise InvalidSpecError(
                    f"{where}: {kind} of volume {volume['name']} is not an object"
                )
        sources = (volume.get("projected") or {}).get("sources") or []
        if not _is_list_of_objects(sources) or not all(
            isinstance(source.get(kind) or {}, dict)
            for source in sources
            for kind in ("secret", "configMap")
        ):
            raise InvalidSpecError(
                f"{where}: the sources of volume {volume['name']} are not a list of objects"
            )


def _is_list_of_objects(value: Any, *texts: str) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and all(isinstance(each.get(text), str) for text in texts)
        for each in value
    )


def _require_object(where: str, value: Any, api_version: str, kind: str) -> None:
    if not isinstance(value, dict):
        raise InvalidSpecError(f"{where} is not an object. Use a whole {kind}")
    if value.get("apiVersion") != api_version or value.get("kind") != kind:
        raise InvalidSpecError(f"{where} must have apiVersion {api_version} and kind {kind}")
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise InvalidSpecError(f"{where}.metadata.name is missing")
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field) or {}, dict):
            raise InvalidSpecError(f"{where}.metadata.{field} is not an object")


def _get_object_at(value: Mapping[str, Any], where: str, *path: str) -> dict[str, Any]:
    found: Any = value
    for number, key in enumerate(path):
        found = found.get(key)
        if not isinstance(found, dict):
            raise InvalidSpecError(
                f"{where}.{'.'.join(path[: number + 1])} is missing or not an object"
            )
    return dict(found)
