"""The context that `connect` adds, and what `disconnect` leaves."""

import pytest

from kubectl_vc.connect import contexts
from kubectl_vc.connect.contexts import ConnectionRecord, TenantAccess

MINE = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [{"name": "home", "cluster": {"server": "https://a", "extensions": [{"x": 1}]}}],
    "users": [{"name": "ann", "user": {"exec": {"command": "login"}}}],
    "contexts": [{"name": "home", "context": {"cluster": "home", "user": "ann"}}],
    "current-context": "home",
}
ACCESS = TenantAccess(
    cluster={"server": "https://10.0.0.5:30443", "certificate-authority-data": "Y2E="},
    user={"token": "t"},
)


def record(previous: str = "home", **fields: str) -> ConnectionRecord:
    return ConnectionRecord(
        **{"superContext": "home", "namespace": "default", "name": "web", **fields},
        previousContext=previous,
    )


def test_connect_and_disconnect_leave_everything_else_as_it_was():
    added = contexts.add_connection(MINE, "vc_default_web_home", ACCESS, record())
    assert added["current-context"] == "vc_default_web_home"
    assert added["preferences"] == MINE["preferences"]
    assert added["clusters"][0] == MINE["clusters"][0]
    assert added["clusters"][1]["cluster"] == ACCESS.cluster
    assert contexts.read_record(added, "vc_default_web_home") == record()
    assert contexts.remove_connection(added, "vc_default_web_home", ["home"]) == MINE


def test_a_second_connect_keeps_the_first_previous_context():
    once = contexts.add_connection(MINE, "a", ACCESS, record())
    twice = contexts.add_connection(once, "a", ACCESS, record("", forwarder="f"))
    found = contexts.read_record(twice, "a")
    assert found is not None
    assert (found.previousContext, found.forwarder) == ("home", "f")
    assert [each["name"] for each in twice["contexts"]] == ["home", "a"]


def test_connections_from_connections_end_in_any_order():
    both = contexts.add_connection(
        contexts.add_connection(MINE, "a", ACCESS, record()), "b", ACCESS, record("a", name="shop")
    )
    inner = contexts.remove_connection(both, "b", ["home", "a"])
    assert inner["current-context"] == "a"
    assert contexts.remove_connection(inner, "a", ["home"]) == MINE
    outer = contexts.remove_connection(both, "a", ["home", "b"])
    assert outer["current-context"] == "b"
    assert contexts.remove_connection(outer, "b", ["home"]) == MINE


def test_a_previous_context_that_no_longer_exists_is_not_restored():
    added = contexts.add_connection({}, "a", ACCESS, record("gone"))
    assert contexts.remove_connection(added, "a", [])["current-context"] == ""


def test_another_current_context_stays():
    added = contexts.add_connection(MINE, "a", ACCESS, record())
    moved = {**added, "current-context": "home"}
    assert contexts.remove_connection(moved, "a", ["home"]) == MINE


def test_only_contexts_with_a_record_are_found():
    assert contexts.read_record(MINE, "home") is None
    assert contexts.find_connection(MINE, "", "web") == ""
    added = contexts.add_connection(MINE, "a", ACCESS, record())
    assert contexts.find_connection(added, "", "web") == "a"
    assert contexts.find_connection(added, "default", "web") == "a"
    assert contexts.find_connection(added, "other", "web") == ""


@pytest.mark.parametrize(
    ("cluster", "verified"),
    [
        ({"server": "https://10.0.0.5:30443"}, "10.0.0.5"),
        ({"server": "https://web.example:443/"}, "web.example"),
        ({"server": "https://x", "tls-server-name": "kubernetes"}, "kubernetes"),
        ({"server": "https://[fd00::1]:6443"}, "fd00::1"),
    ],
)
def test_a_forwarded_server_is_verified_by_its_own_name(cluster, verified):
    found = contexts.redirect(TenantAccess(cluster=cluster, user={}), 4711)
    assert found.cluster["server"] == "https://127.0.0.1:4711"
    assert found.cluster["tls-server-name"] == verified


def test_names_of_contexts():
    assert contexts.build_context_name("default", "web", "kind") == "vc_default_web_kind"
    assert contexts.build_context_name("default", "web", "") == "vc_default_web"
