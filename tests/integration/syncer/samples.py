"""One object of each kind that goes down, and what is done to it in its life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeio import Object
from syncer.rules.namespaces import POD_SECURITY
from tests.integration.syncer.objects import pod


@dataclass(frozen=True, kw_only=True)
class KindSample:
    """How an object of one kind is made, changed and read."""

    body: Object
    change: Object
    """Merge patch by the tenant."""
    removal: Object
    """Merge patch that takes a field away."""
    drift: Object
    """Merge patch by another writer in the super cluster."""
    at: tuple[str, ...]
    """The field that `change`, `removal` and `drift` are about."""
    keys: tuple[str, ...] = ()
    """The keys of that field which count. Empty: all."""
    super_patch: Any = None
    """What the twin says there whatever the tenant says. None: what the tenant does."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the object begins with. Some take part by them only."""
    status: Object | None = None
    """What the tenant's own controller says, without which it does not either."""
    is_referred_to: bool = False
    """It takes part only while a pod refers to it."""

    @property
    def carries_changes(self) -> bool:
        """Whether a change by the tenant is a change of the twin."""
        return self.super_patch is None

    def value(self, found: Object) -> Any:
        """Return the field."""
        for key in self.at:
            found = found.get(key) or {}
        return {key: found.get(key) for key in self.keys} if self.keys else found


def port(name: str, number: int) -> Object:
    """Return a port of a slice."""
    return {"name": name, "port": number, "protocol": "TCP"}


BACKEND = {"service": {"name": "web", "port": {"number": 80}}}


def rule(host: str) -> Object:
    """Return a rule of an Ingress."""
    path = {"path": "/", "pathType": "Prefix", "backend": BACKEND}
    return {"host": host, "http": {"paths": [path]}}


def exists(label: str) -> Object:
    """Return one expression of a selector."""
    return {"key": label, "operator": "Exists"}


_BY_LABEL: Mapping[str, Any] = {
    "change": {"metadata": {"labels": {"size": "changed"}}},
    "removal": {"metadata": {"labels": {"tier": None}}},
    "drift": {"metadata": {"labels": {"size": "drifted"}}},
    "at": ("metadata", "labels"),
    "keys": ("size", "tier"),  # the twin has labels of ours as well
    "labels": {"size": "small", "tier": "gold"},
}

SAMPLES: Mapping[str, KindSample] = {
    "Namespace": KindSample(
        body={},
        change={"metadata": {"labels": {POD_SECURITY: "privileged"}}},
        removal={"metadata": {"labels": {POD_SECURITY: None}}},
        drift={"metadata": {"labels": {POD_SECURITY: "privileged"}}},
        at=("metadata", "labels", POD_SECURITY),
        super_patch="baseline",
    ),
    "Pod": KindSample(body={"spec": pod("x")["spec"]}, **_BY_LABEL),
    "ConfigMap": KindSample(
        body={"data": {"a": "1", "b": "2"}},
        change={"data": {"a": "changed"}},
        removal={"data": {"b": None}},
        drift={"data": {"a": "drifted"}},
        at=("data",),
        is_referred_to=True,
    ),
    "Secret": KindSample(
        body={"data": {"a": "MQ==", "b": "Mg=="}, "type": "Opaque"},
        change={"data": {"a": "Mw=="}},
        removal={"data": {"b": None}},
        drift={"data": {"a": "NA=="}},
        at=("data",),
        is_referred_to=True,
    ),
    "Service": KindSample(
        body={"spec": {"selector": {"a": "1", "b": "2"}, "ports": [{"port": 80}]}},
        change={"spec": {"selector": {"a": "changed"}}},
        removal={"spec": {"selector": {"b": None}}},
        drift={"spec": {"selector": {"a": "drifted"}}},
        at=("spec", "selector"),
    ),
    "PersistentVolumeClaim": KindSample(  # its spec may be changed once it is bound: test_claims
        body={
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
        },
        **_BY_LABEL,
    ),
    "EndpointSlice": KindSample(
        body={
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["198.51.100.7"], "conditions": {"ready": True}}],
            "ports": [port("a", 80), port("b", 81)],
        },
        change={"ports": [port("a", 8080), port("b", 81)]},
        removal={"ports": [port("a", 8080)]},
        drift={"ports": [port("a", 9999)]},
        at=("ports",),
        labels={"kubernetes.io/service-name": "away"},
    ),
    "Ingress": KindSample(
        body={"spec": {"rules": [rule("a.example")], "tls": [{"hosts": ["a.example"]}]}},
        change={"spec": {"rules": [rule("b.example")], "tls": [{"hosts": ["b.example"]}]}},
        removal={"spec": {"tls": None}},
        drift={"spec": {"rules": [rule("c.example")]}},
        at=("spec",),
    ),
    "NetworkPolicy": KindSample(
        body={"spec": {"podSelector": {"matchLabels": {"a": "1", "b": "2"}}, "ingress": [{}]}},
        change={"spec": {"podSelector": {"matchLabels": {"a": "changed"}}}},
        removal={"spec": {"podSelector": {"matchLabels": {"b": None}}}},
        drift={"spec": {"podSelector": {"matchLabels": {"a": "drifted"}}}},
        at=("spec", "podSelector"),
    ),
    "PodDisruptionBudget": KindSample(
        body={
            "spec": {
                "maxUnavailable": "25%",
                "selector": {"matchLabels": {"a": "1"}, "matchExpressions": [exists("b")]},
            }
        },
        change={"spec": {"selector": {"matchExpressions": [exists("c")]}}},
        removal={"spec": {"selector": {"matchExpressions": None}}},
        drift={"spec": {"selector": {"matchExpressions": [exists("d")]}}},
        at=("spec", "selector", "matchExpressions"),
        status={
            "observedGeneration": 1,
            "desiredHealthy": 3,
            "expectedPods": 4,
            "currentHealthy": 4,
            "disruptionsAllowed": 1,
        },
    ),
}
"""By kind, one for each row of the table: `test_kinds` fails for a row without."""
