"""A ClusterVersion of upstream's shape: whole objects that pass as they are, completed.

Owns what is added to them: arguments of the first container, one projected volume, and a Secret of
its own behind each `root-ca` volume. Pure. Hazard: upstream has one root for everything and mounts
it everywhere, key included; here each component's `root-ca` holds only what that component may
trust, and flags that mean another authority are written once more with the file they mean (the last
one counts).
"""

import copy
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tenancy import marks
from tenancy.specs import Bundle, SpecProblemError
from vcmanager import slices

Manifest = dict[str, Any]

ETCD, API_SERVER, CONTROLLER_MANAGER = "etcd", "apiserver", "controller-manager"
FIELDS: Mapping[str, str] = {
    ETCD: "etcd",
    API_SERVER: "apiServer",
    CONTROLLER_MANAGER: "controllerManager",
}
"""Each component, as its StatefulSet is called, and its field of `spec`."""

KUBELET_ADDRESSES = f"{marks.AGENT_ADDRESS},InternalIP"
"""The agent on the node first; the node itself only where it has no agent."""
_ROOT = "root-ca"
VOLUME = "vc-manager"
FOLDER = "/etc/kubernetes/vc-manager"
_SLICED_FLAGS = ("--kubelet-preferred-address-types",)
"""Flags that add up when written twice, so that the template's own must go."""

_MEANT = {
    API_SERVER: {
        "root-ca": {
            "--etcd-cafile": "trust/etcd.crt",
            "--requestheader-client-ca-file": "trust/front-proxy.crt",
        },
        "apiserver-ca": {
            "--etcd-certfile": "etcd/tls.crt",
            "--etcd-keyfile": "etcd/tls.key",
        },
    },
    CONTROLLER_MANAGER: {
        "root-ca": {
            "--root-ca-file": "trust/serving.crt",
            "--requestheader-client-ca-file": "trust/front-proxy.crt",
        },
    },
}
"""Per component and mounted Secret: flags that mean another authority, and the file they mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What the manager decides and a template cannot know."""

    service_cidr: str
    node_ports: str
    kubelet_addresses: str


def root_secret(component: str) -> str:
    """Return the Secret behind a component's `root-ca` volumes."""
    return f"root-ca-{component}"


def check(name: str, component: str, bundle: Bundle) -> None:
    """Refuse a bundle that could not be completed. Raises SpecProblemError."""
    where = f"ClusterVersion {name}: {FIELDS[component]}"
    named = bundle.metadata.get("name", component)
    if named != component:
        raise SpecProblemError(f"{where}.metadata.name is {named!r}; it must be {component}")
    stateful_set = bundle.statefulset
    _expect_object(f"{where}.statefulset", stateful_set, "apps/v1", "StatefulSet")
    found = stateful_set["metadata"]["name"]
    if found != component:
        raise SpecProblemError(
            f"{where}.statefulset.metadata.name is {found!r}; it must be {component}"
        )
    pod_spec = _at(stateful_set, f"{where}.statefulset", "spec", "template", "spec")
    containers = pod_spec.get("containers")
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        raise SpecProblemError(
            f"{where}.statefulset.spec.template.spec.containers has no container; the first one"
            f" must run {component}"
        )
    for field in ("args", "command"):
        words = containers[0].get(field) or []
        if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
            raise SpecProblemError(
                f"{where}: {field} of the first container must be a list of strings"
            )
    _check_volumes(where, pod_spec, containers[0])
    replicas = stateful_set["spec"].get("replicas", 1)
    if type(replicas) is not int or replicas < 0:
        raise SpecProblemError(f"{where}.statefulset.spec.replicas is {replicas!r}; give a number")
    if component == ETCD and replicas == 0:
        raise SpecProblemError(
            f"{where}.statefulset.spec.replicas is 0; a tenant needs a store, so give 1 or 3"
        )
    if bundle.service is not None:
        _check_service(f"{where}.service", bundle.service)
    elif component != CONTROLLER_MANAGER:
        raise SpecProblemError(f"{where} has no service; add it beside statefulset")


def check_together(name: str, bundles: Mapping[str, Bundle]) -> None:
    """Refuse bundles, each of which passed `check`, that cannot be side by side.

    Raises SpecProblemError.
    """
    seen: dict[str, str] = {}
    for component, bundle in bundles.items():
        if bundle.service is None:
            continue
        service, field = bundle.service["metadata"]["name"], FIELDS[component]
        if service in seen:
            raise SpecProblemError(
                f"ClusterVersion {name}: {seen[service]} and {field} both have a service named"
                f" {service!r}; give one of them another name"
            )
        seen[service] = field


def complete(component: str, bundle: Bundle, additions: Additions) -> list[Manifest]:
    """Return the bundle's objects with what the manager adds."""
    stateful_set = copy.deepcopy(bundle.statefulset)
    pod_spec = stateful_set["spec"]["template"]["spec"]
    first = pod_spec["containers"][0]
    given = _without(first.get("args") or [])
    if first.get("command"):
        first["command"] = _without(first["command"])
    words = [*(first.get("command") or []), *given]
    added = [
        *_own_arguments(component, bundle, additions),
        *_meant(component, words, _mounts(pod_spec, first)),
    ]
    first["args"] = [*given, *added]
    for volume in pod_spec.get("volumes") or ():
        _point_at_own_root(volume, component)
    if component != ETCD:
        _mount(pod_spec, first, component)
    made = [stateful_set]
    if bundle.service is not None:
        made.append(copy.deepcopy(bundle.service))
    return made


def initial_cluster(stateful_set: str, service: str, replicas: int) -> str:
    """Return etcd's list of members."""
    members = (f"{stateful_set}-{number}" for number in range(replicas))
    return ",".join(f"{member}=https://{member}.{service}:2380" for member in members)


def is_ephemeral(stateful_set: Mapping[str, Any]) -> bool:
    """Tell whether a store is lost with its pod: it has no volume that outlives one."""
    spec = stateful_set["spec"]
    volumes = spec["template"]["spec"].get("volumes") or ()
    lasting = any("persistentVolumeClaim" in volume or "hostPath" in volume for volume in volumes)
    return not (spec.get("volumeClaimTemplates") or lasting)


def _own_arguments(component: str, bundle: Bundle, additions: Additions) -> Iterator[str]:
    if component == ETCD and bundle.service is not None:
        members = initial_cluster(
            bundle.statefulset["metadata"]["name"],
            bundle.service["metadata"]["name"],
            bundle.statefulset["spec"].get("replicas", 1),
        )
        yield f"--initial-cluster={members}"
    if component == API_SERVER:
        yield f"--service-cluster-ip-range={additions.service_cidr}"
        yield f"--service-node-port-range={additions.node_ports}"
        yield f"--kubelet-client-certificate={FOLDER}/kubelet/tls.crt"
        yield f"--kubelet-client-key={FOLDER}/kubelet/tls.key"
        yield f"--kubelet-certificate-authority={FOLDER}/trust/agents.crt"
        yield f"--kubelet-preferred-address-types={additions.kubelet_addresses}"


def _meant(component: str, words: list[str], mounts: Mapping[str, str]) -> Iterator[str]:
    """Yield flags once more whose file lies in a mounted Secret that means another authority."""
    for secret, flags in _MEANT.get(component, {}).items():
        folder = mounts.get(secret)
        for flag, file in flags.items():
            value = _value_of(flag, words)
            if folder and value and posixpath.normpath(value).startswith(f"{folder}/"):
                yield f"{flag}={FOLDER}/{file}"


def _value_of(flag: str, words: list[str]) -> str:
    found = ""
    for number, word in enumerate(words):
        if word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
        elif word == flag and number + 1 < len(words):
            found = words[number + 1]
    return found


def _without(words: list[str]) -> list[str]:
    """Return words without the flags that add up, whether their value is a word of its own."""
    kept: list[str] = []
    is_value = False
    for word in words:
        flag, equals, _ = word.partition("=")
        if is_value or flag in _SLICED_FLAGS:
            is_value = not is_value and not equals
            continue
        kept.append(word)
    return kept


def _mounts(pod_spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    """Return where the first container mounts each Secret."""
    secrets: dict[str, str] = {
        volume["name"]: volume["secret"].get("secretName", "")
        for volume in pod_spec.get("volumes") or ()
        if volume.get("secret")
    }
    return {
        secrets[mount["name"]]: posixpath.normpath(mount["mountPath"])
        for mount in container.get("volumeMounts") or ()
        if secrets.get(mount["name"])
    }


def _point_at_own_root(volume: Manifest, component: str) -> None:
    secret = volume.get("secret") or {}
    if secret.get("secretName") == _ROOT:
        secret["secretName"] = root_secret(component)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if (source.get("secret") or {}).get("name") == _ROOT:
            source["secret"]["name"] = root_secret(component)


def _mount(pod_spec: Manifest, container: Manifest, component: str) -> None:
    certificates = ("etcd", "front-proxy", "serving", "client", "agents")
    sources: list[Manifest] = [
        {
            "configMap": {
                "name": "trust",
                "items": [
                    {"key": f"{name}.crt", "path": f"trust/{name}.crt"} for name in certificates
                ],
            }
        }
    ]
    if component == API_SERVER:
        sources += [
            _pair("apiserver-kubelet-client", "kubelet"),
            _pair("apiserver-etcd-client", "etcd"),
        ]
    volume = {"name": VOLUME, "projected": {"sources": sources}}
    pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), volume]
    container["volumeMounts"] = [
        *(container.get("volumeMounts") or ()),
        {"name": VOLUME, "mountPath": FOLDER, "readOnly": True},
    ]


def _pair(secret: str, folder: str) -> Manifest:
    items = [{"key": key, "path": f"{folder}/{key}"} for key in ("tls.crt", "tls.key")]
    return {"secret": {"name": secret, "items": items}}


def _check_service(where: str, service: Any) -> None:
    _expect_object(where, service, "v1", "Service")
    found = service["metadata"]["name"]
    if found in (slices.API_SERVICE, slices.DNS_SERVICE):
        raise SpecProblemError(
            f"{where}.metadata.name is {found!r}, which the manager gives to a Service of its own;"
            " choose another name"
        )
    spec = _at(service, where, "spec")
    ports = spec.get("ports")
    if not ports or not _is_list_of_objects(ports) or not isinstance(spec.get("selector"), dict):
        raise SpecProblemError(f"{where}.spec needs ports and a selector")
    for number, port in enumerate(ports):
        if type(port.get("port")) is not int:
            raise SpecProblemError(f"{where}.spec.ports[{number}].port is no number; give one")
        if not isinstance(port.get("targetPort", ""), int | str):
            raise SpecProblemError(
                f"{where}.spec.ports[{number}].targetPort is neither a number nor a name"
            )


def _check_volumes(where: str, pod_spec: Manifest, container: Manifest) -> None:
    volumes, mounts = pod_spec.get("volumes") or [], container.get("volumeMounts") or []
    if not _is_list_of_objects(volumes, "name") or not _is_list_of_objects(
        mounts, "name", "mountPath"
    ):
        raise SpecProblemError(
            f"{where}: volumes and the first container's volumeMounts must be lists of objects with"
            " a name, mounts with a mountPath too"
        )
    for volume in volumes:
        for kind in ("secret", "configMap", "projected"):
            if not isinstance(volume.get(kind) or {}, dict):
                raise SpecProblemError(f"{where}: {kind} of volume {volume['name']} is no object")
        sources = (volume.get("projected") or {}).get("sources") or []
        if not _is_list_of_objects(sources) or not all(
            isinstance(source.get(kind) or {}, dict)
            for source in sources
            for kind in ("secret", "configMap")
        ):
            raise SpecProblemError(
                f"{where}: the sources of volume {volume['name']} are no list of objects"
            )


def _is_list_of_objects(value: Any, *texts: str) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and all(isinstance(each.get(text), str) for text in texts)
        for each in value
    )


def _expect_object(where: str, value: Any, api_version: str, kind: str) -> None:
    if not isinstance(value, dict):
        raise SpecProblemError(f"{where} is no object; give a whole {kind}")
    if value.get("apiVersion") != api_version or value.get("kind") != kind:
        raise SpecProblemError(f"{where} must have apiVersion {api_version} and kind {kind}")
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise SpecProblemError(f"{where}.metadata.name is missing")
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field) or {}, dict):
            raise SpecProblemError(f"{where}.metadata.{field} is no object")


def _at(value: Mapping[str, Any], where: str, *path: str) -> Manifest:
    found: Any = value
    for number, key in enumerate(path):
        found = found.get(key)
        if not isinstance(found, dict):
            raise SpecProblemError(
                f"{where}.{'.'.join(path[: number + 1])} is missing or no object"
            )
    return dict(found)
