"""Texts of the super cluster on their way to a tenant: names in them that are not the tenant's.

Owns the search for super namespaces, the tenant's own and others', root namespaces, our agents, and
nodes that the tenant is not shown; those of a target all are the one that stands for it. Only looks
into caches. Must not know what a text is about.
Hazard: names are found word by word and looked up, never by how they begin, so that a tenant's own
word that resembles one stays as it is.
"""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from kubeio import Object
from kubeio.cache.store import Store
from syncer.clusters.home_cluster import Home
from syncer.clusters.super_cluster import SuperCluster
from syncer.rules.placement import target_node
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_NODE = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_ROOT = re.compile(r".+-[0-9a-f]{6}-.+")
"""What the names of root namespaces, and of the namespaces below them, look like."""
_ROOT_EXTRA = 8  # two hyphens and six digits between namespace and name
_OF_CONTAINERS = frozenset({"terminated"})
"""What containers write themselves: looked up, it would tell them which names there are."""
_MAX_TEXT = 32_768
"""Characters that are looked through; what is longer is cut, as API servers do with Events."""
ANOTHER = "another-namespace"
A_NODE = "another-node"
AN_AGENT = "node-agent"


class Scrubber:
    """What one tenant may not read."""

    def __init__(
        self, tenant: Tenant, super_cluster: SuperCluster, home: Home, nodes: Store
    ) -> None:
        """`nodes` are those that the tenant is shown; texts come from `super_cluster`."""
        self._tenant = tenant
        self._home = home
        self._super_cluster = super_cluster
        self._nodes = nodes

    def clean(self, text: str, *, node: str = "") -> str:
        """Return a text without names that are not the tenant's; `node` is one that it may know."""
        text = text[:_MAX_TEXT]
        agents = {entry.name for entry in self._home.agent_pods.list()}
        text = _LABEL.sub(lambda found: self._label(found.group(), agents), text)
        return _NODE.sub(lambda found: self._node(found.group(), node), text)

    def status(self, body: Mapping[str, Any], *, node: str = "") -> Object:
        """Return a super object with every message in its status clean."""
        found = body.get("status")
        if not found or b'"message":"' not in orjson.dumps(found):
            return dict(body)
        return {**body, "status": self._messages(found, node)}

    def _messages(self, value: Any, node: str) -> Any:
        if isinstance(value, list):
            return [self._messages(item, node) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self.clean(inner, node=node)
            if key == "message" and isinstance(inner, str)
            else inner
            if key in _OF_CONTAINERS
            else self._messages(inner, node)
            for key, inner in value.items()
        }

    def _label(self, word: str, agents: set[str]) -> str:
        if word in agents:
            return AN_AGENT
        if _ROOT.fullmatch(word) is None:
            return word
        entry = self._super_cluster.stores["Namespace"].get("", word)
        if entry is None:
            return ANOTHER if self._is_other_root(word) else word
        record = {"annotations": entry.annotations}
        owner = ownership.owner_of(record, self._tenant.registration)
        is_own = owner is not None and owner.vc_uid == self._tenant.uid
        return owner.namespace if owner is not None and is_own else ANOTHER

    def _is_other_root(self, word: str) -> bool:
        return any(
            word.startswith(f"{entry.namespace}-")
            and word.endswith(f"-{entry.name}")
            and len(word) == len(entry.namespace) + len(entry.name) + _ROOT_EXTRA
            for entry in self._home.virtual_clusters.list()
            if entry.uid != self._tenant.uid
        )

    def _node(self, word: str, known: str) -> str:
        # A node may be called like any word of a sentence; what looks like none is looked up.
        is_like_one = any(character in "-.0123456789" for character in word)
        if not is_like_one:
            return word
        node = self._super_cluster.nodes.get("", word)
        if node is None:
            return word
        if self._super_cluster.registration:
            return target_node.name_of(self._super_cluster.name)
        if word == known:
            return word
        shown = self._nodes.get("", word)
        # A tenant may call a node of its own like one of ours, as may another super cluster.
        is_shown = shown is not None and shown.annotations.get(wellknown.UID) == node.uid
        return word if is_shown else A_NODE
