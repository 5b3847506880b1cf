"""Minimal API client with a cluster's admin certificate, for setup and waits.

Hazard: the product must not use this client. It has no watch and no cache, on purpose.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from tools.testbed.cluster.topology import API_PORT
from tools.testbed.errors import TestbedError

Object = dict[str, Any]

_PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "StorageClass": "storageclasses",
    "VolumeSnapshotClass": "volumesnapshotclasses",
}
_RETRIES = 30
_CLUSTER_SCOPED = (
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "StorageClass",
    "Node",
    "CSIDriver",
    "VolumeSnapshotClass",
)


class KubeApi:
    """One API server, accessed with a verified certificate."""

    def __init__(self, host: IPv4Address, pki: Path) -> None:
        self._host = str(host)
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))

    def request(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send one request, again while the server asks for a retry. Returns status and body.

        A new kind answers 429 until its storage is ready.
        """
        status, answer = self._send(method, path, body, kind)
        for _ in range(_RETRIES):
            if status != 429:
                break
            time.sleep(1)
            status, answer = self._send(method, path, body, kind)
        return status, answer

    def _send(self, method: str, path: str, body: Any, kind: str) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(
            self._host, API_PORT, context=self._context, timeout=30
        )
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": kind})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def get(self, path: str) -> Object:
        """Return an object or a list. Raises an error if it does not exist."""
        status, body = self.request("GET", path)
        if status != 200:
            raise TestbedError(f"GET {path} answered {status}: {body[:300].decode()}")
        result: Object = json.loads(body)
        return result

    def exists(self, path: str) -> bool:
        """Return whether an object exists. An answer other than yes or no is an error."""
        status, body = self.request("GET", path)
        if status not in (200, 404):
            raise TestbedError(f"GET {path} answered {status}: {body[:300].decode()}")
        return status == 200

    def apply(self, document: Object) -> None:
        """Create the object or change it to this state."""
        path = object_path(document)
        status, body = self.request(
            "PATCH",
            f"{path}?fieldManager=testbed&force=true",
            document,
            "application/apply-patch+yaml",
        )
        if status not in (200, 201):
            raise TestbedError(f"applying {path} answered {status}: {body[:300].decode()}")

    def create(self, document: Object) -> None:
        """Create the object. An existing one with its name is no error."""
        path = object_path(document).rpartition("/")[0]
        status, body = self.request("POST", path, document)
        if status not in (201, 409):
            raise TestbedError(f"creating in {path} answered {status}: {body[:300].decode()}")

    def merge(self, path: str, patch: Object) -> None:
        """Send a merge patch."""
        status, body = self.request("PATCH", path, patch, "application/merge-patch+json")
        if status != 200:
            raise TestbedError(f"changing {path} answered {status}: {body[:300].decode()}")

    def is_ready(self) -> bool:
        """Return whether the server reports that it is ready."""
        try:
            return self.request("GET", "/readyz")[0] == 200
        except OSError:
            return False


def object_path(document: Object) -> str:
    """Return the path of an object of a kind that our manifests use."""
    version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    prefix = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    if kind not in _CLUSTER_SCOPED:
        prefix += f"/namespaces/{metadata['namespace']}"
    return f"{prefix}/{plural}/{metadata['name']}"


def wait_for(
    what: str,
    check: Callable[[], bool],
    *,
    seconds: float,
    hint: Callable[[], str],
    pause: float = 0.05,
) -> None:
    """Wait until `check` returns True. The error on timeout has the hint."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise TestbedError(f"{what} after {seconds:.0f} s. {hint()}")
        time.sleep(pause)
