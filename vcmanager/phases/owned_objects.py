"""Ordered writes and pruning of the objects of a root namespace.

Owns what was desired and written in one reconcile. Hazard: `prune` deletes each object that was not
passed to it as desired. A kind that is left out for now (a workload that comes later) must not
exist yet.
"""

from collections.abc import Iterable
from typing import Any

from kubeio import Object
from tenancy import wellknown
from tenancy.resources import SERVICES
from vcmanager.phases import apply, etcd_identity, startup_order
from vcmanager.phases.certificates import Roots
from vcmanager.plan import volume_claims
from vcmanager.plan.control_plane import ControlPlane, Manifest, Wish
from vcmanager.plan.pki_secrets import Material
from vcmanager.runtime import object_metadata
from vcmanager.runtime.context import Means
from vcmanager.runtime.object_metadata import Source
from vcmanager.runtime.observed import Snapshot


class Build:
    """One pass over the objects of one tenant."""

    def __init__(self, means: Means, wish: Wish, snapshot: Snapshot) -> None:
        """Start without writes."""
        self.written = 0
        self._means = means
        self._wish = wish
        self._snapshot = snapshot
        self._wanted: list[Manifest] = []
        self._contents: dict[Source, str] = {}

    async def services(self, plan: ControlPlane) -> Object:
        """Write the Services. Return the current one of the API server."""
        await self._apply([self._marked(each) for each in (*plan.services, *plan.claims)])
        return await self._means.super_client.get(
            SERVICES, plan.api_service, namespace=self._wish.tenant.root
        )

    async def mounted(self, plan: ControlPlane, material: Material, roots: Roots) -> None:
        """Write the Secrets and ConfigMaps that pods mount."""
        config_maps = [material.trust, *_only(plan, "ConfigMap")]
        kept = roots.made_once()
        self._contents = {
            **object_metadata.contents_of([*material.secrets, *kept], "Secret"),
            **object_metadata.contents_of(config_maps, "ConfigMap"),
        }
        self._wanted += kept
        await self._apply([self._marked(each) for each in (*material.secrets, *config_maps)])

    async def workloads(self, plan: ControlPlane) -> None:
        """Write the workloads that may start. Readers of etcd need all of its members."""
        identity = etcd_identity.identity(self._snapshot)
        contents = {**self._contents, object_metadata.STORE: identity or ""}
        due: list[Manifest] = []
        for each in _only(plan, "StatefulSet", "Deployment"):
            if not startup_order.may_be_made(each, self._snapshot):
                continue
            reads = each["metadata"]["name"] in etcd_identity.READERS
            also = frozenset({object_metadata.STORE}) if reads else frozenset()
            made = object_metadata.marked(each, self._wish.tenant, contents, also)
            if reads and identity is None:
                self._wanted.append(made)  # kept as it is
            else:
                due.append(made)
        await self._claim_volumes(due)
        await self._apply(due)

    async def _claim_volumes(self, due: list[Manifest]) -> None:
        """Create the claims of new StatefulSets. The controller creates later ones."""
        for each in due:
            if (
                each["kind"] == "StatefulSet"
                and self._snapshot.get(each["kind"], each["metadata"]["name"]) is None
            ):
                await apply.create(self._means, volume_claims.claims(each))

    async def beside(self, manifests: Iterable[Manifest]) -> None:
        """Write objects that do not belong to the control plane itself."""
        tenant = self._wish.tenant
        await self._apply(
            [object_metadata.marked(manifest, tenant, self._contents) for manifest in manifests]
        )

    async def prune(self, kept: Iterable[Object] = ()) -> None:
        """Delete own objects that are no longer desired, except `kept`."""
        wanted = [*self._wanted, *kept]
        # The admin kubeconfig stays while no external address is known.
        wanted += [
            each
            for each in self._snapshot.named("Secret").values()
            if (each["metadata"].get("labels") or {}).get(wellknown.CREDENTIAL) == "admin"
        ]
        await apply.prune(self._means, wanted, self._snapshot)

    @staticmethod
    def address_of(service: Object) -> str:
        """Return a Service's address in the super cluster."""
        return str(service["spec"].get("clusterIP") or "")

    async def _apply(self, manifests: list[Manifest]) -> None:
        self._wanted += manifests
        self.written += await apply.apply(self._means, manifests, self._snapshot)

    def _marked(self, manifest: Manifest) -> Manifest:
        return object_metadata.marked(manifest, self._wish.tenant, {})


def _only(plan: ControlPlane, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in plan.workloads if each["kind"] in kinds]
