"""What is known of a tenant's pods without decoding them again: their needs and their nodes.

Owns the indexes and when they are brought up to date. Must not wake anybody. Hazard: it is fed by
every event of every pod, so it reads the whole body only when the spec may have changed.
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
    """What came or went with one event."""

    refs: Collection[Ref] = ()
    nodes: Collection[str] = ()


class PodIndex:
    """Needs and nodes of one tenant's pods."""

    def __init__(self, *, names_them: bool = False) -> None:
        """`names_them`: whether a pod was taken in is asked, too; most need not remember that."""
        self._names_them = names_them
        self.references = References()
        self._node_of: dict[tuple[str, str], str] = {}
        self._on_node: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self._names: defaultdict[str, set[str]] = defaultdict(set)

    def set(self, old: Entry | None, new: Entry) -> Changes:
        """Take in what a pod is now."""
        refs: Collection[Ref] = ()
        if old is None and self._names_them:
            self._names[new.namespace].add(new.name)
        if old is None or old.uid != new.uid or old.generation != new.generation:
            refs = self.references.set(new.namespace, new.name, needs_of(new.decode()))
        return Changes(refs, self._move(new.key, _node(new)))

    def drop(self, old: Entry) -> Changes:
        """Take in that a pod is gone."""
        if self._names_them:
            names = self._names[old.namespace]
            names.discard(old.name)
            if not names:
                del self._names[old.namespace]
        refs = self.references.set(old.namespace, old.name, ())
        return Changes(refs, self._move(old.key, ""))

    def has(self, namespace: str, name: str) -> bool:
        """Tell whether a pod was taken in."""
        return name in self._names.get(namespace, ())

    def is_in(self, namespace: str) -> bool:
        """Tell whether any pod of a namespace was taken in."""
        return namespace in self._names

    def is_on_node(self, node: str) -> bool:
        """Tell whether any pod object names a node; pods of DaemonSets do not count."""
        return node in self._on_node

    def is_bound(self, namespace: str, name: str) -> bool:
        """Tell whether a pod names a node; pods of DaemonSets are said to name none."""
        return (namespace, name) in self._node_of

    def on_node(self, node: str) -> Collection[tuple[str, str]]:
        """Return the pods that name a node, as `is_on_node` counts them."""
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
    """Return the UID of a pod's controller, empty when it has none."""
    pod = _read(entry)
    owners = (pod.metadata.owners or ()) if pod is not None else ()
    return next((owner.uid for owner in owners if owner.controller), "")


def _read(entry: Entry) -> _Pod | None:
    try:
        return _POD.decode(entry.body)
    except msgspec.ValidationError:
        return None  # a hostile API said so; the verdict table rejects such a pod


def _node(entry: Entry) -> str:
    """Return the node that a pod keeps shown."""
    pod = _read(entry)
    if pod is None:
        return ""
    owners = pod.metadata.owners or ()
    is_daemon = any(owner.controller and owner.kind == "DaemonSet" for owner in owners)
    return "" if is_daemon else pod.spec.node
