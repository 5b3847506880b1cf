"""The kubelet's calls in the API's words: golden vectors, by way of the real parser."""

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnagent.protocol import routes, subresources
from vnagent.protocol.queries import render_query as written

SPACE = "default-b41df0-one-web"
PODS = f"/api/v1/namespaces/{SPACE}/pods/shop"

GOLDEN = [
    ("GET", "/containerLogs/web/shop/main", "log?container=main"),
    (
        "GET",
        "/containerLogs/web/shop/main?follow=true&tailLines=7&limitBytes=9",
        "log?container=main&follow=true&tailLines=7&limitBytes=9",
    ),
    (
        "GET",
        "/containerLogs/web/shop/main?previous=1&timestamps=true&sinceSeconds=30&follow=false",
        "log?container=main&previous=true&timestamps=true&sinceSeconds=30",
    ),
    (
        "GET",
        "/containerLogs/web/shop/main?sinceTime=2026-01-02T15%3A04%3A05%2B02%3A00&tailLines=0",
        "log?container=main&sinceTime=2026-01-02T15%3A04%3A05%2B02%3A00&tailLines=0",
    ),
    ("GET", "/containerLogs/web/shop/main?stream=All", "log?container=main"),
    ("GET", "/containerLogs/web/shop/main?stream=Stderr", "log?container=main&stream=Stderr"),
    (
        "GET",
        "/containerLogs/web/shop/main?insecureSkipTLSVerifyBackend=true&container=mesh",
        "log?container=main",
    ),
    (
        "POST",
        "/exec/web/shop/main?input=1&output=1&tty=1&command=sh&command=-c&command=a+b%26c",
        "exec?container=main&stdin=true&stdout=true&tty=true&command=sh&command=-c&command=a+b%26c",
    ),
    (
        "GET",
        "/exec/web/shop/aaaaaaaa-0000-4000-8000-000000000000/main?command=id&output=1&error=1",
        "exec?container=main&stdout=true&stderr=true&command=id",
    ),
    ("POST", "/exec/web/shop/main?command=id&input=0&tty=false", "exec?container=main&command=id"),
    (
        "POST",
        "/attach/web/shop/main?input=1&output=1&error=1",
        "attach?container=main&stdin=true&stdout=true&stderr=true",
    ),
    ("POST", "/attach/web/shop/main", "attach?container=main"),
    ("POST", "/portForward/web/shop", "portforward"),
    ("GET", "/portForward/web/shop?port=80,8080", "portforward?ports=80&ports=8080"),
    ("GET", "/portForward/web/shop?port=80&port=443", "portforward?ports=80&ports=443"),
]


@pytest.mark.parametrize(("method", "raw", "wanted"), GOLDEN)
def test_each_option_has_its_name_in_the_api(method, raw, wanted):
    """The kubelet's request on the left, the API server's on the right."""
    route = routes.parse_route(method.encode(), raw.encode())
    assert subresources.render_api_target(route, SPACE) == f"{PODS}/{wanted}"


def test_no_route_is_forgotten():
    """Each verb has golden vectors, or is known to have no subresource."""
    rendered = {routes.parse_route(method.encode(), raw.encode()).verb for method, raw, _ in GOLDEN}
    absent = {
        routes.RouteVerb.RUN,
        routes.RouteVerb.STATS,
        routes.RouteVerb.METRICS,
        routes.RouteVerb.PODS,
        routes.RouteVerb.RUNNING_PODS,
        routes.RouteVerb.HEALTH,
    }
    assert rendered | absent == set(routes.RouteVerb)
    assert not rendered & absent
    for verb in absent:
        assert subresources.render_api_target(routes.Route(verb=verb, method="GET"), SPACE) is None


def test_every_option_that_the_parser_lets_through_is_in_the_table():
    """Otherwise a request would end in a KeyError instead of an answer."""
    logs = b"follow=1&previous=1&timestamps=1&tailLines=1&limitBytes=1&stream=Stdout"
    streams = b"input=1&output=1&error=1&tty=1&command=x"
    for method, path, query in (
        (b"GET", b"/containerLogs/web/shop/main", logs + b"&sinceSeconds=1"),
        (b"GET", b"/containerLogs/web/shop/main", logs + b"&sinceTime=2026-01-02T15:04:05Z"),
        (b"POST", b"/exec/web/shop/main", streams),
        (b"POST", b"/attach/web/shop/main", streams),
        (b"POST", b"/portForward/web/shop", b"port=1"),
    ):
        route = routes.parse_route(method, path + b"?" + query)
        assert len(route.query) >= 1
        assert subresources.render_api_target(route, SPACE)


@pytest.mark.parametrize("space", ["", "..", "a/b", "kube-system?", "a%2fb", "A", "a" * 64])
def test_a_path_is_made_of_names_alone(space):
    """A list that lies about a namespace leads nowhere."""
    route = routes.parse_route(b"GET", b"/containerLogs/web/shop/main")
    with pytest.raises(ValueError, match="is not allowed as"):
        subresources.render_api_target(route, space)


def test_the_list_is_of_one_node_and_as_fresh_as_the_store():
    """No resourceVersion: 0 would let a cache answer with what was long ago."""
    assert (
        subresources.build_node_pods_target("node-1")
        == "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1"
    )
    assert "resourceVersion" not in subresources.build_node_pods_target("node-1")


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1))
def test_commands_stay_what_they_are(words):
    """SEC-10: no word becomes an option, a container or another path."""
    query = written(tuple(("command", word) for word in words))
    route = routes.parse_route(b"POST", f"/exec/web/shop/main?{query}".encode())
    target = subresources.render_api_target(route, SPACE)
    assert target is not None
    parts = urlsplit(target)
    assert parts.path == f"{PODS}/exec"
    pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)
    assert pairs == [("container", "main"), *(("command", word) for word in words)]
