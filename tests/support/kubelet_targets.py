"""Request targets that a tenant's API server, or an attacker with its key, may send to agents."""

import random
import re

from vnagent.protocol import routes
from vnagent.protocol.errors import RequestRefusedError
from vnagent.protocol.routes import Route, RouteVerb

SUPER = "default-b41df0-one-web"
SUPER_UID = "0e1f2a3b-0000-4000-8000-00000000abcd"
UID = "9f8e7d6c-1111-4111-8111-111111111111"

WRITTEN = re.compile(
    rf"/(?:containerLogs/{SUPER}/[a-z0-9.-]{{1,253}}/[a-z0-9-]{{1,63}}"
    rf"|(?:exec|attach|run)/{SUPER}/[a-z0-9.-]{{1,253}}(?:/{SUPER_UID})?/[a-z0-9-]{{1,63}}"
    rf"|portForward/{SUPER}/[a-z0-9.-]{{1,253}}(?:/{SUPER_UID})?)"
    r"(?:\?[A-Za-z0-9._~%+&=-]*)?"
)
"""Targets that may ever reach a kubelet on behalf of the tenant namespace that SUPER stands for."""
READS = frozenset({"/stats/summary", "/metrics/resource", "/pods", "/runningpods"})
"""Targets about the whole node, with filtered answers. No word of the caller is in them."""

SEEDS = [
    b"/containerLogs/ns/pod/c?follow=true&tailLines=5",
    b"/exec/ns/pod/c?command=sh&command=-c&command=id&input=1&output=1&tty=1",
    f"/exec/ns/pod/{UID}/c?command=id".encode(),
    b"/attach/ns/pod.with.dots/c?output=1",
    b"/portForward/ns/pod?port=80%2C81",
    b"/run/ns/pod/c?cmd=cat%20/etc/hosts",
    b"/stats/summary?only_cpu_and_memory=true",
    b"/metrics/resource",
    b"/pods",
    b"/runningpods/",
    b"/healthz",
]
SCRAPS = [
    *(b"/", b"//", b"..", b".", b"%2f", b"%2F", b"%252f", b"%", b"%00", b"\\", b";", b"?", b"#"),
    *(b"@", b":", b" ", b"\t", b"\xc0\xaf", b"\xe2\x88\x95", b"+", b"&", b"=", b"pods", b"exec"),
    *(b"kube-system", SUPER.encode(), UID.encode(), b"http://", b"A", b"_", b"-", b"\n", b"\0"),
]


def render(route: Route) -> str:
    """Write a route as it goes to the kubelet."""
    return routes.render_kubelet_target(route, super_namespace=SUPER, super_uid=SUPER_UID)


def mutate(chance: random.Random, target: bytes) -> bytes:
    """Damage a target in a few places."""
    for _ in range(chance.randint(1, 4)):
        at, size = chance.randint(0, len(target)), chance.choice((0, 0, 1, 3, 8))
        scrap = chance.choice(SCRAPS) if chance.random() < 0.7 else chance.randbytes(2)
        target = target[:at] + scrap + target[at + size :]
    return target


def is_harmless(target: bytes) -> bool:
    """Return whether a target passes. A target that passes must be harmless."""
    method = b"POST" if b"run/" in target[:6] else b"GET"
    try:
        route = routes.parse_route(method, target)
    except RequestRefusedError:
        return False
    if route.verb is RouteVerb.HEALTH:
        return True
    if route.is_read:
        path, query = target.partition(b"?")[0].decode(), routes.append_query("", route)
        assert path.removesuffix("/") in READS
        assert query in ("", "?only_cpu_and_memory=true")
        return True
    written = render(route)
    assert WRITTEN.fullmatch(written), (target, written)
    path = target.partition(b"?")[0]
    assert b"%" not in path
    # Below, only the namespace and the UID are others.
    below = written.partition("?")[0].split("/")
    above = path.decode().split("/")
    assert len(below) == len(above)
    above[2] = SUPER
    if route.tenant_uid:
        above[4] = SUPER_UID
    assert below == above
    return True
