"""Ordered writes and pruning of the objects of a root namespace.

Owns what was desired and written in one reconcile. Hazard: `delete_unwanted` deletes each object
that was not passed to it as desired. A kind that is left out for now (a workload that comes later)
must not exist yet.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeio import Object
from tenancy import wellknown
from tenancy.resources import SERVICES
from vcmanager.phases import apply, root_namespace, startup_order
from vcmanager.phases.certificates import IssuedCertificates
from vcmanager.phases.etcd import etcd_identity
from vcmanager.plan import certificate_table, volume_claims
from vcmanager.plan.availability import disruption_budgets
from vcmanager.plan.certificate_table import RotationRow
from vcmanager.plan.control_plane import ControlPlane, Manifest, PlanInput
from vcmanager.plan.pki_secrets import DesiredSecrets
from vcmanager.runtime import object_metadata
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.object_metadata import DigestSource
from vcmanager.runtime.observed import OBSERVED_KINDS, ObservedObjects


class OwnedObjects:
    """One pass over the objects of one tenant."""

    def __init__(self, means: ReconcileContext, wish: PlanInput, snapshot: ObservedObjects) -> None:
        """Start without writes."""
        self.written_count = 0
        self.is_held = False
        """Whether running workloads, and the settings that they mount, stay as they are. Their
        certificates are renewed, and missing objects are created."""
        self.held_count = 0
        """Workloads that keep an earlier template for now."""
        self._means = means
        self._wish = wish
        self._snapshot = snapshot
        self._wanted: list[Manifest] = []
        self._contents: dict[DigestSource, str] = {}

    @property
    def is_unchanged(self) -> bool:
        """Return whether the snapshot had every desired object as it must be."""
        return self.written_count == 0 and self.held_count == 0

    async def write_services(self, plan: ControlPlane) -> Object:
        """Write the Services. Return the current one of the API server."""
        await self._apply_all([self._add_metadata(each) for each in (*plan.services, *plan.claims)])
        return await self._means.super_client.get(
            SERVICES, plan.api_service, namespace=self._wish.tenant.root
        )

    async def write_mounted(
        self,
        plan: ControlPlane,
        material: DesiredSecrets,
        roots: IssuedCertificates,
        others: Iterable[Manifest] = (),
        rotations: Iterable[RotationRow] = (),
    ) -> None:
        """Write the Secrets and ConfigMaps that pods mount, and the table of certificates.

        `others` are further Secrets.
        """
        secrets = [*material.secrets, *others]
        table = certificate_table.build_config_map(
            material.validities, self._wish.tenant.root, rotations
        )
        config_maps = [material.trust, *_filter_kinds(plan, "ConfigMap"), table]
        kept = roots.list_immutable()
        if self.is_held:
            secrets = list(material.secrets)
            config_maps = [material.trust, table]
        self._contents = {
            **(self._digest_observed() if self.is_held else {}),
            **object_metadata.digest_contents([*secrets, *kept], "Secret"),
            **object_metadata.digest_contents(config_maps, "ConfigMap"),
        }
        self._wanted += kept
        await self._apply_all([self._add_metadata(each) for each in (*secrets, *config_maps)])

    async def write_role_bindings(self) -> None:
        """Write who may fetch the admin kubeconfig."""
        bindings = root_namespace.build_role_bindings(self._wish.spec)
        await self._apply_all([self._add_metadata(each) for each in bindings])

    async def write_workloads(self, plan: ControlPlane) -> None:
        """Write the workloads that may start, and their disruption budgets.

        Readers of etcd need all of its members.
        """
        await self.write_additional(disruption_budgets.build_disruption_budgets(plan.workloads))
        identity = (
            plan.store_identity
            if plan.has_member_config
            else etcd_identity.compute_store_identity(self._snapshot)
        )
        contents = {**self._contents, object_metadata.STORE_SOURCE: identity or ""}
        due: list[Manifest] = []
        sets = {each["metadata"]["name"]: each for each in _filter_kinds(plan, "StatefulSet")}
        for each in _filter_kinds(plan, "StatefulSet", "Deployment"):
            if not startup_order.may_create(each, self._snapshot):
                self._wanted.append(each)  # a stopped workload is kept
                self.held_count += 1
                continue
            reads = each["metadata"]["name"] in etcd_identity.STORE_READERS
            also = frozenset({object_metadata.STORE_SOURCE}) if reads else frozenset()
            live = self._snapshot.get(each["kind"], each["metadata"]["name"])
            if self.is_held and live is not None:
                if reads and identity is None:
                    self.held_count += 1
                else:
                    await self._renew_mounted(live, contents, also)
                continue
            made = object_metadata.add_metadata(each, self._wish.tenant, contents, also)
            is_held = startup_order.is_upgrade_held(each, sets, self._snapshot)
            if (reads and identity is None) or is_held:
                self._wanted.append(made)  # kept as it is
                self.held_count += 1
            else:
                due.append(made)
        await self._create_volume_claims(due)
        await self._apply_all(due)

    async def _renew_mounted(
        self, live: Object, contents: Mapping[DigestSource, str], also: frozenset[DigestSource]
    ) -> None:
        """Recreate the pods of a held workload if their certificates were renewed."""
        template, metadata = live["spec"]["template"], live["metadata"]
        digest = object_metadata.digest_mounted(metadata["name"], template["spec"], contents, also)
        known = ((template.get("metadata") or {}).get("annotations") or {}).get(
            wellknown.SECRETS_DIGEST
        )
        if known in (digest, None) or "deletionTimestamp" in metadata:
            return
        annotations = {wellknown.SECRETS_DIGEST: digest}
        await self._means.super_client.patch(
            OBSERVED_KINDS[live["kind"]],
            metadata["name"],
            {
                "metadata": {"uid": metadata["uid"]},
                "spec": {"template": {"metadata": {"annotations": annotations}}},
            },
            namespace=metadata["namespace"],
            field_manager=wellknown.MANAGER,
        )
        self.written_count += 1

    def _digest_observed(self) -> dict[DigestSource, str]:
        """Return the digests of the Secrets and ConfigMaps as they are."""
        return {
            source: digest
            for kind in ("Secret", "ConfigMap")
            for source, digest in object_metadata.digest_contents(
                self._snapshot.get_by_name(kind).values(), kind
            ).items()
        }

    async def _create_volume_claims(self, due: list[Manifest]) -> None:
        """Create the claims of new StatefulSets. The controller creates later ones."""
        for each in due:
            if (
                each["kind"] == "StatefulSet"
                and self._snapshot.get(each["kind"], each["metadata"]["name"]) is None
            ):
                await apply.create_missing(self._means, volume_claims.iterate_claims(each))

    async def write_additional(self, manifests: Iterable[Manifest]) -> None:
        """Write objects that do not belong to the control plane itself."""
        tenant = self._wish.tenant
        await self._apply_all(
            [
                object_metadata.add_metadata(manifest, tenant, self._contents)
                for manifest in manifests
            ]
        )

    async def delete_unwanted(self, kept: Iterable[Object] = ()) -> None:
        """Delete own objects that are no longer desired, except `kept`.

        A held workload may still need what is no longer desired.
        """
        if self.is_held:
            return
        wanted = [*self._wanted, *kept]
        # The admin kubeconfig stays while no external address is known.
        wanted += [
            each
            for each in self._snapshot.get_by_name("Secret").values()
            if (each["metadata"].get("labels") or {}).get(wellknown.CREDENTIAL) == "admin"
        ]
        await apply.delete_unwanted(self._means, wanted, self._snapshot)

    @staticmethod
    def get_service_address(service: Object) -> str:
        """Return a Service's address in the super cluster."""
        return str(service["spec"].get("clusterIP") or "")

    async def _apply_all(self, manifests: list[Manifest]) -> None:
        self._wanted += manifests
        self.written_count += await apply.apply_changed(self._means, manifests, self._snapshot)

    def _add_metadata(self, manifest: Manifest) -> Manifest:
        return object_metadata.add_metadata(manifest, self._wish.tenant, {})


def _filter_kinds(plan: ControlPlane, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in plan.workloads if each["kind"] in kinds]
