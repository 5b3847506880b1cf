"""Index of a tenant's pods by node and by the objects that they need."""

from __future__ import annotations

from typing import Any

import orjson

from kubeio.cache.store import Entry, parse_entry
from syncer.model.pod_index import PodIndex
from syncer.model.references import (
    ObjectReference,
)
from tests.unit.syncer.model.test_references import POD


def entry(revision: int, **fields: Any) -> Entry:
    """Return a cached pod of a version."""
    metadata = {"name": "p", "namespace": "web", "uid": "u", "resourceVersion": str(revision)}
    body = {"kind": "Pod", "metadata": {**metadata, **fields.pop("metadata", {})}, **fields}
    return parse_entry(orjson.dumps(body))


def test_the_pod_index_follows_needs_and_nodes():
    index = PodIndex()
    first = entry(1, metadata={"generation": 1}, spec=POD["spec"])
    assert ObjectReference("Secret", "s1") in index.set(None, first).refs
    bound = entry(2, metadata={"generation": 1}, spec={**POD["spec"], "nodeName": "n"})
    changes = index.set(first, bound)
    assert (changes.refs, changes.nodes) == ((), ("n",))
    assert index.has_pods_on_node("n")
    assert index.list_pods_on_node("n") == (("web", "p"),)
    gone = index.remove(bound)
    assert ObjectReference("Secret", "s1") in gone.refs
    assert gone.nodes == ("n",)
    assert not index.has_pods_on_node("n")
    assert not index.references.is_used("web", ObjectReference("Secret", "s1"))


def test_pods_of_daemon_sets_keep_no_node():
    index = PodIndex()
    owner = {"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    index.set(None, entry(1, metadata={"ownerReferences": [owner]}, spec={"nodeName": "n"}))
    assert not index.has_pods_on_node("n")


def test_a_malformed_pod_is_on_no_node():
    index = PodIndex()
    index.set(None, entry(1, spec={"nodeName": ["n"]}))
    assert index.list_nodes() == ()
