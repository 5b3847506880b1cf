"""Webhooks of the audit: what they match, and what the API server's errors mean."""

from __future__ import annotations

import pytest

from kubectl_vc.audit import webhooks
from kubectl_vc.audit.addresses import TargetAddress
from kubectl_vc.audit.probes import Answer, Target

CALL = 'Internal error occurred: failed calling webhook "x": failed to call webhook: Post "u": '


def test_a_webhook_matches_only_its_own_object_in_the_namespace_of_the_audit():
    listed = [
        TargetAddress(Target.KUBELET, "192.0.2.1", 10250),
        TargetAddress(Target.METADATA, "fd00::1", 80),
    ]
    found = webhooks.build_configuration("vc-audit-1", "vc-audit-1", listed)["webhooks"]
    assert [each["clientConfig"]["url"] for each in found] == [
        "https://192.0.2.1:10250/",
        "https://[fd00::1]:80/",
    ]
    for number, each in enumerate(found):
        trigger = webhooks.build_trigger("vc-audit-1", number)
        wanted = each["objectSelector"]["matchLabels"]
        assert wanted.items() <= trigger["metadata"]["labels"].items()
        assert each["namespaceSelector"]["matchLabels"] == {
            "kubernetes.io/metadata.name": "vc-audit-1"
        }
    selectors = [tuple(each["objectSelector"]["matchLabels"].items()) for each in found]
    assert len(set(selectors)) == len(selectors)


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("dial tcp 10.0.0.1:80: connect: connection refused", Answer.REFUSED),
        ("dial tcp 10.0.0.1:80: connect: no route to host", Answer.REFUSED),
        ("dial tcp 10.0.0.1:80: connect: network is unreachable", Answer.REFUSED),
        ("dial tcp [fd00::1]:80: connect: cannot assign requested address", Answer.REFUSED),
        ("dial tcp [fd00::1]:80: socket: address family not supported", Answer.REFUSED),
        ("dial tcp 10.0.0.1:80: i/o timeout", Answer.TIMEOUT),
        ("context deadline exceeded", Answer.TIMEOUT),
        ("net/http: request canceled (Client.Timeout exceeded)", Answer.TIMEOUT),
        ("tls: failed to verify certificate: x509: unknown authority", Answer.OPEN),
        ("remote error: tls: certificate required", Answer.OPEN),
        ("http: server gave HTTP response to HTTPS client", Answer.OPEN),
        ("EOF", Answer.OPEN),
    ],
)
def test_an_error_of_the_call_is_an_answer(message, answer):
    assert webhooks.parse_answer(CALL + message) is answer


def test_another_error_is_no_result():
    assert webhooks.parse_answer("configmaps is forbidden: connection refused") is Answer.MISSING


@pytest.mark.parametrize(
    ("status", "message", "answer"),
    [
        (503, "error trying to reach service: dial tcp 10.0.0.1:80: i/o timeout", Answer.TIMEOUT),
        (503, "error trying to reach service: dial tcp: connection refused", Answer.REFUSED),
        (503, "error trying to reach service: EOF", Answer.OPEN),
        (404, "the server could not find the requested resource", Answer.OPEN),
        (404, 'nodes "vc-audit-1-0" not found', Answer.MISSING),
        (400, "address not allowed", Answer.MISSING),
        (403, "nodes is forbidden", Answer.MISSING),
        (500, "internal error", Answer.OPEN),
    ],
)
def test_an_answer_through_the_proxy_is_the_servers_own(status, message, answer):
    assert webhooks.parse_proxied_answer(status, message) is answer


def test_a_node_proxies_to_each_address_that_the_api_server_allows():
    assert webhooks.is_proxied(TargetAddress(Target.COMPONENT, "10.0.0.1", 8080))
    assert not webhooks.is_proxied(TargetAddress(Target.METADATA, "169.254.169.254", 80))
    node = webhooks.build_proxied_node("vc-audit-1-0", "10.0.0.1")
    assert node["status"]["addresses"] == [{"type": "InternalIP", "address": "10.0.0.1"}]
    assert node["spec"]["taints"][0]["effect"] == "NoSchedule"
    path = webhooks.build_proxy_path("vc-audit-1-0", 8080)
    assert path == "/api/v1/nodes/http:vc-audit-1-0:8080/proxy/"
