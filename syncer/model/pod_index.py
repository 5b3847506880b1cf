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
from syncer.model.references import Ref, References, needs_of


class _Owner(msgspec.Struct):
    kind: str = ""
    uid: str = ""
    controller: bool = False


class _Metadata(msgspec.Struct, rename={"owners": "ownerReferences"}):
    owners: list[_Owner] | None = None


class _Spec(msgspec.Struct, rename={"node": "nodeName"}):
    node: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


_POD = msgspec.json.Decoder(_Pod)


class Changes(NamedTuple):
    """References and nodes that were added or removed by one event."""

    refs: Collection[Ref] = ()
    nodes: Collection[str] = ()


class PodIndex:
    """References and nodes of one tenant's pods."""

    def __init__(self, *, names_them: bool = False) -> None:
        """Create an empty index.

        `names_them` enables `has` and `is_in`. Most users do not need them and save the memory.
        """
        self._names_them = names_them
        self.references = References()
        self._node_of: dict[tuple[str, str], str] = {}
        self._on_node: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self._names: defaultdict[str, set[str]] = defaultdict(set)

    def set(self, old: Entry | None, new: Entry) -> Changes:
        """Update the index after a pod was added or changed."""
        refs: Collection[Ref] = ()
        if old is None and self._names_them:
            self._names[new.namespace].add(new.name)
        if old is None or old.uid != new.uid or old.generation != new.generation:
            refs = self.references.set(new.namespace, new.name, needs_of(new.decode()))
        return Changes(refs, self._move(new.key, _node(new)))

    def drop(self, old: Entry) -> Changes:
        """Update the index after a pod was deleted."""
        if self._names_them:
            names = self._names[old.namespace]
            names.discard(old.name)
            if not names:
                del self._names[old.namespace]
        refs = self.references.set(old.namespace, old.name, ())
        return Changes(refs, self._move(old.key, ""))

    def has(self, namespace: str, name: str) -> bool:
        """Return whether the index has a pod."""
        return name in self._names.get(namespace, ())

    def is_in(self, namespace: str) -> bool:
        """Return whether the index has any pod of a namespace."""
        return namespace in self._names

    def is_on_node(self, node: str) -> bool:
        """Return whether any pod object names a node. Pods of DaemonSets are ignored."""
        return node in self._on_node

    def is_bound(self, namespace: str, name: str) -> bool:
        """Return whether a pod names a node. For pods of DaemonSets the result is False."""
        return (namespace, name) in self._node_of

    def on_node(self, node: str) -> Collection[tuple[str, str]]:
        """Return the pods that name a node. Pods of DaemonSets are ignored."""
        return tuple(self._on_node.get(node, ()))

    def nodes(self) -> Collection[str]:
        """Return the nodes that pods name."""
        return tuple(self._on_node)

    def _move(self, pod: tuple[str, str], node: str) -> Collection[str]:
        before = self._node_of.get(pod, "")
        if before == node:
            return ()
        if before:
            self._on_node[before].discard(pod)
            if not self._on_node[before]:
                del self._on_node[before]
            del self._node_of[pod]
        if node:
            self._node_of[pod] = node
            self._on_node[node].add(pod)
        return tuple(name for name in (before, node) if name)


def node_of(entry: Entry) -> str:
    """Return the node that a pod names."""
    pod = _read(entry)
    return pod.spec.node if pod is not None else ""


def controller_of(entry: Entry) -> str:
    """Return the UID of a pod's controller. Empty if it has none."""
    pod = _read(entry)
    owners = (pod.metadata.owners or ()) if pod is not None else ()
    return next((owner.uid for owner in owners if owner.controller), "")


def _read(entry: Entry) -> _Pod | None:
    try:
        return _POD.decode(entry.body)
    except msgspec.ValidationError:
        return None  # from a hostile API; the verdict table rejects such a pod


def _node(entry: Entry) -> str:
    """Return the node that a pod requires as a virtual node. Empty for a pod of a DaemonSet."""
    pod = _read(entry)
    if pod is None:
        return ""
    owners = pod.metadata.owners or ()
    is_daemon = any(owner.controller and owner.kind == "DaemonSet" for owner in owners)
    return "" if is_daemon else pod.spec.node
