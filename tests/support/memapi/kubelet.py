"""Scheduler and kubelets of a cluster in one: each pod gets a node, runs and ends.

Owns the order and time of what they write: each as an event of its own, some milliseconds after
what it follows from. Knows bare pods, which are Ready with one status as kwok writes it, and staged
ones, which take four with a kubelet's observedGeneration. Hazard: with no time between, a syncer
sees the last state only and has less to do.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence

from tenancy.resources import EVENTS, PODS
from tests.support.memapi import managed, patches, verbs
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.watches import Object

_NETWORK = "PodReadyToStartContainers"
_ALL = (_NETWORK, "Initialized", "Ready", "ContainersReady")

Write = Callable[[Object], Object]


class MemoryKubelet:
    """Plays the pods of one cluster."""

    def __init__(
        self,
        cluster: MemoryCluster,
        nodes: Sequence[str],
        *,
        step: float,
        staged: bool,
        events: bool,
    ) -> None:
        """`step` is in seconds. With `events` each pod has an Event Scheduled."""
        self._cluster = cluster
        self._pods = cluster.of(PODS)
        self._events = cluster.of(EVENTS) if events else None
        self._nodes = tuple(nodes)
        self._turns: Counter[str] = Counter()
        self._step = step
        self._statuses: tuple[Write, ...] = _STAGED if staged else _AT_ONCE
        self._pods.listeners.append(self._seen)

    def _seen(self, kind: str, body: Object) -> None:
        metadata = body["metadata"]
        key, uid = (metadata["namespace"], metadata["name"]), metadata["uid"]
        if kind == "ADDED":
            self._later(self._schedule, key, uid)
        elif kind == "MODIFIED" and metadata.get("deletionGracePeriodSeconds"):
            self._later(self._end, key, uid)

    def _later(self, do: Callable[..., None], *arguments: object) -> None:
        loop = asyncio.get_running_loop()
        if self._step:
            loop.call_later(self._step, do, *arguments)
        else:
            loop.call_soon(do, *arguments)

    def _schedule(self, key: tuple[str, str], uid: str) -> None:
        body = self._alive(key, uid)
        found = self._pods.get(*key)
        if body is None or found is None:
            return
        node = body["spec"].get("nodeName") or self._next_node(key[0])
        if not body["spec"].get("nodeName"):
            verbs.bind(self._pods, found, node)
        if self._events is not None:
            event = _scheduled(body, node)
            verbs.create(self._cluster, self._events, key[0], event, "kube-scheduler")
        self._later(self._report, key, uid, 0)

    def _next_node(self, namespace: str) -> str:
        """Spread the pods of each namespace over all nodes."""
        self._turns[namespace] += 1
        return self._nodes[self._turns[namespace] % len(self._nodes)]

    def _report(self, key: tuple[str, str], uid: str, number: int) -> None:
        body = self._alive(key, uid)
        if body is None:
            return
        status = self._statuses[number](body)
        if len(self._statuses) > 1:
            _observe(status, body["metadata"]["generation"])
        body["status"] = patches.merged(body["status"], status, by_key=True)
        managed.note(body, "kubelet", {"status": status}, "status")
        self._pods.put(body)
        if number + 1 < len(self._statuses):
            self._later(self._report, key, uid, number + 1)

    def _end(self, key: tuple[str, str], uid: str) -> None:
        found = self._pods.get(*key)
        if found is not None and found.decode()["metadata"]["uid"] == uid:
            verbs.delete(self._pods, found, {"gracePeriodSeconds": 0})

    def _alive(self, key: tuple[str, str], uid: str) -> Object | None:
        """Return a pod that is still the one meant, and not on its way out."""
        found = self._pods.get(*key)
        body = found.decode() if found is not None else None
        if body is None or body["metadata"]["uid"] != uid:
            return None
        return None if "deletionTimestamp" in body["metadata"] else body


def _now() -> str:
    return time.strftime(
        "%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time())
    )  # as an argument, so that tests may set it


def _conditions(true: Sequence[str]) -> list[Object]:
    return [
        {
            "lastProbeTime": None,
            "lastTransitionTime": _now(),
            "status": "True" if kind in true else "False",
            "type": kind,
        }
        for kind in _ALL
    ]


def _containers(pod: Object, *, started: bool, ready: bool) -> list[Object]:
    state: Object = {"waiting": {"reason": "ContainerCreating"}}
    if started:
        state = {"running": {"startedAt": _now()}}
    return [
        {
            "image": container["image"],
            "imageID": container["image"] if started else "",
            "lastState": {},
            "name": container["name"],
            "ready": ready,
            "restartCount": 0,
            "started": ready,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


def _observe(status: Object, generation: int) -> None:
    """Write the generation of the pod to which a status belongs."""
    for each in (status, *status["conditions"]):
        each["observedGeneration"] = generation


def _network(pod: Object) -> Object:
    number = int(pod["metadata"]["uid"][:6], 16)
    address = f"10.{128 + (number >> 16) % 64}.{number >> 8 & 255}.{number & 255}"
    host = "192.0.2.1"
    return {
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
    }


def _status(pod: Object, true: Sequence[str], *, phase: str, started: bool, ready: bool) -> Object:
    return {
        "conditions": _conditions(true),
        "containerStatuses": _containers(pod, started=started, ready=ready),
        "phase": phase,
        "startTime": pod["status"].get("startTime") or _now(),
    }


def _seen(pod: Object) -> Object:
    return _status(pod, (), phase="Pending", started=False, ready=False)


def _networked(pod: Object) -> Object:
    true = (_NETWORK, "Initialized")
    return _network(pod) | _status(pod, true, phase="Pending", started=False, ready=False)


def _started(pod: Object) -> Object:
    true = (_NETWORK, "Initialized")
    return _status(pod, true, phase="Running", started=True, ready=False)


def _ready(pod: Object) -> Object:
    return _network(pod) | _status(pod, _ALL, phase="Running", started=True, ready=True)


_AT_ONCE: tuple[Write, ...] = (_ready,)
_STAGED: tuple[Write, ...] = (_seen, _networked, _started, _ready)


def _scheduled(pod: Object, node: str) -> Object:
    metadata, now = pod["metadata"], _now()
    namespace, name = metadata["namespace"], metadata["name"]
    return {
        "metadata": {"generateName": f"{name}."},
        "involvedObject": {
            "kind": "Pod",
            "namespace": namespace,
            "name": name,
            "uid": metadata["uid"],
            "apiVersion": "v1",
            "resourceVersion": metadata["resourceVersion"],
        },
        "reason": "Scheduled",
        "message": f"Successfully assigned {namespace}/{name} to {node}",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": now.replace("Z", ".000000Z"),
        "action": "Binding",
        "type": "Normal",
        "reportingComponent": "default-scheduler",
        "reportingInstance": "default-scheduler-0",
    }
