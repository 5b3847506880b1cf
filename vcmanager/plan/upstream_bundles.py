"""Completion of a ClusterVersion of upstream's shape, which has whole objects.

Owns what is added to them: arguments of the first container, one projected volume, and a Secret of
its own behind each `root-ca` volume. Pure. Hazard: upstream has one root for all purposes and
mounts it everywhere, key included. Here the `root-ca` of each component has only what that
component may trust. Flags that mean another authority are written once more with the file they
mean, because the last value of a flag applies.
"""

import copy
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tenancy import wellknown
from tenancy.specs import ComponentBundle

Manifest = dict[str, Any]

ETCD, API_SERVER, CONTROLLER_MANAGER = "etcd", "apiserver", "controller-manager"
BUNDLE_FIELDS: Mapping[str, str] = {
    ETCD: "etcd",
    API_SERVER: "apiServer",
    CONTROLLER_MANAGER: "controllerManager",
}
"""Each component, by the name of its StatefulSet, and its field of `spec`."""

KUBELET_ADDRESSES = f"{wellknown.AGENT_ADDRESS},InternalIP"
"""The agent on the node first. The node itself is used only where it has no agent."""
_ROOT_VOLUME = "root-ca"
MANAGER_VOLUME = "vc-manager"
MANAGER_FOLDER = "/etc/kubernetes/vc-manager"
_ADDITIVE_FLAGS = ("--kubelet-preferred-address-types",)
"""Flags that add up when written twice, so that the template's own must be removed."""

_REPLACED_AUTHORITY_FLAGS = {
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
class BundleAdditions:
    """Values that the manager decides and a template cannot contain."""

    service_cidr: str
    node_ports: str
    kubelet_addresses: str


def get_root_secret(component: str) -> str:
    """Return the Secret behind a component's `root-ca` volumes."""
    return f"root-ca-{component}"


def complete_bundle(
    component: str, bundle: ComponentBundle, additions: BundleAdditions
) -> list[Manifest]:
    """Return the bundle's objects with the manager's additions."""
    stateful_set = copy.deepcopy(bundle.statefulset)
    pod_spec = stateful_set["spec"]["template"]["spec"]
    # The admission policy on vc-manager's account demands it. Control planes call no super API.
    pod_spec["automountServiceAccountToken"] = False
    first = pod_spec["containers"][0]
    given = _strip_additive_flags(first.get("args") or [])
    if first.get("command"):
        first["command"] = _strip_additive_flags(first["command"])
    first["args"] = given
    words = get_command_words(stateful_set)
    added = [
        *_iterate_own_arguments(component, bundle, additions),
        *_iterate_replaced_flags(component, words, _map_secret_mounts(pod_spec, first)),
    ]
    first["args"] = [*given, *added]
    for volume in pod_spec.get("volumes") or ():
        _point_at_own_root(volume, component)
    if component != ETCD:
        _add_mount(pod_spec, first, component)
    made = [stateful_set]
    if bundle.service is not None:
        made.append(copy.deepcopy(bundle.service))
    return made


def build_initial_cluster(stateful_set: str, service: str, replicas: int) -> str:
    """Return etcd's list of members."""
    members = (f"{stateful_set}-{number}" for number in range(replicas))
    return ",".join(f"{member}=https://{member}.{service}:2380" for member in members)


def is_ephemeral(stateful_set: Mapping[str, Any]) -> bool:
    """Return whether a store is lost with its pod: it has no volume that outlives one."""
    spec = stateful_set["spec"]
    volumes = spec["template"]["spec"].get("volumes") or ()
    lasting = any("persistentVolumeClaim" in volume or "hostPath" in volume for volume in volumes)
    return not (spec.get("volumeClaimTemplates") or lasting)


def _iterate_own_arguments(
    component: str, bundle: ComponentBundle, additions: BundleAdditions
) -> Iterator[str]:
    if component == ETCD and bundle.service is not None:
        members = build_initial_cluster(
            bundle.statefulset["metadata"]["name"],
            bundle.service["metadata"]["name"],
            bundle.statefulset["spec"].get("replicas", 1),
        )
        yield f"--initial-cluster={members}"
    if component == API_SERVER:
        yield f"--service-cluster-ip-range={additions.service_cidr}"
        yield f"--service-node-port-range={additions.node_ports}"
        yield f"--kubelet-client-certificate={MANAGER_FOLDER}/kubelet/tls.crt"
        yield f"--kubelet-client-key={MANAGER_FOLDER}/kubelet/tls.key"
        yield f"--kubelet-certificate-authority={MANAGER_FOLDER}/trust/agents.crt"
        yield f"--kubelet-preferred-address-types={additions.kubelet_addresses}"


def _iterate_replaced_flags(
    component: str, words: list[str], mounts: Mapping[str, str]
) -> Iterator[str]:
    """Yield flags once more whose file lies in a mounted Secret that means another authority."""
    for secret, flags in _REPLACED_AUTHORITY_FLAGS.get(component, {}).items():
        folder = mounts.get(secret)
        for flag, file in flags.items():
            value = get_flag_value(flag, words)
            if folder and value and posixpath.normpath(value).startswith(f"{folder}/"):
                yield f"{flag}={MANAGER_FOLDER}/{file}"


def get_command_words(stateful_set: Mapping[str, Any]) -> list[str]:
    """Return command and arguments of the first container."""
    first = stateful_set["spec"]["template"]["spec"]["containers"][0]
    return [*(first.get("command") or []), *(first.get("args") or [])]


def get_flag_value(flag: str, words: Iterable[str]) -> str:
    """Return the last value of a flag among words, empty when it has none."""
    found = ""
    told = list(words)
    for number, word in enumerate(told):
        if word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
        elif word == flag and number + 1 < len(told):
            found = told[number + 1]
    return found


def _strip_additive_flags(words: list[str]) -> list[str]:
    """Return words without the flags that add up, and without separate values of such flags."""
    kept: list[str] = []
    is_value = False
    for word in words:
        flag, equals, _ = word.partition("=")
        if is_value or flag in _ADDITIVE_FLAGS:
            is_value = not is_value and not equals
            continue
        kept.append(word)
    return kept


def _map_secret_mounts(pod_spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
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
    if secret.get("secretName") == _ROOT_VOLUME:
        secret["secretName"] = get_root_secret(component)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if (source.get("secret") or {}).get("name") == _ROOT_VOLUME:
            source["secret"]["name"] = get_root_secret(component)


def _add_mount(pod_spec: Manifest, container: Manifest, component: str) -> None:
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
            _build_key_pair_flags("apiserver-kubelet-client", "kubelet"),
            _build_key_pair_flags("apiserver-etcd-client", "etcd"),
        ]
    volume = {"name": MANAGER_VOLUME, "projected": {"sources": sources}}
    pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), volume]
    container["volumeMounts"] = [
        *(container.get("volumeMounts") or ()),
        {"name": MANAGER_VOLUME, "mountPath": MANAGER_FOLDER, "readOnly": True},
    ]


def _build_key_pair_flags(secret: str, folder: str) -> Manifest:
    items = [{"key": key, "path": f"{folder}/{key}"} for key in ("tls.crt", "tls.key")]
    return {"secret": {"name": secret, "items": items}}
