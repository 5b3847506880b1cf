"""Index of the references and nodes of a tenant's pods, without repeated decoding.

Owns the indexes and their updates. Must not enqueue keys.

Hazard: the index must read a whole body only when the spec may have changed. It receives every
event of every pod, so more decoding would slow down all tenants.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from kubeio.cache.store import Entry
from syncer.model.references import ObjectReference, ReferenceIndex, list_pod_needs


class _PodOwner(msgspec.Struct):
    kind: str = ""
    uid: str = ""
    controller: bool = False


class _PodMetadata(msgspec.Struct, rename={"owners": "ownerReferences"}):
    owners: list[_PodOwner] | None = None


class _PodSpec(msgspec.Struct, rename={"node": "nodeName"}):
    node: str = ""


class _IndexedPod(msgspec.Struct):
    metadata: _PodMetadata
    spec: _PodSpec


_POD_DECODER = msgspec.json.Decoder(_IndexedPod)


class PodIndexChanges(NamedTuple):
    """References and nodes that were added or removed by one event."""

    refs: Collection[ObjectReference] = ()
    nodes: Collection[str] = ()


class PodIndex:
    """References and nodes of one tenant's pods."""

    def __init__(self, *, tracks_names: bool = False) -> None:
        """Create an empty index.

        `tracks_names` enables `has` and `has_namespace`. Most users do not need them and save the
        memory.
        """
        self._names_them = tracks_names
        self.references = ReferenceIndex()
        self._node_by_pod: dict[tuple[str, str], str] = {}
        self._pods_by_node: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self._known_pods: defaultdict[str, set[str]] = defaultdict(set)

    def set(self, old: Entry | None, new: Entry) -> PodIndexChanges:
        """Update the index after a pod was added or changed."""
        refs: Collection[ObjectReference] = ()
        if old is None and self._names_them:
            self._known_pods[new.namespace].add(new.name)
        if old is None or old.uid != new.uid or old.generation != new.generation:
            refs = self.references.set(new.namespace, new.name, list_pod_needs(new.decode()))
        return PodIndexChanges(refs, self._move_pod(new.key, _get_tracked_node(new)))

    def remove(self, old: Entry) -> PodIndexChanges:
        """Update the index after a pod was deleted."""
        if self._names_them:
            names = self._known_pods[old.namespace]
            names.discard(old.name)
            if not names:
                del self._known_pods[old.namespace]
        refs = self.references.set(old.namespace, old.name, ())
        return PodIndexChanges(refs, self._move_pod(old.key, ""))

    def has(self, namespace: str, name: str) -> bool:
        """Return whether the index has a pod."""
        return name in self._known_pods.get(namespace, ())

    def has_namespace(self, namespace: str) -> bool:
        """Return whether the index has any pod of a namespace."""
        return namespace in self._known_pods

    def has_pods_on_node(self, node: str) -> bool:
        """Return whether any pod object names a node. Pods of DaemonSets are ignored."""
        return node in self._pods_by_node

    def is_bound(self, namespace: str, name: str) -> bool:
        """Return whether a pod names a node. For pods of DaemonSets the result is False."""
        return (namespace, name) in self._node_by_pod

    def list_pods_on_node(self, node: str) -> Collection[tuple[str, str]]:
        """Return the pods that name a node. Pods of DaemonSets are ignored."""
        return tuple(self._pods_by_node.get(node, ()))

    def list_nodes(self) -> Collection[str]:
        """Return the nodes that pods name."""
        return tuple(self._pods_by_node)

    def _move_pod(self, pod: tuple[str, str], node: str) -> Collection[str]:
        before = self._node_by_pod.get(pod, "")
        if before == node:
            return ()
        if before:
            self._pods_by_node[before].discard(pod)
            if not self._pods_by_node[before]:
                del self._pods_by_node[before]
            del self._node_by_pod[pod]
        if node:
            self._node_by_pod[pod] = node
            self._pods_by_node[node].add(pod)
        return tuple(name for name in (before, node) if name)


def get_node(entry: Entry) -> str:
    """Return the node that a pod names."""
    pod = _decode_pod(entry)
    return pod.spec.node if pod is not None else ""


def get_controller_uid(entry: Entry) -> str:
    """Return the UID of a pod's controller. Empty if it has none."""
    pod = _decode_pod(entry)
    owners = (pod.metadata.owners or ()) if pod is not None else ()
    return next((owner.uid for owner in owners if owner.controller), "")


def _decode_pod(entry: Entry) -> _IndexedPod | None:
    try:
        return _POD_DECODER.decode(entry.body)
    except msgspec.ValidationError:
        return None  # from a hostile API; the verdict table rejects such a pod


def _get_tracked_node(entry: Entry) -> str:
    """Return the node that a pod requires as a virtual node. Empty for a pod of a DaemonSet."""
    pod = _decode_pod(entry)
    if pod is None:
        return ""
    owners = pod.metadata.owners or ()
    is_daemon = any(owner.controller and owner.kind == "DaemonSet" for owner in owners)
    return "" if is_daemon else pod.spec.node
