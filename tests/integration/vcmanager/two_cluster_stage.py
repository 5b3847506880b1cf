"""The home cluster with its manager, a second cluster, and the syncer's account there."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from kubeio import Object
from kubeio.api.client import Client
from tenancy import resources
from tests.integration.vcmanager.conftest import NAMESPACE, ManagerStage
from tests.support.controlplane import LocalControlPlane
from tests.support.own_address import with_own_address
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.targets import super_cluster as target
from vcmanager.targets.clients import TargetClientCache

ACCOUNT = "vc-syncer"


async def grant(client: Client, rules: list[dict[str, Any]]) -> None:
    """Let the account do what rules say, and nothing else."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ACCOUNT},
        "rules": rules,
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": role["apiVersion"][:-3], "kind": "ClusterRole", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}],
    }
    await client.apply(resources.CLUSTER_ROLES, role, field_manager="test")
    await client.apply(resources.CLUSTER_ROLE_BINDINGS, binding, field_manager="test")


@dataclass(kw_only=True)
class TwoClusterStage:
    """The home cluster with its manager, and a second cluster."""

    stage: ManagerStage
    second: LocalControlPlane
    there: Client
    name: str
    token: str
    targets: TargetClientCache

    @property
    def server(self) -> str:
        """Where the second cluster is reached from elsewhere."""
        return with_own_address(self.second.server)

    async def secret(self, **data: bytes | str) -> None:
        """Write the Secret: a token, unless told otherwise."""
        usual: dict[str, bytes | str] = {
            "server": self.server,
            "ca.crt": self.second.ca,
            "token": self.token,
        }
        texts = {**({} if "kubeconfig" in data else usual), **data}
        encoded = {
            key: base64.b64encode(each.encode() if isinstance(each, str) else each).decode()
            for key, each in texts.items()
        }
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "data": encoded,
        }
        await self.stage.admin.apply(resources.SECRETS, body, field_manager="test")

    async def declare(self, name: str = "", **spec: Any) -> Object:
        """Create the SuperCluster."""
        body = {
            "apiVersion": resources.SUPER_CLUSTERS.api_version,
            "kind": "SuperCluster",
            "metadata": {"name": name or self.name},
            "spec": {"secretRef": {"name": self.name}, "tlsServerName": "kubernetes", **spec},
        }
        return await self.stage.admin.create(resources.SUPER_CLUSTERS, body)

    async def judged(self, name: str = "") -> dict[str, tuple[str, str, str]]:
        """Look once, and return status, reason and message of each condition."""
        await target.reconcile_super_cluster(
            self.stage.means, ReconcileKey("SuperCluster", "", name or self.name)
        )
        status = (await self.fresh(name))["status"]
        return {
            each["type"]: (each["status"], each["reason"], each["message"])
            for each in status["conditions"]
        }

    async def fresh(self, name: str = "") -> Object:
        """Return the SuperCluster as it is now."""
        return await self.stage.admin.get(resources.SUPER_CLUSTERS, name or self.name)
