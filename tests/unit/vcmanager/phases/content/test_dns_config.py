"""The condition of `spec.dnsConfig`, and policies that decide about it."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from tenancy import wellknown
from tenancy.specs import DnsConfig, PolicyRef
from tests.support.vcmanager.factories import NOW, RecordingClient, fake_means, wish
from vcmanager.phases.content import dns_config
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime.status import ReconcileStatus

NODE = {"metadata": {"name": "n"}, "status": {"addresses": [{"address": "203.0.113.7"}]}}
RANGE = ServiceRange(ipaddress.ip_network("10.96.8.0/22"))
SUPER = ipaddress.ip_network("10.96.0.0/16")


async def run(objects: dict[str, Any] | None = None, **spec: Any) -> tuple[Any, Any, int]:
    """Return the forwarding, the condition, and how often nodes were listed."""
    listed = []

    async def list_nodes() -> list[Any]:
        listed.append(1)
        return [NODE]

    report = ReconcileStatus(generation=1, now=NOW.isoformat())
    found = await dns_config.plan_forwarding(
        fake_means(RecordingClient(objects)),
        wish(**spec),
        RANGE,
        SUPER,
        report,
        list_nodes=list_nodes,
    )
    return found, report.get_condition(wellknown.DNS_CONFIG_ACCEPTED), len(listed)


async def test_without_the_field_nothing_is_read_and_no_condition_is_set():
    found, condition, lists = await run()
    assert (found.forwarders, condition, lists) == ((), None, 0)


async def test_accepted_and_refused_servers():
    found, condition, _ = await run(dns_config=DnsConfig(forwarders=("198.51.100.1",)))
    assert len(found.forwarders) == 1
    assert condition["status"] == "True"
    servers = ("198.51.100.1", "203.0.113.7", "10.96.0.10")
    found, condition, _ = await run(dns_config=DnsConfig(forwarders=servers))
    assert len(found.forwarders) == 1
    assert (condition["status"], condition["reason"]) == ("False", "Refused")
    assert "forwarders[1]" in condition["message"]
    assert "forwarders[2]" in condition["message"]


async def test_the_policy_opens_networks_and_closes_those_of_the_super_cluster():
    policy = {
        "metadata": {"name": "p"},
        "spec": {"network": {"dnsServers": ["10.9.0.0/24"], "superRanges": ["198.51.100.0/24"]}},
    }
    config = DnsConfig(forwarders=("10.9.0.1", "198.51.100.1"))
    found, condition, _ = await run(
        {"p": policy}, dns_config=config, policy_ref=PolicyRef(name="p")
    )
    assert [server.format() for server in found.forwarders] == ["10.9.0.1:53"]
    assert "forwarders[1]" in condition["message"]


@pytest.mark.parametrize("policy", [None, {"metadata": {"name": "p"}, "spec": {"weight": 99}}])
async def test_a_missing_or_invalid_policy_allows_nothing(policy):
    objects = {"p": policy} if policy else {}
    config = DnsConfig(forwarders=("198.51.100.1",))
    found, condition, _ = await run(objects, dns_config=config, policy_ref=PolicyRef(name="p"))
    assert found.forwarders == ()
    assert condition["reason"] == "Refused"


async def test_a_dns_of_the_tenants_own_has_no_use_for_it():
    config = DnsConfig(forwarders=("198.51.100.1",))
    found, condition, lists = await run(dns_config=config, dns="tenant")
    assert (found.forwarders, lists) == ((), 0)
    assert condition["reason"] == "NotManaged"
