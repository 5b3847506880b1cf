"""Nodes of the super cluster, and kwok's simulation of their pods.

Owns kwok's configuration. Bare pods are Ready after one status, staged pods after four, as a
kubelet reports them (scheduled, initialised, containers started, ready). Knows no load.
"""

import json
from collections.abc import Iterator
from typing import Any

_CONFIG = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "metadata": {"name": "kwok"},
    "options": {
        "manageAllNodes": True,
        "nodeLeaseDurationSeconds": 0,  # no program here reads leases, and they are writes
        "podPlayStageParallelism": 4,
        "nodePlayStageParallelism": 4,
        "nodeLeaseParallelism": 4,
        "podsOnNodeSyncParallelism": 4,
    },
}
_NO = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
_IP = """
podIP: {{ $ip | Quote }}
podIPs:
- ip: {{ $ip | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
hostIPs:
- ip: {{ NodeIPWith .spec.nodeName | Quote }}
"""
_GET_IP = (
    "{{ $ip := PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace }}"
)
_CONTAINERS = """
containerStatuses:
{{ range .spec.containers }}
- image: {{ .image | Quote }}
  imageID: {{ .image | Quote }}
  name: {{ .name | Quote }}
  ready: %(ready)s
  restartCount: 0
  started: %(ready)s
  state:
    %(state)s
{{ end }}
"""
_RUNNING = "running:\n      startedAt: {{ $now | Quote }}"
_WAITING = "waiting:\n      reason: %s"


def documents(*, staged: bool) -> str:
    """Return kwok's configuration."""
    found = [_CONFIG, _node(), *(_staged() if staged else _at_once()), _deleted()]
    return "\n---\n".join(json.dumps(document) for document in found)


def nodes(count: int) -> list[dict[str, Any]]:
    """Return nodes with room for everything."""
    room = {"cpu": "1000", "memory": "4Ti", "pods": "20000"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{number}",
                "labels": {
                    "kubernetes.io/hostname": f"node-{number}",
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                },
            },
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "capacity": room,
                "allocatable": room,
                "addresses": [
                    {"type": "InternalIP", "address": f"192.0.2.{number + 1}"},
                    {"type": "Hostname", "address": f"node-{number}"},
                ],
                "nodeInfo": {
                    "architecture": "amd64",
                    "bootID": "b",
                    "containerRuntimeVersion": "containerd://2.0.0",
                    "kernelVersion": "6.0",
                    "kubeProxyVersion": "",
                    "kubeletVersion": "v1.36.4",
                    "machineID": "m",
                    "operatingSystem": "linux",
                    "osImage": "linux",
                    "systemUUID": "u",
                },
            },
        }
        for number in range(count)
    ]


def _stage(
    name: str, kind: str, when: list[dict[str, Any]], then: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": when},
            "next": then,
        },
    }


def _node() -> dict[str, Any]:
    when = [_condition("Ready", "NotIn")]
    template = "conditions:\n{{ range NodeConditions }}\n" + "".join(
        f"{lead} {name}: {{{{ {value} | Quote }}}}\n"
        for lead, name, value in (
            ("-", "lastHeartbeatTime", "Now"),
            (" ", "lastTransitionTime", "Now"),
            (" ", "message", ".message"),
            (" ", "reason", ".reason"),
            (" ", "status", ".status"),
            (" ", "type", ".type"),
        )
    )
    return _stage("node-initialize", "Node", when, {"statusTemplate": template + "{{ end }}\n"})


def _deleted() -> dict[str, Any]:
    when = [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}]
    return _stage("pod-delete", "Pod", when, {"delete": True})


def _condition(kind: str, operator: str) -> dict[str, Any]:
    return {
        "key": f'.status.conditions.[] | select( .type == "{kind}" ) | .status',
        "operator": operator,
        "values": ["True"],
    }


def _status(true: list[str], false: list[str], phase: str, rest: str) -> dict[str, Any]:
    conditions = "".join(
        f'- lastTransitionTime: {{{{ $now | Quote }}}}\n  status: "{status}"\n  type: {kind}\n'
        for status, kinds in (("True", true), ("False", false))
        for kind in kinds
    )
    head = "{{ $now := Now }}" + (_GET_IP if "podIP" in rest else "")
    body = f"conditions:\n{conditions}{rest}phase: {phase}\nstartTime: {{{{ $now | Quote }}}}\n"
    return {"statusTemplate": f"{head}\n{body}"}


def _containers(ready: str, state: str) -> str:
    return _CONTAINERS % {"ready": ready, "state": state}


def _at_once() -> Iterator[dict[str, Any]]:
    yield _stage(
        "pod-ready",
        "Pod",
        [_NO, _condition("Ready", "NotIn")],
        _status(
            ["Initialized", "Ready", "ContainersReady"],
            [],
            "Running",
            _containers("true", _RUNNING) + _IP,
        ),
    )


def _staged() -> Iterator[dict[str, Any]]:
    """Yield four statuses, each after the previous one.

    Only one of them has the address, because kwok chooses another address at each call.
    """
    creating = _containers("false", _WAITING % "ContainerCreating")
    started = _containers("false", _RUNNING)
    ready = _containers("true", _RUNNING)
    network = "PodReadyToStartContainers"
    yield _stage(
        "pod-seen",
        "Pod",
        [_NO, {"key": ".status.containerStatuses", "operator": "DoesNotExist"}],
        _status([], ["Initialized", "Ready", "ContainersReady", network], "Pending", creating),
    )
    yield _stage(
        "pod-network",
        "Pod",
        [
            _NO,
            {"key": ".status.containerStatuses", "operator": "Exists"},
            _condition(network, "NotIn"),
        ],
        _status([network, "Initialized"], ["Ready", "ContainersReady"], "Pending", creating + _IP),
    )
    yield _stage(
        "pod-started",
        "Pod",
        [
            _NO,
            _condition(network, "In"),
            {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
        ],
        _status([network, "Initialized"], ["Ready", "ContainersReady"], "Running", started),
    )
    yield _stage(
        "pod-ready",
        "Pod",
        [
            _NO,
            {"key": ".status.phase", "operator": "In", "values": ["Running"]},
            _condition("Ready", "NotIn"),
        ],
        _status([network, "Initialized", "Ready", "ContainersReady"], [], "Running", ready),
    )
