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
from kubeio.config.endpoint import Endpoint, digest_of
from kubeio.controller.worker import Again, Done
from kubeio.controller.worker import Verdict as Outcome
from tenancy import conditions, names, super_clusters, wellknown
from tenancy.resources import SECRETS, SUPER_CLUSTERS
from tenancy.specs import SpecProblemError
from tenancy.super_clusters import HOME, Ranges, SuperClusterSpec, SuperClusterStatus
from vcmanager.runtime.context import Means
from vcmanager.runtime.keys import Key
from vcmanager.targets import agents, node_inventory, probe, super_cluster_conditions
from vcmanager.targets.agents import Ground
from vcmanager.targets.clients import Look
from vcmanager.targets.overlaps import Neighbours, status_of
from vcmanager.targets.probe import Sight
from vcmanager.targets.super_cluster_conditions import Verdict

ALIVE_SECONDS = 30.0
"""Interval in seconds between reconciles of a ready cluster, which check that it answers."""
UNWELL_SECONDS = 10.0
"""Interval in seconds between reconciles of a cluster that is not ready."""
WHOLE_SECONDS = 300.0
"""Interval in seconds between full probes of rights, nodes and ranges without a cause."""
UNWELL_WHOLE_SECONDS = 30.0
"""Interval in seconds between full probes while not ready. A list of nodes may have megabytes."""
_OBSERVED = "observedIdentity"
"""Field of the status with the identity of a cluster that answers in place of the known one."""
_SURPRISES = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""Exceptions that an answer without the shape of a Kubernetes API causes."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Pass:
    """Inputs and results of one reconcile of one cluster."""

    means: Means
    body: Object
    name: str
    spec: SuperClusterSpec
    old: SuperClusterStatus
    neighbours: Neighbours
    verdict: Verdict
    facts: dict[str, Any]
    """Fields of the status besides the conditions."""
    endpoint: Endpoint | None = None
    """None: no usable credential exists."""
    kubelet_authorities: bytes = b""
    """Certificate authorities of kubelets, from the Secret."""
    client: Client | None = None
    """None: the cluster is not reached, or refuses the credential."""
    home_identity: str = ""


async def reconcile(means: Means, key: Key) -> Outcome:
    """Update the status of one SuperCluster."""
    listed = (await means.super_client.list(SUPER_CLUSTERS)).get("items") or []
    neighbours = Neighbours(key.name, listed)
    body = neighbours.mine
    if body is None or "deletionTimestamp" in body["metadata"]:
        await means.targets.forget(key.name)
        if body is None:
            await agents.forget(means, key.name)
        return Done()
    old = status_of(body)
    _tell_losses(means, body)
    this = _Pass(
        means=means,
        body=dict(body),
        name=key.name,
        spec=SuperClusterSpec(),
        old=old,
        neighbours=neighbours,
        verdict=Verdict(),
        facts=_facts_of(old),
    )
    await _look(this)
    if key.name != HOME:
        this.verdict.say(super_clusters.AGENT_READY, *await agents.keep(means, _ground(this)))
    this.verdict.keep(old.conditions)
    this.verdict.conclude(reachable_network=this.spec.network.reachable)
    await _write(this)
    is_well = this.verdict.said[super_clusters.READY].status == "True"
    if key.name == HOME:
        return Again(WHOLE_SECONDS)
    return Again(ALIVE_SECONDS if is_well else UNWELL_SECONDS)


def _tell_losses(means: Means, body: Mapping[str, Any]) -> None:
    """Record one Event for each time that the syncer sets LossesHeld."""
    name, listed = body["metadata"]["name"], (body.get("status") or {}).get("conditions")
    held = conditions.find(listed, super_clusters.LOSSES_HELD)
    if held is None or held.get("status") != "True":
        means.targets.losses_told.pop(name, None)
    elif means.targets.losses_told.get(name) != (since := str(held.get("lastTransitionTime"))):
        # No Event for a changed message alone: the number of missing pods keeps changing.
        means.targets.losses_told[name] = since
        head = {"apiVersion": SUPER_CLUSTERS.api_version, "kind": SUPER_CLUSTERS.kind}
        about = {**head, "metadata": {"name": name, "uid": body["metadata"]["uid"]}}
        means.recorder.record(about, super_clusters.LOSSES_HELD, held["message"], kind="Warning")


async def _look(this: _Pass) -> None:
    """Probe a cluster. A fault of a target becomes a condition and is not raised."""
    try:
        this.spec = super_clusters.parse_spec(this.body)
    except SpecProblemError as problem:
        this.verdict.unreachable("InvalidSpec", f"{problem}; correct the SuperCluster")
        return
    if this.name == HOME:
        await _look_home(this)
        return
    if HOME not in this.neighbours.names:
        await _make_home(this.means)
    endpoint = await _endpoint(this)
    if endpoint is None:
        await this.means.targets.drop(this.name)
        return
    home = await _home(this)  # a failure here is not the target's
    this.endpoint, this.home_identity = endpoint, home[1]
    try:
        await _ask(this, endpoint, *home)
    except errors.CredentialsProblem as problem:
        this.verdict.unreachable("InvalidKubeconfig", f"{problem}; correct the Secret")
    except errors.Unauthorized:
        text = "an API server answers, and proves that it is the one that the Secret means"
        this.verdict.say(super_clusters.REACHABLE, "True", "Answers", text)
        what = super_cluster_conditions.not_accepted(endpoint.token, this.means.now())
        this.verdict.say(super_clusters.AUTHORIZED, "False", "NotAccepted", what)
    except errors.Fenced:
        raise
    except errors.KubeError as problem:
        said = super_cluster_conditions.not_answered(problem)
        this.verdict.unreachable(said.reason, said.message)
    except _SURPRISES as problem:
        _log.warning("target.odd", target=this.name, problem=type(problem).__name__)
        text = "what answers is no Kubernetes API; see what spec.server leads to"
        this.verdict.unreachable("NotKubernetes", text)


def _ground(this: _Pass) -> Ground:
    return Ground(
        name=this.name,
        uid=this.body["metadata"]["uid"],
        endpoint=this.endpoint,
        client=this.client,
        home=this.home_identity,
        mode=this.spec.mode,
        kubelet_authorities=this.kubelet_authorities,
    )


async def _look_home(this: _Pass) -> None:
    found = await probe.home_sight(this.means.super_client)
    text = "this is the cluster of the components themselves"
    this.verdict.say(super_clusters.REACHABLE, "True", "HomeCluster", text)
    rights = "the chart gives the components their rights"
    this.verdict.say(super_clusters.AUTHORIZED, "True", "HomeCluster", rights)
    _judge(this, found, home_version=found.version)


async def _ask(this: _Pass, endpoint: Endpoint, home_version: str, home_identity: str) -> None:
    local = await probe.local_problem(endpoint.server)
    if local:
        text = f"the server {endpoint.server} {local}; give the address at which the components"
        this.verdict.unreachable("LoopbackAddress", f"{text} reach it in spec.server")
        return
    client = await this.means.targets.client(this.name, endpoint)
    version = await probe.alive(client)
    identity = await probe.identity(client)
    trouble = _trouble_of(this, identity, home_identity)
    if trouble is not None:
        if trouble[0] == super_clusters.IDENTITY_CHANGED and names.is_uid(identity):
            this.facts[_OBSERVED] = identity
        this.endpoint = None
        this.verdict.unreachable(*trouble)
        return
    this.client = client
    found = await _seen(this, client, endpoint, version, identity)
    until = super_cluster_conditions.expiry(endpoint.token)
    _judge(this, found, home_version=home_version, until=until)


async def _seen(
    this: _Pass, client: Client, endpoint: Endpoint, version: str, identity: str
) -> Sight:
    """Probe everything, or return the last probe while it is current."""
    digest, now = digest_of(endpoint), asyncio.get_running_loop().time()
    metadata = this.body["metadata"]
    head = (metadata["uid"], metadata.get("generation", 0), digest, version, identity)
    last: Look | None = this.means.targets.looks.get(this.name)
    is_well = conditions.is_true(this.old.conditions, super_clusters.READY)
    lasts = WHOLE_SECONDS if is_well else UNWELL_WHOLE_SECONDS
    if last is not None and last.head == head and now - last.at < lasts:
        return last.sight
    found = await probe.sight(client, version=version, identity=identity)
    this.means.targets.looks[this.name] = Look(head, now, found)
    return found


def _judge(this: _Pass, found: Sight, *, home_version: str, until: datetime | None = None) -> None:
    network = this.spec.network
    declared = Ranges(pods=network.pod_cidrs, services=network.service_cidrs)
    ranges = node_inventory.known(found.ranges, declared)
    super_cluster_conditions.judge(
        this.verdict,
        found,
        name=this.name,
        home_version=home_version,
        ranges=ranges,
        others=this.neighbours.ranges(),
        until=until,
    )
    this.facts |= {
        "version": found.version[: super_cluster_conditions.LONGEST_VERSION],
        "nodes": found.nodes,
        "capacity": found.capacity,
        "network": _network(ranges),
    }
    if found.identity:
        this.facts["identity"] = found.identity


async def _home(this: _Pass) -> tuple[str, str]:
    """Return the version and the identity of the home cluster."""
    known = this.neighbours.home
    if known is not None and known.identity:
        return known.version, known.identity
    client = this.means.super_client
    return await client.version(), await probe.identity(client)


def _trouble_of(this: _Pass, identity: str, home_identity: str) -> tuple[str, str] | None:
    """Return reason and message if an unexpected cluster answers, else None."""
    name, known = this.name, this.old.identity
    said = (this.body["metadata"].get("annotations") or {}).get(wellknown.CONFIRM_LOSSES, "")
    if identity and known and identity not in (known, said):
        text = (
            f"another cluster answers: its kube-system is {identity}, and that of the cluster known"
            f" as {name} is {known}. If the cluster was made anew, run `kubectl vc target confirm"
            f" {name}`: what tenants had in the old one counts as lost then. Else correct the"
            " address or the Secret"
        )
        return super_clusters.IDENTITY_CHANGED, text
    same = HOME if identity and identity == home_identity else this.neighbours.same(identity)
    if same:
        text = (
            f"this is the cluster that the SuperCluster {same} stands for already; a cluster has"
            f" one name, so delete the SuperCluster {name}"
        )
        return "SameCluster", text
    return None


async def _endpoint(this: _Pass) -> Endpoint | None:
    """Return the endpoint from the Secret, or None after a condition reports the fault."""
    means, ref = this.means, this.spec.secret_ref
    assert ref is not None  # noqa: S101 - the spec was parsed
    means.targets.follow(
        means.super_client,
        namespace=means.namespace,
        secret=ref.name,
        name=this.name,
        wake=lambda name: means.wake(Key("SuperCluster", "", name)),
    )
    try:
        secret = await means.super_client.get(SECRETS, ref.name, namespace=means.namespace)
        data = decoded(secret.get("data") or {})
        this.kubelet_authorities = data.get(secret_kubeconfig.KUBELET_AUTHORITIES, b"")
        return secret_kubeconfig.endpoint(
            data,
            name=f"SuperCluster {this.name}",
            key=ref.key,
            context=ref.context,
            server=this.spec.server,
            tls_server_name=this.spec.tls_server_name,
        )
    except errors.NotFound:
        this.verdict.unreachable(
            "SecretNotFound",
            f"there is no Secret {ref.name} in namespace {means.namespace}; make it with a"
            " kubeconfig under the key kubeconfig, or run `kubectl vc target join`",
        )
    except secret_kubeconfig.LocalAddressProblem as problem:
        this.verdict.unreachable("LoopbackAddress", str(problem))
    except errors.CredentialsProblem as problem:
        text = f"Secret {ref.name}: {problem}; correct the Secret"
        this.verdict.unreachable("InvalidKubeconfig", text)
    return None


def decoded(data: Mapping[str, Any]) -> dict[str, bytes]:
    """Return a Secret's values, without invalid base64, which an API server refuses anyway."""
    found = {}
    for key, value in data.items():
        with contextlib.suppress(binascii.Error, ValueError, TypeError):
            found[key] = base64.b64decode(value, validate=True)
    return found


async def _make_home(means: Means) -> None:
    """Create the SuperCluster of the home cluster, because a target exists now."""
    body = {
        "apiVersion": SUPER_CLUSTERS.api_version,
        "kind": SUPER_CLUSTERS.kind,
        "metadata": {"name": HOME},
        "spec": {},
    }
    with contextlib.suppress(errors.AlreadyExists):
        await means.super_client.create(SUPER_CLUSTERS, body, field_manager=wellknown.MANAGER)


def _facts_of(old: SuperClusterStatus) -> dict[str, Any]:
    found = {
        "version": old.version,
        "identity": old.identity,
        "capacity": old.capacity,
        "network": _network(old.network),
    }
    return {"nodes": old.nodes, **{key: value for key, value in found.items() if value}}


def _network(ranges: Ranges) -> dict[str, list[str]]:
    return {"podCIDRs": [*ranges.pods], "serviceCIDRs": [*ranges.services]}


async def _write(this: _Pass) -> None:
    """Write the status if it changed, and wake the other SuperClusters if the ranges changed."""
    metadata = this.body["metadata"]
    old = this.body.get("status") or {}
    generation = metadata.get("generation", 0)
    now = this.means.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    listed = this.verdict.listed(now=now, generation=generation)
    said = conditions.carry_times(old.get("conditions"), listed)
    facts = {**this.facts, "observedGeneration": generation}
    is_said = all(conditions.find(old.get("conditions"), each["type"]) == each for each in said)
    is_over = _OBSERVED in old and _OBSERVED not in facts
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
    before = conditions.find(old.get("conditions"), super_clusters.READY) or {}
    ready = this.verdict.said[super_clusters.READY]
    if (before.get("status"), before.get("reason")) != (ready.status, ready.reason):
        _log.info("target.judged", target=this.name, ready=ready.status, reason=ready.reason)
        is_well = ready.status == "True"
        this.means.recorder.record(
            head, ready.reason, ready.message, kind="Normal" if is_well else "Warning"
        )
    if facts.get("network") != old.get("network"):
        for name in this.neighbours.names:
            this.means.wake(Key("SuperCluster", "", name))
