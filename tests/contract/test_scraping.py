"""Scrape settings in docs/monitoring.md, against the ports, labels and Secrets of pods."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Any

import pytest
import yaml

from tenancy import ownership
from tests.support.vcmanager.factories import FACTS, TENANT, wish
from tools.testbed.artifacts import product
from vcmanager.pki import inventory
from vcmanager.plan import control_plane
from vcmanager.plan.network import root_policies
from vcmanager.plan.service_cidrs import ServiceRange

PAGE = (product.REPOSITORY / "docs" / "monitoring.md").read_text()
EXAMPLES = [
    found
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    if (found := yaml.safe_load(text)).get("kind") == "PodMonitor"
]
PLAN = control_plane.build_plan(wish(), ServiceRange(ip_network("10.96.8.0/22")))


def pod_of(component: str) -> dict[str, Any]:
    """Return the pod template of a component, with the labels that its pods get."""
    (found,) = (
        each
        for each in PLAN.workloads
        if (each["kind"], each["metadata"]["name"]) == ("StatefulSet", component)
    )
    template = found["spec"]["template"]
    labels = {**template["metadata"]["labels"], **ownership.build_owner_labels(TENANT, "")}
    return {"labels": labels, "containers": template["spec"]["containers"]}


@pytest.mark.parametrize("monitor", EXAMPLES, ids=lambda each: each["metadata"]["name"])
def test_each_example_selects_pods_and_a_port_of_them(monitor):
    wanted = monitor["spec"]["selector"]["matchLabels"]
    pod = pod_of(wanted["component-name"])
    assert wanted.items() <= pod["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert ports[endpoint["port"]] in (root_policies.ETCD_METRICS_PORT, 6443)


def test_the_examples_are_of_etcd_and_of_the_api_server():
    assert [each["spec"]["selector"]["matchLabels"]["component-name"] for each in EXAMPLES] == [
        "etcd",
        "apiserver",
    ]
    tls = EXAMPLES[1]["spec"]["podMetricsEndpoints"][0]["tlsConfig"]
    leaves = {each.secret: each for each in inventory.list_leaves(FACTS)}
    assert tls["serverName"] in leaves["apiserver-ca"].subject.dns_names
    assert tls["cert"]["secret"]["name"] == tls["keySecret"]["name"] == "apiserver-scraper-client"
    assert tls["ca"]["configMap"]["name"] == inventory.TRUST
