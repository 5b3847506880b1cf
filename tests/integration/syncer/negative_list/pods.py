"""Cases of pods that no single leaf of a table decides on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeio import Object
from tenancy import names, wellknown
from tenancy.resources import PODS
from tests.integration.syncer.negative_list.cases import (
    CLASS,
    HIDDEN,
    IMAGE,
    NODE,
    OWN_CLASS,
    RefusedCase,
    pod,
)
from tests.integration.syncer.negative_list.leaves import Fragment, nest


def _of_pod(
    row: str, rule: str, path: str, bad: Fragment, good: Fragment, **more: Any
) -> RefusedCase:
    return RefusedCase(
        row=f"2a {row}", rule=rule, path=path, resource=PODS, bad=pod(bad), good=pod(good), **more
    )


def _environment(**source: Any) -> Object:
    variable = {"name": "A", "valueFrom": source}
    return {"containers": [{"name": "main", "image": IMAGE, "env": [variable]}]}


def _terms(key: str) -> Iterator[tuple[str, Object]]:
    """Yield each place that names a key of topology."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for kind in ("podAffinity", "podAntiAffinity"):
        yield f"spec.affinity.{kind}", nest(f"affinity.{kind}", {required: [term]})
        weighed = {preferred: [{"weight": 1, "podAffinityTerm": term}]}
        yield f"spec.affinity.{kind}", nest(f"affinity.{kind}", weighed)
    spread = {
        "topologySpreadConstraints": [{**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    }
    yield "spec.topologySpreadConstraints", spread


def _node_affinity(term: Object) -> Iterator[Object]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]
    }
    for found in (required, preferred):
        yield nest("affinity.nodeAffinity", found)


def _placement() -> Iterator[RefusedCase]:
    ours = wellknown.VIRTUAL_NODE
    row, hidden = "nodeSelector", {"nodeSelector": {ours: "true"}}
    shown = {"nodeSelector": {"disk": "fast"}}
    yield _of_pod(row, "node-label", f"spec.nodeSelector[{ours}]", hidden, shown)
    bad = {"matchExpressions": [{"key": ours, "operator": "Exists"}]}
    good = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    for one, other in zip(_node_affinity(bad), _node_affinity(good), strict=True):
        row = "affinity.nodeAffinity"
        yield _of_pod(row, "node-label", "spec.affinity.nodeAffinity", one, other)
    field_of = {"key": "metadata.name", "operator": "In"}
    bad = {"matchFields": [{**field_of, "values": ["no-such-node"]}]}
    good = {"matchFields": [{**field_of, "values": [NODE]}]}
    for one, other in zip(_node_affinity(bad), _node_affinity(good), strict=True):
        row = "affinity.nodeAffinity"
        yield _of_pod(row, "node-name", "spec.affinity.nodeAffinity", one, other)
    for (path, one), (_, other) in zip(
        _terms(HIDDEN), _terms("kubernetes.io/hostname"), strict=True
    ):
        row = "podAffinity, podAntiAffinity"
        if "Spread" in path:
            row = "topologySpreadConstraints"
        yield _of_pod(row, "node-label", f"{path}.topologyKey", one, other)
    yield _of_pod(
        "nodeName", "node-name", "spec.nodeName", {"nodeName": "no-such-node"}, {"nodeName": NODE}
    )
    yield _of_pod(
        "runtimeClassName",
        "runtime-class",
        "spec.runtimeClassName",
        {"runtimeClassName": OWN_CLASS},
        {"runtimeClassName": CLASS},
    )
    yield _of_pod(
        "priorityClassName, priority, preemptionPolicy",
        "priority-class",
        "spec.priorityClassName",
        {"priorityClassName": "system-node-critical"},
        {"priorityClassName": OWN_CLASS},
    )


def _gates(*kinds: str) -> Object:
    return {"readinessGates": [{"conditionType": kind} for kind in kinds]}


def _references() -> Iterator[RefusedCase]:
    """Yield every place in which a pod names another object, with a name it may not have."""
    token = f"{names.TOKEN_SECRET_PREFIX}x"
    for place in (
        lambda name: {"volumes": [{"name": "v", "secret": {"secretName": name, "optional": True}}]},
        lambda name: {"imagePullSecrets": [{"name": name}]},
        lambda name: _environment(secretKeyRef={"name": name, "key": "k", "optional": True}),
        lambda name: {
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "envFrom": [{"secretRef": {"name": name, "optional": True}}],
                }
            ]
        },
        lambda name: {
            "volumes": [
                {
                    "name": "v",
                    "projected": {"sources": [{"secret": {"name": name, "optional": True}}]},
                }
            ]
        },
    ):
        row = (
            "imagePullSecrets"
            if "imagePullSecrets" in place("")
            else "env valueFrom secretKeyRef, configMapKeyRef, envFrom"
        )
        told = f"spec, a reference to Secret {token},"
        yield _of_pod(row, "reserved-name", told, place(token), place("absent"))
    for kind, source in (("configMap", "name"), ("secret", "secretName")):
        volume = {"name": "v", kind: {source: "../x", "optional": True}}
        right = {"name": "v", kind: {source: "absent", "optional": True}}
        name = f"{kind[0].upper()}{kind[1:]}"
        yield _of_pod(
            "metadata.name, namespace",
            "reference-name",
            f"spec, a reference to {name} '../x',",
            {"volumes": [volume]},
            {"volumes": [right]},
        )


def _containers() -> Iterator[RefusedCase]:
    row = "containers, initContainers, ephemeralContainers"
    for kind in ("containers", "initContainers"):

        def named(name: str, kind: str = kind) -> Object:
            main = {"name": "main", "image": IMAGE}
            return {"containers": [main], kind: [{"name": name, "image": IMAGE}]}

        at = f"spec.{kind}[0].name"
        yield _of_pod(row, "reserved-container", at, named("istio-proxy"), named("own-proxy"))
    yield _of_pod(
        "image",
        "image-registry",
        "spec.containers[0].image",
        {"containers": [{"name": "main", "image": "evil.example/x:1"}]},
        {},
        tight=True,
    )


def cases() -> Iterator[RefusedCase]:
    """Yield them."""
    yield from _placement()
    yield from _containers()
    yield from _references()
    full = tuple(f"example.com/{number}" for number in range(17))
    for path, bad in (
        ("spec.readinessGates", _gates(*full)),
        ("spec.readinessGates[0]", _gates("plain")),
        ("spec.readinessGates[0]", _gates(f"{wellknown.DOMAIN}/mine")),
    ):
        yield _of_pod("readinessGates", "readiness-gates", path, bad, _gates(*full[:16]))
    fqdn: Object = {"setHostnameAsFQDN": True, "subdomain": "s" * 63}
    yield _of_pod(
        "hostname, setHostnameAsFQDN",
        "host-name",
        "spec.setHostnameAsFQDN",
        {**fqdn, "hostname": "h" * 63},
        {**fqdn, "hostname": "h", "subdomain": "s"},
    )
    yield _of_pod(
        "command, args, workingDir, stdin*, tty, terminationMessage*",
        "too-large",
        "the pod",
        {"containers": [{"name": "main", "image": IMAGE, "args": ["x" * 1_400_000]}]},
        {"containers": [{"name": "main", "image": IMAGE, "args": ["x" * 1_000_000]}]},
    )
    yield _of_pod(
        "hostNetwork, hostPID, hostIPC",
        "host-namespace",
        "spec.hostPID",
        {"hostPID": True},
        {"hostPID": False},
        name="@long",
    )
    yield RefusedCase(
        row="2a containers, initContainers, ephemeralContainers",
        rule="ephemeral-containers",
        path="spec.ephemeralContainers",
        resource=PODS,
        bad=pod({"ephemeralContainers": [{"name": "more", "image": IMAGE}]}),
        good=pod({"ephemeralContainers": [{"name": "more", "image": IMAGE}]}),
        ephemeral=True,
        tight=True,
    )
    address = _environment(fieldRef={"fieldPath": "status.hostIP"})
    yield _of_pod(
        "env valueFrom fieldRef",
        "node-view",
        "spec.containers[main].env",
        address,
        address,
        tight=True,
    )
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}
    owned = pod(ownerReferences=[{**owner, "controller": True}])
    yield RefusedCase(
        row="2a nodeName",
        rule="daemon-set",
        path="metadata.ownerReferences",
        resource=PODS,
        bad=owned,
        good=owned,
        tight=True,
    )
    careful = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "main",
                "image": IMAGE,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }
    yield _of_pod(
        "allowPrivilegeEscalation, runAs*, readOnlyRootFilesystem, fsGroup*, supplementalGroups*",
        "pod-security",
        "spec",
        {},
        careful,
        tight=True,
        good_tight=True,
        tried=True,
    )
