"""Validation of a VirtualCluster and its ClusterVersion, before any object is created.

Hazard: until this check, a template of upstream's shape is arbitrary text. The super cluster's dry
run judges it in the VirtualCluster's namespace, because the root namespace does not exist yet.
"""

import copy
from collections.abc import Mapping
from typing import Any

from kubeio import Object, errors
from tenancy import wellknown
from tenancy.names import NameProblemError
from tenancy.resources import CLUSTER_VERSIONS, SERVICE_CIDRS, SERVICES, STATEFUL_SETS
from tenancy.specs import (
    SpecProblemError,
    VirtualCluster,
    parse_cluster_version,
    parse_virtual_cluster,
)
from vcmanager.plan import control_plane, service_cidrs, upstream_bundles
from vcmanager.plan.control_plane import Wish
from vcmanager.plan.service_cidrs import Network
from vcmanager.plan.templates import TemplateProblemError
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.context import Means

_RETRY = 60.0
"""Retry interval in seconds of a refused spec, for causes that no watch reports."""


def parse(body: Object) -> VirtualCluster:
    """Return the VirtualCluster. Raises Held when it cannot be one."""
    try:
        return parse_virtual_cluster(body)
    except NameProblemError as problem:
        raise refused("InvalidName", str(problem)) from problem
    except SpecProblemError as problem:
        raise refused("InvalidSpec", str(problem)) from problem


async def fetch_wish(means: Means, cluster: VirtualCluster, *, is_new: bool) -> Wish:
    """Return the desired state. Raises Held if the ClusterVersion is missing or invalid."""
    name = cluster.spec.cluster_version_name
    try:
        body = await means.super_client.get(CLUSTER_VERSIONS, name)
    except errors.NotFound:
        known = await means.super_client.list(CLUSTER_VERSIONS, metadata_only=True)
        offered = ", ".join(sorted(each["metadata"]["name"] for each in known.get("items") or ()))
        raise refused(
            "ClusterVersionNotFound",
            f"spec.clusterVersionName: there is no ClusterVersion {name!r}; "
            + (f"there are {offered}" if offered else "there is none at all, create one"),
        ) from None
    try:
        version = parse_cluster_version(body)
    except SpecProblemError as problem:
        raise refused("InvalidClusterVersion", str(problem)) from problem
    return Wish(
        tenant=cluster.tenant,
        spec=cluster.spec,
        version_name=name,
        version=version,
        external_domain=cluster.labels.get(wellknown.EXTERNAL_DOMAIN, ""),
        settings=means.settings,
        is_new=is_new,
    )


async def fetch_super_range(means: Means) -> Network:
    """Return the super cluster's service range."""
    try:
        return service_cidrs.super_range(await means.super_client.get(SERVICE_CIDRS, "kubernetes"))
    except errors.NotFound:
        raise refused(
            "NoServiceRange",
            "the super cluster has no ServiceCIDR named kubernetes; it needs Kubernetes 1.33 or"
            " newer",
        ) from None
    except service_cidrs.SliceProblemError as problem:
        raise refused("NoServiceRange", str(problem)) from problem


def trial(wish: Wish, whole: Network) -> None:
    """Plan with any service range, to check that a plan is possible. Raises Held."""
    try:
        slice_ = next(service_cidrs.candidates(whole, wish.tenant.uid, ()))
        if wish.spec.service_cidr:
            slice_ = service_cidrs.asked_for(wish.spec.service_cidr, whole, {})
    except service_cidrs.SliceProblemError as problem:
        raise refused("InvalidServiceCidr", str(problem)) from problem
    plan(wish, slice_)


def plan(wish: Wish, slice_: service_cidrs.Slice) -> control_plane.ControlPlane:
    """Return the plan. Raises Held when the wish cannot be planned."""
    try:
        return control_plane.plan(wish, slice_)
    except SpecProblemError as problem:
        raise refused("InvalidSpec", str(problem)) from problem
    except TemplateProblemError as problem:
        raise refused("InvalidTemplate", str(problem)) from problem


async def dry_run(means: Means, wish: Wish) -> None:
    """Validate the bundles by a dry run, with another name and namespace. Raises Held."""
    if not wish.version.is_bundled:
        return
    for component, bundle in control_plane.bundles_of(wish.version).items():
        for field, resource, manifest in (
            ("statefulset", STATEFUL_SETS, bundle.statefulset),
            ("service", SERVICES, bundle.service),
        ):
            if manifest is None:
                continue
            try:
                await means.super_client.create(
                    resource,
                    _moved(manifest, wish.tenant.namespace, f"{wish.tenant.name}-{component}"),
                    validation="Strict",
                    dry_run=True,
                )
            except (errors.Invalid, errors.BadRequest) as problem:
                where = f"{upstream_bundles.FIELDS[component]}.{field}"
                raise refused(
                    "InvalidTemplate", f"ClusterVersion {wish.version_name}: {where}: {problem}"
                ) from problem


def refused(reason: str, message: str) -> Held:
    """Return the exception for a spec that a person must change."""
    return Held(reason, message, needs_person=True, again_after=_RETRY)


def _moved(manifest: Mapping[str, Any], namespace: str, name: str) -> Object:
    made = copy.deepcopy(dict(manifest))
    made["metadata"] = {**made["metadata"], "namespace": namespace, "name": name}
    return made
