"""The allow-list of paths: every target is refused or rewritten from validated tokens."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.kubelet_targets import (
    SEEDS,
    SUPER,
    SUPER_UID,
    UID,
    is_harmless,
    mutate,
    render,
)
from vnagent.protocol import routes
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.routes import Route, RouteVerb

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
PODS = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
UIDS = st.uuids().map(str)


@given(LABELS, PODS, LABELS)
def test_logs_pass(namespace, pod, container):
    """The form that apiservers send is taken apart and put together below."""
    route = routes.parse_route(b"GET", f"/containerLogs/{namespace}/{pod}/{container}".encode())
    assert route == Route(
        verb=RouteVerb.LOGS, method="GET", tenant_namespace=namespace, pod=pod, container=container
    )
    assert render(route) == f"/containerLogs/{SUPER}/{pod}/{container}"


@given(
    st.sampled_from(["GET exec", "GET attach", "POST exec", "POST attach"]),
    LABELS,
    PODS,
    st.one_of(st.just(""), UIDS),
    LABELS,
)
def test_streams_pass_with_and_without_a_uid(how, namespace, pod, uid, container):
    """A UID in the path is the tenant's on the way in and the super pod's on the way out."""
    method, verb = how.split()
    middle = f"{pod}/{uid}" if uid else pod
    target = f"/{verb}/{namespace}/{middle}/{container}?command=id"
    route = routes.parse_route(method.encode(), target.encode())
    assert (route.method, route.tenant_uid, route.container) == (method, uid, container)
    assert route.is_upgrade
    below = f"{pod}/{SUPER_UID}" if uid else pod
    query = "?command=id" if verb == "exec" else ""
    assert render(route) == f"/{verb}/{SUPER}/{below}/{container}{query}"


def test_a_run_passes():
    """One command, as one text. Its words are the kubelet's to split."""
    route = routes.parse_route(b"POST", f"/run/ns/pod/{UID}/c?cmd=cat+/etc/hosts".encode())
    assert (route.verb, route.tenant_uid, route.is_upgrade) == (RouteVerb.RUN, UID, False)
    assert render(route) == f"/run/{SUPER}/pod/{SUPER_UID}/c?cmd=cat+%2Fetc%2Fhosts"
    for query in (b"", b"?cmd=", b"?cmd=id&cmd=sh", b"?command=id", b"?cmd=%00"):
        with pytest.raises(RequestRefusedError) as refused:
            routes.parse_route(b"POST", b"/run/ns/pod/c" + query)
        assert refused.value.reason is RefusalReason.BAD_QUERY


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        *(("/stats/summary", RouteVerb.STATS), ("/stats/summary/", RouteVerb.STATS)),
        *(
            ("/metrics/resource", RouteVerb.METRICS),
            ("/pods", RouteVerb.PODS),
            ("/pods/", RouteVerb.PODS),
        ),
        *(("/runningpods", RouteVerb.RUNNING_PODS), ("/runningpods/", RouteVerb.RUNNING_PODS)),
    ],
)
def test_reads_pass(path, verb):
    """They name no pod, and take no option but the summary's one."""
    assert routes.parse_route(b"GET", path.encode()) == Route(verb=verb, method="GET")
    assert routes.parse_route(b"GET", path.encode()).is_read
    asked = routes.parse_route(b"GET", f"{path}?only_cpu_and_memory=true&x=y".encode())
    wanted = "/x?only_cpu_and_memory=true" if verb is RouteVerb.STATS else "/x"
    assert routes.append_query("/x", asked) == wanted
    for method in (b"POST", b"HEAD", b"PUT"):
        with pytest.raises(RequestRefusedError) as refused:
            routes.parse_route(method, path.encode())
        assert refused.value.reason is RefusalReason.BAD_METHOD


def test_port_forward_and_health_pass():
    """The two routes without a container."""
    route = routes.parse_route(b"POST", f"/portForward/ns/pod/{UID}".encode())
    assert (route.pod, route.tenant_uid, route.container) == ("pod", UID, "")
    assert render(route) == f"/portForward/{SUPER}/pod/{SUPER_UID}"
    assert routes.parse_route(b"GET", b"/healthz") == Route(verb=RouteVerb.HEALTH, method="GET")


@pytest.mark.parametrize(
    "path",
    [
        *("/", "", "*", "/pods//", "/pods/ns", "/pod", "/runningpods//", "/runningPods", "/spec"),
        *("/spec/", "/stats", "/stats/", "/stats/container", "/stats/ns/pod/uid/c", "//pods"),
        *("/stats/summary//", "/stats/summary/ns", "/stats//summary", "/stats/%73ummary"),
        *("/metrics", "/metrics/", "/metrics/cadvisor", "/metrics/resource/", "/metrics/probes"),
        *("/metrics/slis", "/logs", "/logs/", "/logs/kubelet.log", "/configz", "/flagz"),
        *("/statusz", "/healthz/", "/healthz/ping", "/healthz/log", "/healthz/syncloop"),
        *("/cri/exec/token", "/checkpoint/ns/pod/c", "/debug/pprof", "/debug/pprof/profile"),
        *("/debug/flags/v", "/run/ns/pod", "/run/ns/pod/c/", "/run", "/exec", "/exec/ns/pod"),
        *("/containerLogs", "/containerLogs/ns/pod", f"/containerLogs/ns/pod/{UID}/c"),
        *("/portForward/ns", "/portForward/ns/pod/c", "/attach/ns/pod/uid/c/more"),
        *("/EXEC/ns/pod/c", "/containerlogs/ns/pod/c", "/ContainerLogs/ns/pod/c"),
        *("/api/v1/namespaces", "/containerLogs/ns/pod/c/", "//containerLogs/ns/pod/c"),
        *("/containerLogs//ns/pod/c", "/containerLogs/ns//c", "/containerLogs/./pod/c"),
        *("/containerLogs/../pod/c", "/containerLogs/ns/../c", "/containerLogs/ns/pod/.."),
        *("/containerLogs/ns/..%2f..%2fpods/c", "/containerLogs/ns/p%6fd/c", "/%65xec/ns/pod/c"),
        *("/containerLogs/ns%00/pod/c", "/containerLogs/ns/pod;a=b/c", "/containerLogs/ns/pod\\c"),
        *("/containerLogs/ns/pod/c#f", "/containerLogs/Ns/pod/c", "/containerLogs/n_s/pod/c"),
        *("/containerLogs/-ns/pod/c", "/containerLogs/ns-/pod/c", "/containerLogs/ns/.pod/c"),
        *("/containerLogs/ns/pod./c", "/containerLogs/ns/po..d/c", "/containerLogs/ns/pod/c.d"),
        *("/containerLogs/a.b/pod/c", f"/containerLogs/{'n' * 64}/pod/c"),
        *(f"/containerLogs/ns/{'p' * 254}/c", f"/containerLogs/ns/pod/{'c' * 64}"),
        *("http://kubelet/containerLogs/ns/pod/c", "https://x@y/pods", "kubelet:10250"),
        *("/containerLogs/ns/pod/c\n", "/containerLogs/ns/pod/c ", "/containerLogs/\xb2/pod/c"),
        "/containerLogs/ns/pod/" + "c" * 2000,
    ],
)
def test_everything_else_is_not_there(path):
    """SEC-04, SEC-07: the kubelet's other routes, and every odd way to spell ours."""
    for method in (b"GET", b"POST"):
        with pytest.raises(RequestRefusedError) as refused:
            routes.parse_route(method, path.encode())
        assert (refused.value.status, refused.value.reason) == (404, RefusalReason.NO_ROUTE)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "get", "PRI"])
def test_other_methods_are_refused(method):
    """A route takes the methods that the kubelet registers for it, and no others."""
    for path in ("/containerLogs/ns/pod/c", "/exec/ns/pod/c?command=id", "/healthz"):
        with pytest.raises(RequestRefusedError) as refused:
            routes.parse_route(method.encode(), path.encode())
        assert (refused.value.status, refused.value.reason) == (405, RefusalReason.BAD_METHOD)
    with pytest.raises(RequestRefusedError):
        routes.parse_route(b"POST", b"/containerLogs/ns/pod/c")


@pytest.mark.parametrize(
    ("namespace", "uid"),
    [("../../pods", SUPER_UID), ("a/b", SUPER_UID), ("", SUPER_UID), ("a%2f", SUPER_UID)]
    + [(SUPER, ""), (SUPER, "x/y"), (SUPER, SUPER_UID.upper())],
)
def test_odd_tokens_of_the_kubelet_are_not_joined(namespace, uid):
    """Names in the kubelet's own list are also checked before they become a path."""
    route = routes.parse_route(b"GET", b"/containerLogs/ns/pod/c")
    with pytest.raises(ValueError, match="is not allowed as"):
        routes.render_kubelet_target(route, super_namespace=namespace, super_uid=uid)


def test_damaged_targets_never_leave_the_namespace():
    """FIG-01: whatever is sent, nothing or the caller's own namespace goes to the kubelet."""
    chance = random.Random(20_261)  # noqa: S311 - no secret
    passed = sum(is_harmless(mutate(chance, chance.choice(SEEDS))) for _ in range(20_000))
    assert 500 < passed < 15_000  # the damage is neither harmless nor always fatal
    assert all(is_harmless(seed) for seed in SEEDS)


@settings(max_examples=400)
@given(st.binary(max_size=120))
def test_any_bytes_are_parsed_or_refused(target):
    """No target makes the parser fail in another way."""
    is_harmless(target)
    is_harmless(b"/" + target)


@settings(max_examples=400)
@given(st.sampled_from(SEEDS), st.binary(min_size=1, max_size=3), st.integers(0, 90))
def test_inserted_bytes_never_leave_the_namespace(seed, scrap, at):
    """As above, with shrinking when it fails."""
    assume(at <= len(seed))
    is_harmless(seed[:at] + scrap + seed[at:])
