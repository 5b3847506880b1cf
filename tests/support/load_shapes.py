"""Pods of a load: bare pods, and realistic pods with the objects that they need.

Owns manifests. A realistic pod has the usual parts of a Deployment's pod: a token volume by its
account, two ConfigMaps and a Secret, an owner, probes and limits, and a Service that selects it.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any

from tenancy.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, SERVICES, Resource

Object = dict[str, Any]
ROOT_CA = "kube-root-ca.crt"
OWNER_UID = "6ddc8a9c-7a4e-4f0c-9c0f-0f5a3f1f9d10"


@dataclass(frozen=True, slots=True)
class LoadShape:
    """One kind of load."""

    name: str
    is_real: bool

    @property
    def has_account(self) -> bool:
        """Return whether pods get tokens of their accounts, as in all but bare benchmarks."""
        return self.is_real

    def pod(self, name: str) -> bytes:
        """Return a pod as the request has it."""
        made = _real(name) if self.is_real else _bare(name)
        return json.dumps(made).encode()

    def companions(self) -> list[tuple[Resource, Object]]:
        """Return the objects that a namespace needs before the first pod."""
        if not self.is_real:
            return []
        data = {f"key-{number}": "value " * 20 for number in range(8)}
        secret = base64.b64encode(b"word " * 20).decode()
        return [
            (SERVICE_ACCOUNTS, _named("ServiceAccount", "default")),
            (CONFIG_MAPS, {**_named("ConfigMap", ROOT_CA), "data": {"ca.crt": "x" * 1200}}),
            (CONFIG_MAPS, {**_named("ConfigMap", "settings"), "data": data}),
            (CONFIG_MAPS, {**_named("ConfigMap", "files"), "data": data}),
            (SECRETS, {**_named("Secret", "password"), "data": {"password": secret}}),
            (
                SERVICES,
                {
                    **_named("Service", "web"),
                    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
                },
            ),
        ]


BARE = LoadShape("bare", is_real=False)
REAL = LoadShape("real", is_real=True)
SHAPES = {shape.name: shape for shape in (BARE, REAL)}


def _named(kind: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def _bare(name: str) -> Object:
    return {
        **_named("Pod", name),
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    }


def _real(name: str) -> Object:
    made = _named("Pod", name)
    made["metadata"] |= {
        "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9"},
        "annotations": {"checksum": "0" * 64},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web-5d4f8c7b9",
                "uid": OWNER_UID,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    room = {"cpu": "100m", "memory": "128Mi"}
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    made["spec"] = {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:1.2.3",
                "args": ["--port=8080", "--config=/etc/app/config.yaml"],
                "ports": [{"name": "http", "containerPort": 8080}],
                "env": [
                    {"name": "LEVEL", "value": "info"},
                    {
                        "name": "POD_NAME",
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                    },
                    {
                        "name": "PASSWORD",
                        "valueFrom": {"secretKeyRef": {"name": "password", "key": "password"}},
                    },
                ],
                "envFrom": [{"configMapRef": {"name": "settings"}}],
                "resources": {"requests": room, "limits": room},
                "readinessProbe": probe,
                "livenessProbe": probe,
                "volumeMounts": [
                    {"name": "files", "mountPath": "/etc/app", "readOnly": True},
                    {"name": "scratch", "mountPath": "/scratch"},
                ],
            }
        ],
        "volumes": [
            {"name": "files", "configMap": {"name": "files"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }
    return made
