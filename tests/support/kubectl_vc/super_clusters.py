"""SuperClusters as the home cluster has them."""

from __future__ import annotations

HOME_UID = "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd"


def body(name="c2", generation=1, flat=False, **conditions):
    return {
        "metadata": {
            "name": name,
            "generation": generation,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"secretRef": {"name": "target-c2"}, "network": {"reachable": flat}},
        "status": {
            "observedGeneration": 1,
            "version": "v1.36.4",
            "nodes": 3,
            "capacity": {"cpu": "12000m", "memory": "4096Mi"},
            "conditions": [
                {"type": kind, "status": status, "reason": "R", "message": f"about {kind}\nmore"}
                for kind, status in conditions.items()
            ],
        },
    }


def cluster(name: str, spec=(), status=()):
    return {
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"targets": [{"name": each} for each in spec]},
        "status": {"targets": [{"name": each} for each in status]},
    }


def held(*listed, **status):
    return {
        "metadata": {"name": "c2", "uid": "u"},
        "status": {"conditions": [*listed], **status},
    }
