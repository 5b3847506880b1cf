"""Reconcile of one SuperCluster: connect, probe, write the status.

Owns the order of the steps and the only write of the status. Must not know kopf or which pods are
placed in the cluster. Hazard: server-side apply removes each status field that is left out. Values
that are unknown now are repeated from the last probe.
"""

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import secret_kubeconfig
from kubeio.config.endpoint import Endpoint, compute_digest
from kubeio.controller.worker import Done, RequeueAfter
from kubeio.controller.worker import Result as Outcome
from tenancy import conditions, names, super_clusters, wellknown
from tenancy.resources import SECRETS, SUPER_CLUSTERS
from tenancy.specs import InvalidSpecError
from tenancy.super_clusters import HOME, ClusterRanges, SuperClusterSpec, SuperClusterStatus
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.targets import (
    agents,
    credential_renewal,
    node_inventory,
    probe,
    super_cluster_conditions,
)
from vcmanager.targets.agents import AgentContext
from vcmanager.targets.clients import CompletedProbe
from vcmanager.targets.overlaps import PeerClusters, read_status
from vcmanager.targets.probe import ProbeResult
from vcmanager.targets.super_cluster_conditions import TargetConditions

HEALTH_CHECK_SECONDS = 30.0
"""Interval in seconds between reconciles of a ready cluster, which check that it answers."""
UNHEALTHY_CHECK_SECONDS = 10.0
"""Interval in seconds between reconciles of a cluster that is not ready."""
FULL_PROBE_SECONDS = 300.0
"""Interval in seconds between full probes of rights, nodes and ranges without a cause."""
UNHEALTHY_FULL_PROBE_SECONDS = 30.0
"""Interval in seconds between full probes while not ready. A list of nodes may have megabytes."""
_OBSERVED = "observedIdentity"
"""Field of the status with the identity of a cluster that answers in place of the known one."""
_UNEXPECTED_SHAPE_ERRORS = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""Exceptions that an answer without the shape of a Kubernetes API causes."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _TargetReconcile:
    """Inputs and results of one reconcile of one cluster."""

    means: ReconcileContext
    body: Object
    name: str
    spec: SuperClusterSpec
    old_status: SuperClusterStatus
    peer_clusters: PeerClusters
    conditions: TargetConditions
    status_fields: dict[str, Any]
    """Fields of the status besides the conditions."""
    endpoint: Endpoint | None = None
    """None: no usable credential exists."""
    kubelet_authorities: bytes = b""
    """Certificate authorities of kubelets, from the Secret."""
    secret: Object | None = None
    """The Secret with the credential."""
    client: Client | None = None
    """None: the cluster is not reached, or refuses the credential."""
    home_identity: str = ""


async def reconcile_super_cluster(means: ReconcileContext, key: ReconcileKey) -> Outcome:
    """Update the status of one SuperCluster."""
    listed = (await means.super_client.list(SUPER_CLUSTERS)).get("items") or []
    peers = PeerClusters(key.name, listed)
    body = peers.own
    if body is None or "deletionTimestamp" in body["metadata"]:
        await means.target_clients.forget(key.name)
        if body is None:
            await agents.delete_agent(means, key.name)
        return Done()
    old = read_status(body)
    _report_losses(means, body)
    this = _TargetReconcile(
        means=means,
        body=dict(body),
        name=key.name,
        spec=SuperClusterSpec(),
        old_status=old,
        peer_clusters=peers,
        conditions=TargetConditions(),
        status_fields=_copy_status_fields(old),
    )
    await _check_target(this)
    if this.client is not None and this.endpoint is not None and this.secret is not None:
        await credential_renewal.renew_credential(
            means,
            this.client,
            this.secret,
            token=this.endpoint.token,
            home=this.home_identity,
            target=key.name,
        )
    if key.name != HOME:
        this.conditions.set_condition(
            super_clusters.AGENT_READY,
            *await agents.reconcile_agent(means, _build_agent_context(this)),
        )
    this.conditions.carry_over(old.conditions)
    this.conditions.set_ready(reachable_network=this.spec.network.reachable)
    await _write_status(this)
    is_well = this.conditions.conditions[super_clusters.READY].status == "True"
    if key.name == HOME:
        return RequeueAfter(FULL_PROBE_SECONDS)
    return RequeueAfter(HEALTH_CHECK_SECONDS if is_well else UNHEALTHY_CHECK_SECONDS)


def _report_losses(means: ReconcileContext, body: Mapping[str, Any]) -> None:
    """Record one Event for each time that the syncer sets LossesHeld."""
    name, listed = body["metadata"]["name"], (body.get("status") or {}).get("conditions")
    held = conditions.find_condition(listed, super_clusters.LOSSES_HELD)
    if held is None or held.get("status") != "True":
        means.target_clients.reported_losses.pop(name, None)
    elif means.target_clients.reported_losses.get(name) != (
        since := str(held.get("lastTransitionTime"))
    ):
        # No Event for a changed message alone: the number of missing pods keeps changing.
        means.target_clients.reported_losses[name] = since
        head = {"apiVersion": SUPER_CLUSTERS.api_version, "kind": SUPER_CLUSTERS.kind}
        about = {**head, "metadata": {"name": name, "uid": body["metadata"]["uid"]}}
        means.recorder.record(about, super_clusters.LOSSES_HELD, held["message"], kind="Warning")


async def _check_target(this: _TargetReconcile) -> None:
    """Probe a cluster. A fault of a target becomes a condition and is not raised."""
    try:
        this.spec = super_clusters.parse_spec(this.body)
    except InvalidSpecError as problem:
        this.conditions.set_unreachable("InvalidSpec", f"{problem}. Correct the SuperCluster.")
        return
    if this.name == HOME:
        await _check_home(this)
        return
    if HOME not in this.peer_clusters.list_names:
        await _create_home(this.means)
    endpoint = await _load_endpoint(this)
    if endpoint is None:
        await this.means.target_clients.drop(this.name)
        return
    home = await _get_home(this)  # a failure here is not the target's
    this.endpoint, this.home_identity = endpoint, home[1]
    try:
        await _check_connection(this, endpoint, *home)
    except errors.CredentialsError as problem:
        this.conditions.set_unreachable("InvalidKubeconfig", f"{problem}. Correct the Secret.")
    except errors.Unauthorized:
        text = "The API server answers with a certificate of the CA in the Secret."
        this.conditions.set_condition(super_clusters.REACHABLE, "True", "Answers", text)
        what = super_cluster_conditions.describe_refused_credential(
            endpoint.token, this.means.now()
        )
        this.conditions.set_condition(super_clusters.AUTHORIZED, "False", "NotAccepted", what)
    except errors.Fenced:
        raise
    except errors.KubeError as problem:
        said = super_cluster_conditions.build_unreachable_condition(problem)
        this.conditions.set_unreachable(said.reason, said.message)
    except _UNEXPECTED_SHAPE_ERRORS as problem:
        _log.warning("target.malformed", target=this.name, problem=type(problem).__name__)
        text = "The server does not answer as a Kubernetes API. Check spec.server."
        this.conditions.set_unreachable("NotKubernetes", text)


def _build_agent_context(this: _TargetReconcile) -> AgentContext:
    return AgentContext(
        name=this.name,
        uid=this.body["metadata"]["uid"],
        endpoint=this.endpoint,
        client=this.client,
        home=this.home_identity,
        mode=this.spec.mode,
        kubelet_authorities=this.kubelet_authorities,
    )


async def _check_home(this: _TargetReconcile) -> None:
    found = await probe.probe_home(this.means.super_client)
    text = "This is the home cluster."
    this.conditions.set_condition(super_clusters.REACHABLE, "True", "HomeCluster", text)
    rights = "The chart grants the components their permissions."
    this.conditions.set_condition(super_clusters.AUTHORIZED, "True", "HomeCluster", rights)
    _set_conditions(this, found, home_version=found.version)


async def _check_connection(
    this: _TargetReconcile, endpoint: Endpoint, home_version: str, home_identity: str
) -> None:
    local = await probe.check_server_is_remote(endpoint.server)
    if local:
        text = (
            f"The server {endpoint.server} {local}. Set spec.server to the address at which the"
            " components"
        )
        this.conditions.set_unreachable("LoopbackAddress", f"{text} reach it.")
        return
    client = await this.means.target_clients.get_client(this.name, endpoint)
    version = await probe.fetch_version(client)
    identity = await probe.fetch_identity(client)
    trouble = _find_identity_problem(this, identity, home_identity)
    if trouble is not None:
        if trouble[0] == super_clusters.IDENTITY_CHANGED and names.is_uid(identity):
            this.status_fields[_OBSERVED] = identity
        this.endpoint = None
        this.conditions.set_unreachable(*trouble)
        return
    this.client = client
    found = await _probe_if_due(this, client, endpoint, version, identity)
    until = super_cluster_conditions.read_token_expiry(endpoint.token)
    _set_conditions(this, found, home_version=home_version, until=until)


async def _probe_if_due(
    this: _TargetReconcile, client: Client, endpoint: Endpoint, version: str, identity: str
) -> ProbeResult:
    """Probe everything, or return the last probe while it is current."""
    digest, now = compute_digest(endpoint), asyncio.get_running_loop().time()
    metadata = this.body["metadata"]
    head = (metadata["uid"], metadata.get("generation", 0), digest, version, identity)
    last: CompletedProbe | None = this.means.target_clients.last_probes.get(this.name)
    is_well = conditions.is_true(this.old_status.conditions, super_clusters.READY)
    lasts = FULL_PROBE_SECONDS if is_well else UNHEALTHY_FULL_PROBE_SECONDS
    if last is not None and last.cache_key == head and now - last.probed_at < lasts:
        return last.result
    found = await probe.probe_target(client, version=version, identity=identity)
    this.means.target_clients.last_probes[this.name] = CompletedProbe(head, now, found)
    return found


def _set_conditions(
    this: _TargetReconcile, found: ProbeResult, *, home_version: str, until: datetime | None = None
) -> None:
    network = this.spec.network
    declared = ClusterRanges(pods=network.pod_cidrs, services=network.service_cidrs)
    ranges = node_inventory.choose_ranges(found.ranges, declared)
    super_cluster_conditions.set_probe_conditions(
        this.conditions,
        found,
        name=this.name,
        home_version=home_version,
        ranges=ranges,
        others=this.peer_clusters.get_ranges(),
        until=until,
    )
    this.status_fields |= {
        "version": found.version[: super_cluster_conditions.MAX_VERSION_LENGTH],
        "nodes": found.nodes,
        "capacity": found.capacity,
        "network": _build_network(ranges),
    }
    if found.identity:
        this.status_fields["identity"] = found.identity


async def _get_home(this: _TargetReconcile) -> tuple[str, str]:
    """Return the version and the identity of the home cluster."""
    known = this.peer_clusters.home_status
    if known is not None and known.identity:
        return known.version, known.identity
    client = this.means.super_client
    return await client.version(), await probe.fetch_identity(client)


def _find_identity_problem(
    this: _TargetReconcile, identity: str, home_identity: str
) -> tuple[str, str] | None:
    """Return reason and message if an unexpected cluster answers, else None."""
    name, known = this.name, this.old_status.identity
    said = (this.body["metadata"].get("annotations") or {}).get(wellknown.CONFIRM_LOSSES, "")
    if identity and known and identity not in (known, said):
        text = (
            f"Another cluster answers: its kube-system is {identity}, and that of the cluster"
            f" known as {name} is {known}. If the cluster was recreated, run `kubectl vc target"
            f" confirm {name}`: the pods that tenants had in the old cluster are then counted as"
            " lost. Otherwise, correct the address or the Secret."
        )
        return super_clusters.IDENTITY_CHANGED, text
    same = (
        HOME
        if identity and identity == home_identity
        else this.peer_clusters.find_duplicate(identity)
    )
    if same:
        text = (
            f"This cluster is already registered as SuperCluster {same}, and a cluster has only"
            f" one name. Delete the SuperCluster {name}."
        )
        return "SameCluster", text
    return None


async def _load_endpoint(this: _TargetReconcile) -> Endpoint | None:
    """Return the endpoint from the Secret, or None after a condition reports the fault."""
    means, ref = this.means, this.spec.secret_ref
    assert ref is not None  # noqa: S101 - the spec was parsed
    means.target_clients.watch_secret(
        means.super_client,
        namespace=means.namespace,
        secret=ref.name,
        name=this.name,
        enqueue=lambda name: means.enqueue(ReconcileKey("SuperCluster", "", name)),
    )
    try:
        secret = await means.super_client.get(SECRETS, ref.name, namespace=means.namespace)
        this.secret = secret
        data = decode_data(secret.get("data") or {})
        this.kubelet_authorities = data.get(secret_kubeconfig.KUBELET_AUTHORITIES_KEY, b"")
        return secret_kubeconfig.parse_endpoint(
            data,
            name=f"SuperCluster {this.name}",
            key=ref.key,
            context=ref.context,
            server=this.spec.server,
            tls_server_name=this.spec.tls_server_name,
        )
    except errors.NotFound:
        this.conditions.set_unreachable(
            "SecretNotFound",
            f"The Secret {ref.name} does not exist in namespace {means.namespace}. Create it with"
            " a kubeconfig under the key kubeconfig, or run `kubectl vc target join`.",
        )
    except secret_kubeconfig.LocalAddressError as problem:
        this.conditions.set_unreachable("LoopbackAddress", str(problem))
    except errors.CredentialsError as problem:
        text = f"Secret {ref.name}: {problem}. Correct the Secret."
        this.conditions.set_unreachable("InvalidKubeconfig", text)
    return None


def decode_data(data: Mapping[str, Any]) -> dict[str, bytes]:
    """Return a Secret's values, without invalid base64, which an API server refuses anyway."""
    found = {}
    for key, value in data.items():
        with contextlib.suppress(binascii.Error, ValueError, TypeError):
            found[key] = base64.b64decode(value, validate=True)
    return found


async def _create_home(means: ReconcileContext) -> None:
    """Create the SuperCluster of the home cluster, because a target exists now."""
    body = {
        "apiVersion": SUPER_CLUSTERS.api_version,
        "kind": SUPER_CLUSTERS.kind,
        "metadata": {"name": HOME},
        "spec": {},
    }
    with contextlib.suppress(errors.AlreadyExists):
        await means.super_client.create(SUPER_CLUSTERS, body, field_manager=wellknown.MANAGER)


def _copy_status_fields(old: SuperClusterStatus) -> dict[str, Any]:
    found = {
        "version": old.version,
        "identity": old.identity,
        "capacity": old.capacity,
        "network": _build_network(old.network),
    }
    return {"nodes": old.nodes, **{key: value for key, value in found.items() if value}}


def _build_network(ranges: ClusterRanges) -> dict[str, list[str]]:
    return {"podCIDRs": [*ranges.pods], "serviceCIDRs": [*ranges.services]}


async def _write_status(this: _TargetReconcile) -> None:
    """Write the status if it changed, and wake the other SuperClusters if the ranges changed."""
    metadata = this.body["metadata"]
    old = this.body.get("status") or {}
    generation = metadata.get("generation", 0)
    now = conditions.format_time(this.means.now())
    listed = this.conditions.build_conditions(now=now, generation=generation)
    said = conditions.carry_transition_times(old.get("conditions"), listed)
    facts = {**this.status_fields, "observedGeneration": generation}
    is_said = all(
        conditions.find_condition(old.get("conditions"), each["type"]) == each for each in said
    )
    wanted = {each["type"] for each in said}
    is_over = (_OBSERVED in old and _OBSERVED not in facts) or any(
        each.get("type") in super_clusters.CONDITIONS and each.get("type") not in wanted
        for each in old.get("conditions") or ()
    )
    if is_said and not is_over and all(old.get(field) == value for field, value in facts.items()):
        return
    head = {
        "apiVersion": SUPER_CLUSTERS.api_version,
        "kind": SUPER_CLUSTERS.kind,
        "metadata": {"name": this.name, "uid": metadata["uid"]},
    }
    try:
        await this.means.super_client.apply(
            SUPER_CLUSTERS,
            {**head, "status": {**facts, "conditions": said}},
            subresource="status",
            field_manager=wellknown.MANAGER,
        )
    except errors.NotFound:
        return
    before = conditions.find_condition(old.get("conditions"), super_clusters.READY) or {}
    ready = this.conditions.conditions[super_clusters.READY]
    if (before.get("status"), before.get("reason")) != (ready.status, ready.reason):
        _log.info("target.checked", target=this.name, ready=ready.status, reason=ready.reason)
        is_well = ready.status == "True"
        this.means.recorder.record(
            head, ready.reason, ready.message, kind="Normal" if is_well else "Warning"
        )
    if facts.get("network") != old.get("network"):
        for name in this.peer_clusters.list_names:
            this.means.enqueue(ReconcileKey("SuperCluster", "", name))
