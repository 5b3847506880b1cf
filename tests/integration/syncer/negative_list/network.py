"""Cases of Services, slices, Ingresses and network policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeio import Object
from tenancy.resources import (
    ENDPOINT_SLICES,
    INGRESSES,
    NETWORK_POLICIES,
    SERVICE_CIDRS,
    SERVICES,
    Resource,
)
from tests.integration.syncer.negative_list.cases import CLASS, OWN_RANGE, RefusedCase, of_spec
from tests.integration.syncer.negative_list.leaves import ADDRESS, Fragment

_PORT: Object = {"ports": [{"port": 80}]}
_LOAD_BALANCER: Object = {**_PORT, "type": "LoadBalancer"}
_PLAIN = {"app": "x"}
_HOLDING = {"service.beta.kubernetes.io/aws-load-balancer-internal": "true"}


def _of_network(
    about: tuple[Resource, str], rule: str, path: str, bad: Fragment, good: Fragment, **more: Any
) -> RefusedCase:
    return RefusedCase(
        row=f"2b {about[1]}",
        rule=rule,
        path=path,
        resource=about[0],
        bad=of_spec(bad),
        good=of_spec(good),
        **more,
    )


def _services() -> Iterator[RefusedCase]:
    def of_service(
        row: str, rule: str, path: str, bad: Fragment, good: Fragment, **more: Any
    ) -> RefusedCase:
        return _of_network((SERVICES, row), rule, path, bad, good, **more)

    yield of_service(
        "externalIPs",
        "external-ips",
        "spec.externalIPs",
        {**_PORT, "externalIPs": ["8.8.8.8"]},
        _PORT,
        leaf="Service spec.externalIPs",
    )
    row = "loadBalancerIP, loadBalancerClass, loadBalancerSourceRanges"
    yield of_service(
        row,
        "load-balancer",
        "spec.loadBalancerIP",
        {**_LOAD_BALANCER, "loadBalancerIP": ADDRESS},
        {**_LOAD_BALANCER, "loadBalancerSourceRanges": ["192.0.2.0/24"]},
        leaf="Service spec.loadBalancerIP",
    )
    yield of_service(
        row,
        "load-balancer",
        "spec.loadBalancerClass",
        {**_LOAD_BALANCER, "loadBalancerClass": "example.com/internal"},
        _LOAD_BALANCER,
    )
    for kind in ("NodePort", "LoadBalancer"):
        spec = {**_PORT, "type": kind}
        row = "Service type NodePort, LoadBalancer"
        yield of_service(row, "service-type", "spec.type", spec, spec, tight=True)
    yield of_service(
        "Service type ExternalName",
        "service-type",
        "spec.type",
        {"type": "ExternalName", "externalName": "example.com"},
        {"type": "ExternalName", "externalName": "example.com"},
        tight=True,
    )
    for name in (
        "x.cluster.local",
        "a.b.c.svc.cluster.local",
        "localhost",
        "10.96.0.1",
        "127.0.0.1",
    ):
        yield of_service(
            "Service type ExternalName",
            "external-name",
            "spec.externalName",
            {"type": "ExternalName", "externalName": name},
            {"type": "ExternalName", "externalName": "web.default.svc.cluster.local"},
        )
    yield of_service(
        "Service type ClusterIP, headless",
        "service-ip",
        "spec.clusterIP",
        {**_PORT, "clusterIP": OWN_RANGE.replace("0/24", "9")},
        {**_PORT, "clusterIP": "None"},
        tight=True,  # last of all, or others would get their addresses from that range
        needs=((SERVICE_CIDRS, of_spec({"cidrs": [OWN_RANGE]})),),
    )
    for resource, spec in ((SERVICES, _LOAD_BALANCER), (INGRESSES, _ingress())):
        yield RefusedCase(
            row="2b annotations",
            rule="annotation",
            path="metadata.annotations[",
            resource=resource,
            bad=of_spec(spec, annotations=_HOLDING),
            good=of_spec(spec, annotations={"note": "x", "meta.helm.sh/release-name": "r"}),
        )


def _slice(address: str, **more: Any) -> Object:
    return {
        "metadata": {"name": "@name", "labels": {"kubernetes.io/service-name": "absent"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [{"port": 80}],
        **more,
    }


def _slices() -> Iterator[RefusedCase]:
    row = "2b Endpoints, EndpointSlice without selector"
    bad = [
        ("endpoints[0].addresses[0]", _slice("10.96.0.1"), ""),
        ("endpoints[0].addresses[0]", _slice("192.0.2.7"), ""),  # of a node
        (
            "endpoints[0].addresses[0]",
            _slice("64:ff9b::a60:1", addressType="IPv6"),
            "",
        ),
        ("addressType", _slice("example.com", addressType="FQDN"), "EndpointSlice .addressType"),
    ]
    for path, body, leaf in bad:
        yield RefusedCase(
            row=row,
            rule="endpoint-address",
            path=path,
            leaf=leaf,
            resource=ENDPOINT_SLICES,
            bad=body,
            good=_slice("203.0.113.9"),
        )


_BACKEND: Object = {"service": {"name": "web", "port": {"number": 80}}}
_RESOURCE: Object = {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}}


def _ingress(
    backend: Object = _BACKEND,
    host: str = "negative.example",
    path: str = "/",
    kind: str = "Prefix",
    **more: Any,
) -> Object:
    found = {"path": path, "pathType": kind, "backend": backend}
    rule = {**({"host": host} if host else {}), "http": {"paths": [found]}}
    return {"ingressClassName": CLASS, "rules": [rule], **more}


def _ingresses() -> Iterator[RefusedCase]:
    def of_ingress(rule: str, path: str, bad: Fragment, good: Fragment, **more: Any) -> RefusedCase:
        return _of_network((INGRESSES, "Ingress"), rule, path, bad, good, **more)

    plain = _ingress()
    at = "spec.rules[].http.paths[].backend.resource"
    yield of_ingress(
        "ingress-backend", at.replace("[]", "[0]"), _ingress(_RESOURCE), plain, leaf=f"Ingress {at}"
    )
    yield of_ingress(
        "ingress-backend",
        "spec.defaultBackend.resource",
        {"ingressClassName": CLASS, "defaultBackend": _RESOURCE},
        plain,
        leaf="Ingress spec.defaultBackend.resource",
    )
    for path, bad in (
        ("spec.rules[0].host", _ingress(host="*.example")),
        ("spec.rules[0].host", _ingress(host="")),
        ("spec.defaultBackend", _ingress(defaultBackend=_BACKEND)),
    ):
        yield of_ingress("ingress-host", path, bad, plain)
    yield of_ingress(
        "ingress-host",
        "spec.tls[0].hosts[0]",
        _ingress(tls=[{"hosts": ["other.example"]}]),
        _ingress(tls=[{"hosts": ["negative.example"]}]),
    )
    where = "spec.rules[0].http.paths[0]"
    for at, refused in (
        (f"{where}.path", _ingress(path="/x;return")),
        (f"{where}.path", _ingress(path="/x { return 200; }")),
        (f"{where}.pathType", _ingress(kind="ImplementationSpecific")),
    ):
        yield of_ingress("ingress-path", at, refused, _ingress(path="/x", kind="Exact"))
    other = _ingress(ingressClassName="not-offered")
    yield of_ingress("ingress-class", "spec.ingressClassName", other, plain)
    yield of_ingress("ingresses", "spec", plain, plain, tight=True)


def _policies() -> Iterator[RefusedCase]:
    def of_policy(rule: str, path: str, bad: Fragment, good: Fragment, **more: Any) -> RefusedCase:
        return _of_network((NETWORK_POLICIES, "NetworkPolicy"), rule, path, bad, good, **more)

    def peers(kind: str, peer: Fragment) -> Object:
        side = "from" if kind == "ingress" else "to"
        word = kind.capitalize()
        return {"podSelector": {}, "policyTypes": [word], kind: [{side: [dict(peer)]}]}

    plain: Object = {"podSelector": {"matchLabels": _PLAIN}}
    for kind, side in (("ingress", "from"), ("egress", "to")):
        expression = {"key": "app", "operator": "Near", "values": ["x"]}
        for selector in ("namespaceSelector", "podSelector"):
            at = f"spec.{kind}[].{side}[].{selector}.matchExpressions[].operator"
            right = {**expression, "operator": "In"}
            yield of_policy(
                "malformed",
                at.replace("[]", "[0]"),
                peers(kind, {selector: {"matchExpressions": [expression]}}),
                peers(kind, {selector: {"matchExpressions": [right]}}),
                leaf=f"NetworkPolicy {at}",
                tenant_api_refuses=True,
            )
    yield of_policy(
        "malformed",
        "spec.podSelector.matchExpressions[0].operator",
        {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}},
        plain,
        leaf="NetworkPolicy spec.podSelector.matchExpressions[].operator",
        tenant_api_refuses=True,
    )
    yield of_policy(
        "policy-type",
        "spec.policyTypes",
        {**plain, "policyTypes": ["Sideways"]},
        {**plain, "policyTypes": ["Ingress"]},
        leaf="NetworkPolicy spec.policyTypes",
        tenant_api_refuses=True,
    )
    yield of_policy("network-policies", "spec", plain, plain, tight=True)


def cases() -> Iterator[RefusedCase]:
    """Yield them."""
    yield from _services()
    yield from _slices()
    yield from _ingresses()
    yield from _policies()
