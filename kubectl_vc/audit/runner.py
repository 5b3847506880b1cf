"""Steps of an audit: server, probers, webhooks, objects, verdicts.

Owns the order. The tables are in `probes`, the verdicts in `judge`.

Hazard: a step that fails or takes too long must give no result, so that the verdict is unknown. It
must never end the audit with a passed probe.

Hazard: the controls must end before the first connection of a tenant. Otherwise a Service that
kube-proxy has not set up yet would pass for a closed one.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from kubectl_vc.audit import addresses, fixture, objects, prober, quota, webhooks
from kubectl_vc.audit.addresses import SuperObjects, TargetAddress, TenantObjects
from kubectl_vc.audit.decision import Verdict, judge_packet
from kubectl_vc.audit.fixture import AuditFixture, TenantSide
from kubectl_vc.audit.probes import PACKET_PROBES, SOURCE_PROOFS, Answer, PacketProbe, Place, Target
from kubectl_vc.audit.report import AuditResult
from kubectl_vc.output.cli_errors import CliError
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.resources import CONFIG_MAPS, ENDPOINT_SLICES, NODES, PODS, SERVICES

SERVER = "server"
_SERVICE_TYPES = {"server": "ClusterIP", "server-node-port": "NodePort"}
_DNS_SERVICES = {
    "kube-system": "k8s-app=kube-dns",
    "openshift-dns": "dns.operator.openshift.io/owning-dns",
}
"""Namespaces of a super cluster's DNS, and the label of its Services. No tenant can write there."""
_PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}
_SERVER_SECONDS = 120
_PROBE_SECONDS = 120
_WEBHOOK_TRIES = 10
_PROXY_SECONDS = 8
_PARALLEL_TRIGGERS = 8
_PARALLEL_PROXIES = 16

Answers = dict[tuple[Place, TargetAddress], Answer]
PlaceRun = tuple[Place, Callable[[], Awaitable[Mapping[TargetAddress, Answer]]]]
"""A place, and the attempts from it."""
SourceFamilies = Mapping[Place, frozenset[int]]
"""IP families, 4 and 6, of the addresses of a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """The inputs of one audit."""

    own: TenantSide
    decoy: TenantSide
    image: str
    name: str
    """Name of the audit's namespaces and webhooks."""
    manager_namespace: str
    policy: TenantPolicySpec


async def run_probes(work: AuditFixture, plan: AuditPlan) -> list[AuditResult]:
    """Run all probes. Returns one result per row and address. Raises CliError without servers."""
    own, decoy = await asyncio.gather(_serve(work, plan, plan.own), _serve(work, plan, plan.decoy))
    super_cluster = await fetch_super_objects(work.super_client, plan.manager_namespace)
    endpoints = addresses.find_endpoints(own, decoy, super_cluster)
    answers, about_objects = await asyncio.gather(
        _collect_answers(work, plan, own, endpoints),
        objects.run_object_probes(
            work.super_client,
            own=plan.own,
            decoy=plan.decoy,
            decoy_pod=decoy.server_pod,
            super_cluster=super_cluster,
            policy=plan.policy,
            image=plan.image,
            work=work,
        ),
    )
    about_quota = await quota.run_quota_probe(work, plan.own, plan.policy, plan.image)
    about_packets = judge_packets(
        endpoints, answers, addresses.find_source_families(own), policy=plan.policy
    )
    return [*about_packets, *about_objects, about_quota]


def judge_packets(
    endpoints: Iterable[TargetAddress],
    answers: Answers,
    families: SourceFamilies,
    *,
    policy: TenantPolicySpec = BASELINE_POLICY,
) -> list[AuditResult]:
    """Return the results of all rows. A row without an address is unknown.

    `families` has the IP families of each source. A row that the policy decides is absent.
    """
    decided = _list_decided(policy)
    by_target: dict[Target, list[TargetAddress]] = defaultdict(list)
    for each in endpoints:
        by_target[each.target].append(each)
    results = []
    for probe in PACKET_PROBES:
        if probe.target in decided:
            results.append(_build_missing(probe, Verdict.ABSENT, decided[probe.target]))
            continue
        for each in by_target[probe.target]:
            proof = _find_proof(probe.source, each.family, by_target, answers, families)
            results.append(_judge_endpoint(probe, each, answers, proof))
        if not by_target[probe.target]:
            results.append(_build_missing(probe, Verdict.UNKNOWN, "no address was found"))
    return results


def _list_decided(policy: TenantPolicySpec) -> Mapping[Target, str]:
    """Return the targets that the policy opens or does not offer, each with the reason."""
    decided: dict[Target, str] = {}
    if policy.network.node_dns == "Allow":
        decided[Target.SUPER_DNS] = "network.nodeDns of the policy allows it"
    if "NodePort" not in policy.network.service_types:
        decided[Target.DECOY_NODE_PORT] = "network.serviceTypes of the policy has no NodePort"
    return decided


def _find_proof(
    source: Place,
    family: int,
    by_target: Mapping[Target, Iterable[TargetAddress]],
    answers: Answers,
    families: SourceFamilies,
) -> Answer | None:
    """Return the best answer of a source's own target in an IP family.

    It is None if the source has addresses, but none of this family.
    """
    own = [each for each in by_target[SOURCE_PROOFS[source]] if each.family == family]
    found = [answers.get((source, each), Answer.MISSING) for each in own]
    if Answer.OPEN in found:
        return Answer.OPEN
    if families[source] and family not in families[source]:
        return None
    return next(iter(found), Answer.MISSING)


def _judge_endpoint(
    probe: PacketProbe, endpoint: TargetAddress, answers: Answers, source_proof: Answer | None
) -> AuditResult:
    seen = answers.get((probe.source, endpoint), Answer.MISSING)
    control = Answer.MISSING
    if probe.control is not None:
        control = answers.get((probe.control, endpoint), Answer.MISSING)
    judged = judge_packet(
        probe,
        seen,
        source_proof=source_proof,
        control=control,
        is_optional=endpoint.is_optional,
    )
    return _build_result(probe, endpoint.describe(), (seen, control), judged)


def _build_missing(probe: PacketProbe, verdict: Verdict, note: str) -> AuditResult:
    """Return the result of a row without an attempt."""
    missing = (Answer.MISSING, Answer.MISSING)
    return _build_result(probe, str(probe.target), missing, (verdict, note))


def _build_result(
    probe: PacketProbe, target: str, answers: tuple[Answer, Answer], judged: tuple[Verdict, str]
) -> AuditResult:
    """Return a result from the answers to the source and to the control, and the verdict."""
    (seen, control), (verdict, note) = answers, judged
    return AuditResult(
        probe=probe.name,
        source=str(probe.source),
        target=target,
        expected="open" if probe.expected is Answer.OPEN else "closed",
        seen=str(seen),
        control=f"{control} from {probe.control}" if probe.control is not None else "",
        verdict=verdict,
        note=note,
    )


async def _serve(work: AuditFixture, plan: AuditPlan, side: TenantSide) -> TenantObjects:
    """Create the namespace, the server and its Services, and return their twins."""
    client, namespace, super_client = side.client, side.namespace, work.super_client
    await work.create_namespace(client, namespace)
    work.expect_removal(side.super_namespace)
    server = prober.build_server(SERVER, plan.image)
    try:
        async with asyncio.timeout(_SERVER_SECONDS):
            pod = await work.create(client, PODS, server, namespace)
            services = []
            for name, kind in _SERVICE_TYPES.items():
                if kind in plan.policy.network.service_types:
                    body = prober.build_service(name, kind)
                    made = await work.create(client, SERVICES, body, namespace)
                    services.append(await fixture.wait_for_twin(super_client, side, SERVICES, made))
            await fixture.wait_for_ready(client, SERVER, namespace)
            twin = await fixture.wait_for_twin(super_client, side, PODS, pod)
    except TimeoutError as problem:
        raise CliError(
            f"the audit's pod {namespace}/{SERVER} in {side.tenant.name} is not ready after"
            f" {_SERVER_SECONDS} s. Check that the image {plan.image} can be pulled (--image) and"
            " that the tenant is syncing."
        ) from problem
    return TenantObjects(
        root_pods=await fixture.list_items(super_client, PODS, side.tenant.root),
        root_services=await fixture.list_items(super_client, SERVICES, side.tenant.root),
        server_pod=twin,
        server_services=services,
    )


async def fetch_super_objects(super_client: Client, manager_namespace: str) -> SuperObjects:
    """Return the objects of the super cluster that have the addresses of targets."""
    slices = await super_client.list(
        ENDPOINT_SLICES, namespace="default", label_selector="kubernetes.io/service-name=kubernetes"
    )
    return SuperObjects(
        nodes=await fixture.list_items(super_client, NODES),
        component_pods=await fixture.list_items(super_client, PODS, manager_namespace),
        api_services=[await super_client.get(SERVICES, "kubernetes", namespace="default")],
        api_slices=slices.get("items") or [],
        dns_services=[
            each
            for namespace, label in _DNS_SERVICES.items()
            for each in (
                await super_client.list(SERVICES, namespace=namespace, label_selector=label)
            )["items"]
        ],
    )


async def _collect_answers(
    work: AuditFixture, plan: AuditPlan, own: TenantObjects, endpoints: list[TargetAddress]
) -> Answers:
    """Return the answer of each endpoint to each place that a row names."""
    wanted = {
        place: [
            each
            for each in endpoints
            if any(
                probe.target is each.target and place in (probe.source, probe.control)
                for probe in PACKET_PROBES
            )
        ]
        for place in Place
    }
    home = str(own.server_pod["spec"].get("nodeName") or "")
    by_node: dict[str, list[TargetAddress]] = defaultdict(list)
    for each in wanted[Place.NODE]:
        by_node[each.node or home].append(each)
    await work.create_namespace(work.super_client, plan.name, _PRIVILEGED)
    controls: list[PlaceRun] = [
        (
            Place.DECOY_POD,
            partial(run_prober, work, plan.decoy, plan.image, wanted[Place.DECOY_POD]),
        )
    ]
    for number, (node, listed) in enumerate(sorted(by_node.items())):
        pod = prober.build_node_prober(f"node-{number}", plan.image, node, listed)
        run = partial(_run_node_prober, work, plan.name, pod, listed)
        controls.append((Place.NODE, run))
    sources: list[PlaceRun] = [
        (
            Place.TENANT_POD,
            partial(run_prober, work, plan.own, plan.image, wanted[Place.TENANT_POD]),
        ),
        (Place.TENANT_API, partial(call_webhooks, work, plan, wanted[Place.TENANT_API])),
    ]
    answers: Answers = {}
    for step in (controls, sources):
        found = await asyncio.gather(*(run() for _, run in step))
        for (place, _), listed_answers in zip(step, found, strict=True):
            answers |= {(place, each): answer for each, answer in listed_answers.items()}
    return answers


async def run_prober(
    work: AuditFixture, side: TenantSide, image: str, listed: list[TargetAddress]
) -> Mapping[TargetAddress, Answer]:
    """Run a prober in a tenant to its end. Without an end in time, no endpoint has a result.

    Hazard: the program and its results must be read from the super pod. The tenant writes whatever
    its own API shows. Each state counts, because a tenant can change the image of a running pod.
    """
    asked = prober.build_prober("prober", image, listed)
    text = ""
    with contextlib.suppress(errors.KubeError, TimeoutError):
        async with asyncio.timeout(_PROBE_SECONDS):
            pod = await work.create(side.client, PODS, asked, side.namespace)
            twin = await fixture.wait_for_twin(work.super_client, side, PODS, pod)
            name = twin["metadata"]["name"]
            async for state in fixture.watch_to_end(work.super_client, name, side.super_namespace):
                if prober.is_changed(state, asked):
                    return dict.fromkeys(listed, Answer.CHANGED)
                text = prober.get_termination_message(state) or ""
    return prober.parse_answers(text, listed)


async def _run_node_prober(
    work: AuditFixture, namespace: str, pod: Object, listed: list[TargetAddress]
) -> Mapping[TargetAddress, Answer]:
    """Run a prober on a node to its end. Without an end in time, no endpoint has a result."""
    text, name = "", pod["metadata"]["name"]
    with contextlib.suppress(errors.KubeError, TimeoutError):
        async with asyncio.timeout(_PROBE_SECONDS):
            await work.create(work.super_client, PODS, pod, namespace)
            async for state in fixture.watch_to_end(work.super_client, name, namespace):
                text = prober.get_termination_message(state) or ""
    return prober.parse_answers(text, listed)


async def call_webhooks(
    work: AuditFixture, plan: AuditPlan, listed: list[TargetAddress]
) -> Mapping[TargetAddress, Answer]:
    """Return the results of the API server's connections."""
    side = plan.own
    configuration = webhooks.build_configuration(plan.name, side.namespace, listed)
    found: dict[TargetAddress, Answer] = {}
    with contextlib.suppress(errors.KubeError):
        async with _declared(work, side.client, configuration):
            at_once = asyncio.Semaphore(_PARALLEL_TRIGGERS)

            async def call(number: int, endpoint: TargetAddress) -> None:
                async with at_once:
                    found[endpoint] = await _trigger(side, number)

            await asyncio.gather(*(call(*each) for each in enumerate(listed)))
    silent = [each for each, answer in found.items() if answer is Answer.TIMEOUT]
    found |= await _call_proxies(work, plan, [each for each in silent if webhooks.is_proxied(each)])
    return {each: found.get(each, Answer.MISSING) for each in listed}


async def _call_proxies(
    work: AuditFixture, plan: AuditPlan, listed: list[TargetAddress]
) -> Mapping[TargetAddress, Answer]:
    """Return the results of plain HTTP from the API server. Without an answer it is a timeout."""
    client = plan.own.client
    hosts = list(dict.fromkeys(each.host for each in listed))
    nodes = {host: f"{plan.name}-{number}" for number, host in enumerate(hosts)}
    # A call that waits for a free connection would have no result.
    at_once = asyncio.Semaphore(_PARALLEL_PROXIES)

    async def call(endpoint: TargetAddress) -> Answer:
        path = webhooks.build_proxy_path(nodes[endpoint.host], endpoint.port)
        try:
            async with at_once:
                await client.raw(
                    "GET", path, accept="*/*", repeatable=False, deadline=_PROXY_SECONDS
                )
        except errors.ApiError as problem:
            return webhooks.parse_proxied_answer(problem.status, problem.server_message)
        except errors.Timeout:
            return Answer.TIMEOUT
        except errors.KubeError:
            return Answer.MISSING
        return Answer.OPEN

    try:
        for host, node in nodes.items():
            await work.create(client, NODES, webhooks.build_proxied_node(node, host))
    except errors.KubeError:
        return dict.fromkeys(listed, Answer.MISSING)
    found = await asyncio.gather(*(call(each) for each in listed))
    return dict(zip(listed, found, strict=True))


async def _trigger(side: TenantSide, number: int) -> Answer:
    """Make the API server call one webhook. It learns of a new one after a moment."""
    trigger = webhooks.build_trigger(side.namespace, number)
    for _ in range(_WEBHOOK_TRIES):
        try:
            await side.client.create(CONFIG_MAPS, trigger, namespace=side.namespace, dry_run=True)
        except errors.ApiError as problem:
            answer = webhooks.parse_answer(problem.server_message)
            if answer is not Answer.MISSING:
                return answer
        except errors.KubeError:
            pass
        await asyncio.sleep(1)
    return Answer.MISSING


@contextlib.asynccontextmanager
async def _declared(
    work: AuditFixture, client: Client, configuration: Object
) -> AsyncIterator[None]:
    """Declare webhooks for the length of a block."""
    await work.create(client, webhooks.WEBHOOK_CONFIGURATIONS, configuration)
    try:
        yield
    finally:
        with contextlib.suppress(errors.KubeError):
            await client.delete(webhooks.WEBHOOK_CONFIGURATIONS, configuration["metadata"]["name"])
