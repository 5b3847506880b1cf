"""Validation of a VirtualCluster and its ClusterVersion, before any object is created.

Hazard: until this check, a template of upstream's shape is arbitrary text. The super cluster's dry
run judges it in the VirtualCluster's namespace, because the root namespace does not exist yet.
"""

import copy
from collections.abc import Mapping
from typing import Any

from clusterversions import version_skew
from kubeio import Object, errors
from tenancy import wellknown
from tenancy.names import InvalidNameError
from tenancy.resources import CLUSTER_VERSIONS, SERVICE_CIDRS, SERVICES, STATEFUL_SETS
from tenancy.specs import (
    InvalidSpecError,
    VirtualCluster,
    parse_cluster_version,
    parse_cluster_version_status,
    parse_virtual_cluster,
)
from vcmanager.plan import control_plane, service_cidrs, upstream_bundles
from vcmanager.plan.control_plane import PlanInput
from vcmanager.plan.service_cidrs import ServiceNetwork
from vcmanager.plan.templates import TemplateError
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext

_RETRY_SECONDS = 60.0
"""Retry interval in seconds of a refused spec, for causes that no watch reports."""


def parse_cluster(body: Object) -> VirtualCluster:
    """Return the VirtualCluster. Raises Held when it cannot be one."""
    try:
        return parse_virtual_cluster(body)
    except InvalidNameError as problem:
        raise build_refusal("InvalidName", str(problem)) from problem
    except InvalidSpecError as problem:
        raise build_refusal("InvalidSpec", str(problem)) from problem


async def fetch_plan_input(
    means: ReconcileContext, cluster: VirtualCluster, *, is_new: bool
) -> PlanInput:
    """Return the desired state. Raises Held if the ClusterVersion is missing or invalid."""
    name = cluster.spec.cluster_version_name
    try:
        body = await means.super_client.get(CLUSTER_VERSIONS, name)
    except errors.NotFound:
        known = await means.super_client.list(CLUSTER_VERSIONS, metadata_only=True)
        offered = ", ".join(sorted(each["metadata"]["name"] for each in known.get("items") or ()))
        raise build_refusal(
            "ClusterVersionNotFound",
            f"spec.clusterVersionName: ClusterVersion {name!r} does not exist. "
            + (f"Use one of {offered}." if offered else "Create a ClusterVersion first."),
        ) from None
    try:
        version = parse_cluster_version(body)
        version_status = parse_cluster_version_status(body)
    except InvalidSpecError as problem:
        raise build_refusal("InvalidClusterVersion", str(problem)) from problem
    return PlanInput(
        tenant=cluster.tenant,
        spec=cluster.spec,
        version_name=name,
        version=version,
        external_domains=(
            cluster.labels.get(wellknown.EXTERNAL_DOMAIN, ""),
            cluster.spec.endpoint.hostname,
        ),
        settings=means.settings,
        is_new=is_new,
        version_status=version_status,
    )


async def fetch_super_range(means: ReconcileContext) -> ServiceNetwork:
    """Return the super cluster's service range."""
    try:
        return service_cidrs.parse_super_range(
            await means.super_client.get(SERVICE_CIDRS, "kubernetes")
        )
    except errors.NotFound:
        raise build_refusal(
            "NoServiceRange",
            "The super cluster has no ServiceCIDR named kubernetes. It must run Kubernetes 1.33 or"
            " newer.",
        ) from None
    except service_cidrs.ServiceRangeError as problem:
        raise build_refusal("NoServiceRange", str(problem)) from problem


def check_plan(wish: PlanInput, whole: ServiceNetwork) -> None:
    """Plan with any service range, to check that a plan is possible. Raises Held."""
    try:
        slice_ = next(service_cidrs.iterate_free_ranges(whole, wish.tenant.uid, ()))
        if wish.spec.service_cidr:
            slice_ = service_cidrs.parse_requested_range(wish.spec.service_cidr, whole, {})
    except service_cidrs.ServiceRangeError as problem:
        raise build_refusal("InvalidServiceCidr", str(problem)) from problem
    build_plan(wish, slice_)


def check_version_skew(wish: PlanInput, running: str) -> None:
    """Refuse a downgrade and a skipped minor. Raises PhaseBlocked.

    `running` is the version that the tenant's API server last reported. Templates of bundles name
    no version, so they are not checked.
    """
    problem = version_skew.find_skew_problem(running, wish.version.kubernetes_version)
    if problem is not None:
        raise build_refusal(
            "VersionSkew", f"spec.clusterVersionName: ClusterVersion {wish.version_name}: {problem}"
        )


def build_plan(wish: PlanInput, slice_: service_cidrs.ServiceRange) -> control_plane.ControlPlane:
    """Return the plan. Raises Held when the wish cannot be planned."""
    try:
        return control_plane.build_plan(wish, slice_)
    except InvalidSpecError as problem:
        raise build_refusal("InvalidSpec", str(problem)) from problem
    except TemplateError as problem:
        raise build_refusal("InvalidTemplate", str(problem)) from problem


async def dry_run_bundles(means: ReconcileContext, wish: PlanInput) -> None:
    """Validate the bundles by a dry run, with another name and namespace. Raises Held."""
    if not wish.version.is_bundled:
        return
    for component, bundle in control_plane.get_bundles(wish.version).items():
        for field, resource, manifest in (
            ("statefulset", STATEFUL_SETS, bundle.statefulset),
            ("service", SERVICES, bundle.service),
        ):
            if manifest is None:
                continue
            try:
                await means.super_client.create(
                    resource,
                    _move_to_namespace(
                        manifest, wish.tenant.namespace, f"{wish.tenant.name}-{component}"
                    ),
                    validation="Strict",
                    dry_run=True,
                )
            except (errors.Invalid, errors.BadRequest) as problem:
                where = f"{upstream_bundles.BUNDLE_FIELDS[component]}.{field}"
                raise build_refusal(
                    "InvalidTemplate", f"ClusterVersion {wish.version_name}: {where}: {problem}"
                ) from problem


def build_refusal(reason: str, message: str) -> PhaseBlocked:
    """Return the exception for a spec that a person must change."""
    return PhaseBlocked(reason, message, needs_admin=True, retry_after=_RETRY_SECONDS)


def _move_to_namespace(manifest: Mapping[str, Any], namespace: str, name: str) -> Object:
    made = copy.deepcopy(dict(manifest))
    made["metadata"] = {**made["metadata"], "namespace": namespace, "name": name}
    return made
