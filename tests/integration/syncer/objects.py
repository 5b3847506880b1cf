"""Pods as tenants write them, and the status that a kubelet gives them."""

from __future__ import annotations

from typing import Any

from kubeio import Object


def pod(name: str, **spec: Any) -> Object:
    """Return a plain tenant pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}], **spec},
    }


def running_status(name: str) -> Object:
    """Return the status of a pod that runs."""
    began = "2026-01-01T00:00:00Z"
    ready = [
        {"type": kind, "status": "True", "lastTransitionTime": began}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "phase": "Running",
        "startTime": began,
        "podIP": "10.244.0.9",
        "podIPs": [{"ip": "10.244.0.9"}],
        "hostIP": "192.0.2.7",
        "hostIPs": [{"ip": "192.0.2.7"}],
        "conditions": ready,
        "containerStatuses": [
            {
                "name": "main",
                "image": "registry.example/app:1",
                "imageID": "sha256:1",
                "containerID": f"containerd://{name}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": began}},
            }
        ],
    }
