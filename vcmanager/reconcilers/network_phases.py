"""Phases of a VirtualCluster's network: host name, NetworkPolicies, Services and endpoint.

Owns these phases. `virtual_cluster_phases` has their order.
"""

from dataclasses import replace

from kubeio import Object
from tenancy import addresses, wellknown
from tenancy.resources import NODES
from vcmanager.phases import certificates
from vcmanager.phases.access import api_hostname
from vcmanager.phases.content import policies
from vcmanager.phases.owned_objects import OwnedObjects
from vcmanager.plan import external_endpoint
from vcmanager.plan.network import root_policies
from vcmanager.plan.pki_secrets import ApiAddress
from vcmanager.reconcilers.phase_run import DONE, PhaseResult, PhaseRun, PhaseWaiting

_ENDPOINT_RETRY_SECONDS = 5.0


async def decide_hostname(run: PhaseRun) -> PhaseResult:
    """Decide the host name at the API proxy, before the certificate is planned."""
    run.host = api_hostname.decide_hostname(run.context.hosts, run.body, run.status)
    domains = run.plan_input.external_domains
    if run.host.accepted:
        domains = (*domains, run.host.accepted)
    elif run.host.is_refused:  # the certificate leaves out a name that is another tenant's
        domains = tuple(each for each in domains if each != run.plan_input.spec.endpoint.hostname)
    run.plan_input = replace(run.plan_input, external_domains=domains)
    return DONE


async def write_network_policies(run: PhaseRun) -> PhaseResult:
    """Write the NetworkPolicies, before there are pods."""
    run.objects = OwnedObjects(run.context, run.plan_input, run.observed)
    if run.context.settings.network_policies:
        nodes = await list_nodes(run)
        policy = await policies.fetch_policy(run.context.super_client, run.plan_input.spec)
        ranges = policy.network.super_ranges if policy is not None else ()
        found = root_policies.build_network_policies(
            root_policies.PolicyInput(
                tenant=run.plan_input.tenant,
                selectors=run.plan.selectors,
                api_port=run.plan.api_port,
                has_known_ports=not run.plan.is_bundled,
                components_namespace=run.context.namespace,
                networks=root_policies.read_super_networks(
                    nodes, [run.super_range], addresses.parse_networks(ranges)
                ),
                is_behind_proxy=_is_only_behind_proxy(run),
                egress=run.context.settings.egress,
                scrapers=run.context.settings.scrapers,
            )
        )
        await run.objects.write_additional(found)
    return DONE


def _is_only_behind_proxy(run: PhaseRun) -> bool:
    proxy = run.context.settings.api_proxy
    return proxy is not None and proxy.exclusive and bool(run.host.accepted)


async def write_services(run: PhaseRun) -> PhaseResult:
    """Write the Services, and complete the plan with the addresses that they got."""
    service = await run.objects.write_services(run.plan)
    run.external = await _find_external_address(run, service)
    if run.context.settings.api_proxy is not None:
        run.status.api_server_address = external_endpoint.find_service_address(service)
    facts = replace(
        run.plan.certificate_facts,
        service_address=run.objects.get_service_address(service),
        dialed_host=external_endpoint.find_dialed_host(run.external, run.plan_input.spec.targets),
    )
    run.plan = replace(run.plan, certificate_facts=facts)
    return DONE


async def _find_external_address(run: PhaseRun, service: Object) -> ApiAddress | None:
    spec, proxy = run.plan_input.spec, run.context.settings.api_proxy
    if proxy is not None and run.host.accepted:
        return external_endpoint.build_proxy_address(
            run.host.accepted, proxy, wanted=spec.endpoint, targets=spec.targets
        )
    wanted = external_endpoint.NO_ENDPOINT if run.host.is_refused else spec.endpoint
    is_by_node = service["spec"].get("type") == "NodePort"
    has_name = bool(wanted.hostname)
    nodes = await list_nodes(run) if is_by_node and not has_name else []
    return external_endpoint.find_external_address(
        service,
        internal=certificates.build_internal_address(run.plan),
        server_name=f"{run.plan.api_service}.{run.plan.certificate_facts.root}",
        nodes=nodes,
        known=(run.body.get("status") or {}).get("endpoint", ""),
        wanted=wanted,
    )


async def publish_endpoint(run: PhaseRun) -> PhaseResult:
    """Publish the address of the API, as soon as its Service has one."""
    if run.external is None:
        return PhaseWaiting(
            condition=wellknown.READY,
            reason="EndpointPending",
            message=f"Waiting for an external address of the Service {run.plan.api_service}"
            f" ({run.plan.service_type}).",
            retry_after=_ENDPOINT_RETRY_SECONDS,
        )
    run.status.endpoint = run.external.server
    return DONE


async def list_nodes(run: PhaseRun) -> list[Object]:
    """Return the nodes of the super cluster. They may be thousands, so a run lists them once."""
    if run.nodes is None:
        run.nodes = (await run.context.super_client.list(NODES)).get("items") or []
    return run.nodes
