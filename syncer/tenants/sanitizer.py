"""Removal of foreign names from texts that are synced back to a tenant.

Owns the search for super namespaces, root namespaces, node agents, and nodes that the tenant does
not see. All nodes of a target are replaced by its virtual node. Reads caches only. Must not know
the subject of a text. Hazard: a word must be found in a cache to be replaced, never only resemble
one. Otherwise a tenant's own word that resembles a foreign name would be changed.
"""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from kubeio import Object
from kubeio.cache.store import Store
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.super_cluster import SuperCluster
from syncer.rules.placement import target_node
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant

_LABEL_PATTERN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_NODE_PATTERN = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_ROOT_PATTERN = re.compile(r".+-[0-9a-f]{6}-.+")
"""Form of the names of root namespaces and of super namespaces."""
_ROOT_PART_PATTERN = re.compile(r"-[0-9a-f]{6}-")
"""Part that the names of all root namespaces and super namespaces have."""
_DIGEST_CHARACTERS = 6
"""Characters between namespace and name in the name of a root namespace, without the hyphens."""
_CONTAINER_WRITTEN_FIELDS = frozenset({"terminated"})
"""Fields that containers write themselves. A replacement would disclose to them which names exist.
"""
MAX_TEXT = 4096
"""Length in characters at which texts are cut. Kubelets cut messages of containers there, too.

A longer text delays the event loop of all tenants, because each word of it is looked up.
"""
NAMESPACE_PLACEHOLDER = "another-namespace"
NODE_PLACEHOLDER = "another-node"
AGENT_PLACEHOLDER = "node-agent"


class Sanitizer:
    """Replaces the names that one tenant must not read."""

    def __init__(
        self, tenant: Tenant, super_cluster: SuperCluster, home: HomeCluster, nodes: Store
    ) -> None:
        """`nodes` are the nodes that the tenant sees. Texts come from `super_cluster`."""
        self._tenant = tenant
        self._home = home
        self._super_cluster = super_cluster
        self._nodes = nodes

    def sanitize_text(self, text: str, *, node: str = "") -> str:
        """Return a text without foreign names. `node` is a node that the tenant may know."""
        text = text[:MAX_TEXT]
        text = self._replace_labels(text)
        return _NODE_PATTERN.sub(lambda found: self._replace_node(found.group(), node), text)

    def sanitize_status(self, body: Mapping[str, Any], *, node: str = "") -> Object:
        """Return a super object with every message in its status sanitized."""
        found = body.get("status")
        if not found or b'"message":"' not in orjson.dumps(found):
            return dict(body)
        return {**body, "status": self._sanitize_messages(found, node)}

    def sanitize_ruled_status(self, body: Mapping[str, Any]) -> Object:
        """Return a super object without foreign namespaces in any text and key of its status.

        The fields of a kind of a SyncRule have no known meaning, so each may name a namespace. A
        name of a node may be the value of a field, such as the pool of a device, and stays there.
        """
        return {**body, "status": self._sanitize_texts(body.get("status"))}

    def _sanitize_texts(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._replace_namespaces(value)
        if isinstance(value, list):
            return [self._sanitize_texts(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            self._replace_namespaces(key): self.sanitize_text(inner)
            if key == "message" and isinstance(inner, str)
            else self._sanitize_texts(inner)
            for key, inner in value.items()
        }

    def _replace_namespaces(self, text: str) -> str:
        """Return a text of any length without foreign namespaces. Most texts have none."""
        if _ROOT_PART_PATTERN.search(text) is None:
            return text
        return self._replace_labels(text[:MAX_TEXT])

    def _sanitize_messages(self, value: Any, node: str) -> Any:
        if isinstance(value, list):
            return [self._sanitize_messages(item, node) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self.sanitize_text(inner, node=node)
            if key == "message" and isinstance(inner, str)
            else inner
            if key in _CONTAINER_WRITTEN_FIELDS
            else self._sanitize_messages(inner, node)
            for key, inner in value.items()
        }

    def _replace_labels(self, text: str) -> str:
        return _LABEL_PATTERN.sub(lambda found: self._replace_label(found.group()), text)

    def _replace_label(self, word: str) -> str:
        if self._home.agent_pods.get(self._home.namespace, word) is not None:
            return AGENT_PLACEHOLDER
        if len(word) > names.MAX_LABEL:
            return word  # no namespace has such a name
        if _ROOT_PATTERN.fullmatch(word) is None:
            return word
        entry = self._super_cluster.stores["Namespace"].get("", word)
        if entry is None:
            return NAMESPACE_PLACEHOLDER if self._is_other_root(word) else word
        record = {"annotations": entry.annotations}
        owner = ownership.read_owner(record, self._tenant.super_cluster_uid)
        is_own = owner is not None and owner.vc_uid == self._tenant.uid
        return owner.namespace if owner is not None and is_own else NAMESPACE_PLACEHOLDER

    def _is_other_root(self, word: str) -> bool:
        """Return whether a word is the root namespace of another tenant.

        The number of lookups depends on the word alone, not on the number of tenants.
        """
        distance = _DIGEST_CHARACTERS + 1
        for begin in range(1, len(word) - distance - 1):
            if word[begin] != "-" or word[begin + distance] != "-":
                continue
            namespace, name = word[:begin], word[begin + distance + 1 :]
            entry = self._home.virtual_clusters.get(namespace, name)
            if entry is not None and entry.uid != self._tenant.uid:
                return True
        return False

    def _replace_node(self, word: str, known: str) -> str:
        # A node may have any word as its name. Words without digit, hyphen or dot are not looked
        # up.
        is_like_one = any(character in "-.0123456789" for character in word)
        if not is_like_one:
            return word
        node = self._super_cluster.nodes.get("", word)
        if node is None:
            return word
        if self._super_cluster.registration:
            return target_node.build_node_name(self._super_cluster.name)
        if word == known:
            return word
        shown = self._nodes.get("", word)
        # A tenant, or a target, may have a node with the same name.
        is_shown = shown is not None and shown.annotations.get(wellknown.UID) == node.uid
        return word if is_shown else NODE_PLACEHOLDER
