import asyncio
import socket

import pytest

from kubeio import errors
from tenancy.resources import SELF_SUBJECT_RULES_REVIEWS
from vcmanager.targets import probe, required_permissions

FORBIDDEN = errors.Forbidden("no", status=403)
MISSING = errors.NotFound("no", status=404)


class FakeTarget:
    """The API of a probed cluster."""

    def __init__(self, *, pages=(), rules=(), allowed=(), kube_system=None, problem=None):
        self.pages = list(pages)
        self.rules, self.allowed = rules, allowed
        self.kube_system, self.problem = kube_system, problem
        self.reviews = self.lists = 0

    async def version(self):
        return "v1.36.4"

    async def get(self, *_, **__):
        if isinstance(self.kube_system, Exception):
            raise self.kube_system
        return self.kube_system

    async def list(self, resource, **options):
        if self.problem is not None:
            raise self.problem
        if resource.kind != "Node":
            return {"items": []}
        self.lists += 1
        number = int(options.get("continue_token") or 0)
        more = {"continue": str(number + 1)} if number + 1 < len(self.pages) else {}
        return {"items": self.pages[number] if self.pages else [], "metadata": more}

    async def create(self, resource, body):
        if resource is SELF_SUBJECT_RULES_REVIEWS:
            return {"status": {"resourceRules": self.rules}}
        self.reviews += 1
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": asked["resource"] in self.allowed}}


@pytest.mark.parametrize(
    ("kube_system", "identity"),
    [
        ({"metadata": {"uid": "u-1"}}, "u-1"),
        ({"metadata": {"uid": "u" * 500}}, "u" * probe.MAX_IDENTITY_LENGTH),
        ({}, ""),
        (FORBIDDEN, ""),
        (MISSING, ""),
    ],
    ids=["a UID", "a long one", "none", "not readable", "not there"],
)
async def test_identity_is_the_uid_of_kube_system(kube_system, identity):
    assert await probe.fetch_identity(FakeTarget(kube_system=kube_system)) == identity


async def test_cluster_that_does_not_answer_has_no_result():
    away = errors.Unavailable("away")
    with pytest.raises(errors.Unavailable):
        await probe.fetch_identity(FakeTarget(kube_system=away))
    with pytest.raises(errors.Unavailable):
        await probe.probe_target(FakeTarget(problem=away), version="v1.36.4", identity="u")


def node(number):
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {"cpu": "2", "memory": "1Gi"}, "conditions": ready}
    return {"metadata": {"name": f"n{number}"}, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("pages", "count", "lists"),
    [
        ([], 0, 1),
        ([[node(1)], [node(2), node(3)]], 3, 2),
        ([[node(number)] for number in range(90)], probe.MAX_PAGES, probe.MAX_PAGES),
    ],
    ids=["none", "two pages", "pages without end"],
)
async def test_nodes_are_read_in_pages(pages, count, lists):
    target = FakeTarget(pages=pages)
    found = await probe.probe_target(target, version="v1.36.4", identity="u")
    assert (found.nodes, target.lists) == (count, lists)


async def test_forbidden_lists_leave_the_inventory_empty():
    found = await probe.probe_target(FakeTarget(problem=FORBIDDEN), version="v", identity="u")
    assert (found.nodes, found.ranges.pods, found.ranges.services) == (0, (), ())


@pytest.mark.parametrize("lists_rules", [True, False])
async def test_right_is_missing_when_no_authorizer_allows_it(lists_rules):
    """An authorizer that lists no rules may allow the right all the same."""
    wanted = required_permissions.list_required()
    every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    target = FakeTarget(
        rules=[every] if lists_rules else [], allowed={each.resource for each in wanted}
    )
    assert await probe.list_missing_permissions(target, wanted) == []
    assert bool(target.reviews) is not lists_rules
    bare = FakeTarget()
    assert await probe.list_missing_permissions(bare, wanted) == list(wanted)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("127.0.1.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("10.0.0.5", ""),
        (None, ""),
    ],
    ids=["this machine", "a link-local address", "another machine", "an unknown name"],
)
async def test_name_of_a_server_is_looked_up_before_a_request(monkeypatch, address, problem):
    async def getaddrinfo(*_, **__):
        if address is None:
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 6443))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    found = await probe.check_server_is_remote("https://c2.example:6443")
    assert problem in found
    assert bool(found) is bool(problem)
