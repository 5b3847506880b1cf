"""The owner of a pod: by the recorded UIDs, and never by a stale list alone."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from tenancy import names, wellknown
from vnagent.authz import pod_authorizer as gates
from vnagent.authz.client_identity import ClientIdentity
from vnagent.authz.pod_authorizer import PodAuthorizer, find_pod, read_pods
from vnagent.authz.pod_list_parser import PodListError
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.routes import Route, RouteVerb

ONE, TWO = "1111abcd-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"
UID = "aaaaaaaa-0000-4000-8000-000000000000"
SUPER_UID = "bbbbbbbb-0000-4000-8000-000000000000"


def caller(vc_uid: str = ONE, root: str = "default-b41df0-one") -> ClientIdentity:
    """Return a tenant."""
    return ClientIdentity(vc_uid, root, datetime.max.replace(tzinfo=UTC))


def route(verb: RouteVerb = RouteVerb.LOGS, **other: str) -> Route:
    """Return a route to the usual pod."""
    usual = {"tenant_namespace": "web", "pod": "shop", "container": "main"}
    return Route(verb=verb, method="GET", **(usual | other))


def pod(name: str = "shop", *, host_network: bool = False, **record: str | None):
    """Return a pod of the kubelet's list. None leaves a part of the record out."""
    usual = {
        wellknown.VC_UID: ONE,
        wellknown.UID: UID,
        wellknown.NAMESPACE: "web",
        wellknown.CONTAINERS: "main,init",
    }
    named = {f"{wellknown.DOMAIN}/{key}": value for key, value in record.items()}
    annotations = {key: value for key, value in (usual | named).items() if value is not None}
    return {
        "metadata": {
            "name": name,
            "namespace": "default-b41df0-one-web",
            "uid": SUPER_UID,
            "annotations": annotations,
        },
        "spec": {
            "containers": [{"name": "main"}, {"name": "mesh"}],
            **({"hostNetwork": True} if host_network else {}),
        },
    }


def listed(*pods) -> bytes:
    """Return a kubelet's answer."""
    return json.dumps({"kind": "PodList", "items": list(pods)}).encode()


def refusal(table, asked: Route, who: ClientIdentity | None = None) -> RefusalReason:
    """Return why a route is refused."""
    with pytest.raises(RequestRefusedError) as refused:
        find_pod(table, who or caller(), asked)
    return refused.value.reason


def test_the_owner_gets_in():
    """All parts of the record fit."""
    table = read_pods(listed(pod()))
    for asked in (route(), route(container="init"), route(RouteVerb.EXEC, tenant_uid=UID)):
        found = find_pod(table, caller(), asked)
        assert (found.super_namespace, found.super_uid) == ("default-b41df0-one-web", SUPER_UID)
    assert find_pod(table, caller(), route(RouteVerb.PORT_FORWARD, container="")).name == "shop"


@pytest.mark.parametrize(
    ("asked", "who", "reason"),
    [
        (route(), caller(TWO), RefusalReason.NOT_FOUND),
        (route(tenant_namespace="default-b41df0-one-web"), caller(), RefusalReason.NOT_FOUND),
        (route(tenant_namespace="one-web"), caller(), RefusalReason.NOT_FOUND),
        (route(pod="shop2"), caller(), RefusalReason.NOT_FOUND),
        (route(RouteVerb.EXEC, tenant_uid=SUPER_UID), caller(), RefusalReason.NOT_FOUND),
        (route(RouteVerb.EXEC, container="mesh"), caller(), RefusalReason.CONTAINER),
        (route(container=""), caller(), RefusalReason.CONTAINER),
        (route(container="main,init"), caller(), RefusalReason.CONTAINER),
    ],
)
def test_other_clients_do_not(asked, who, reason):
    """SEC-03, SEC-05: another tenant, a super name, another UID, a container that was injected."""
    assert refusal(read_pods(listed(pod())), asked, who) is reason


def test_no_way_to_split_a_super_namespace_leads_into_it():
    """SEC-03: tenants and namespaces whose names join to the same text, and the system's own."""
    roots = {ONE: "default-b41df0-one", TWO: "default-b41df0-one-web"}
    spaces = ("a", "web", "web-a", "one", "system", "kube-system")
    pods, homes = [], {}
    for vc_uid, root in roots.items():
        for space in spaces:
            home = names.build_super_namespace(root, vc_uid, space)
            homes[vc_uid, space] = home
            one = pod(vcuid=vc_uid, namespace=space)
            one["metadata"] |= {"namespace": home, "uid": f"{vc_uid}/{space}"}
            pods.append(one)
    for space in ("kube-system", "kube", "default"):
        bare = pod(vcuid=None, uid=None, namespace=None)
        bare["metadata"]["namespace"] = space
        pods.append(bare)
    table = read_pods(listed(*pods))
    tried = {space for (_, space) in homes}
    for home in {one["metadata"]["namespace"] for one in pods}:
        words = home.split("-")
        for at in range(len(words) + 1):
            tried |= {"-".join(words[:at]), "-".join(words[at:])}
    assert len(tried) > 40
    for vc_uid in (*roots, "33333333-0000-4000-8000-000000000000"):
        for space in tried:
            asked = route(tenant_namespace=space)
            if (vc_uid, space) in homes:
                found = find_pod(table, caller(vc_uid, roots[vc_uid]), asked)
                assert found.super_namespace == homes[vc_uid, space]
            else:
                assert refusal(table, asked, caller(vc_uid)) is RefusalReason.NOT_FOUND


@pytest.mark.parametrize(
    "record",
    [
        {"vcuid": None},
        {"vcuid": ""},
        {"uid": None},
        {"uid": ""},
        {"namespace": None},
        {"namespace": ""},
        {"vcuid": ONE.upper()},
        {"vcuid": ONE + " "},
    ],
)
def test_a_record_that_is_not_whole_belongs_to_no_tenant(record):
    """SEC-06: a pod that a person made in the tenant's super namespace."""
    table = read_pods(listed(pod(**record)))
    assert refusal(table, route()) is RefusalReason.NOT_FOUND
    assert refusal(table, route(tenant_namespace="")) is RefusalReason.NOT_FOUND


def test_labels_are_no_record():
    """Labels can be set by more hands than annotations of ours."""
    bare = pod(vcuid=None)
    bare["metadata"]["labels"] = {wellknown.VC_UID: ONE, wellknown.NAMESPACE: "web"}
    assert refusal(read_pods(listed(bare)), route()) is RefusalReason.NOT_FOUND


def test_without_a_list_of_containers_none_is_served():
    """Absence means nothing, never everything."""
    for containers in (None, "", ","):
        table = read_pods(listed(pod(containers=containers)))
        assert refusal(table, route()) is RefusalReason.CONTAINER
        assert refusal(table, route(container="")) is RefusalReason.CONTAINER


def test_two_pods_with_one_record_are_ambiguous():
    """Rather none than the wrong one."""
    second = pod()
    second["metadata"] |= {"uid": UID}
    assert refusal(read_pods(listed(pod(), second)), route()) is RefusalReason.AMBIGUOUS


async def test_the_pods_of_a_caller_are_its_own():
    """By super UID, of all its namespaces. What is recorded twice is no tenant's here as well."""
    lab, cart, again, guest = pod(namespace="lab"), pod("cart"), pod("cart"), pod("cart", vcuid=TWO)
    lab["metadata"]["namespace"] = "default-b41df0-one-lab"
    for number, one in enumerate((lab, cart, again, guest)):
        one["metadata"]["uid"] = f"uid-{number}"

    async def fetch() -> bytes:
        return listed(pod(), lab, cart, again, guest)

    gate = PodAuthorizer(fetch)
    found = await gate.list_owned(caller())
    assert {uid: one.tenant_namespace for uid, one in found.items()} == {
        SUPER_UID: "web",
        "uid-0": "lab",
    }
    assert list(await gate.list_owned(caller(TWO))) == ["uid-3"]
    assert await gate.list_owned(caller("33333333-0000-4000-8000-000000000000")) == {}


def test_ports_of_the_host_are_out_of_reach():
    """SEC-16: but its logs are not."""
    table = read_pods(listed(pod(host_network=True)))
    assert refusal(table, route(RouteVerb.PORT_FORWARD, container="")) is RefusalReason.HOST_NETWORK
    assert find_pod(table, caller(), route())


@pytest.mark.parametrize(
    "document",
    [b"", b"{", b"[]", b"null", b"{}", b'{"items": 5}', b'{"items": [5]}', b'{"items": [{}]}']
    + [b'{"items": [{"metadata": {}}]}', b'{"items": [{"metadata": null, "spec": {}}]}'],
)
def test_what_is_no_list_is_noticed(document):
    """It would look like an empty node."""
    with pytest.raises(PodListError):
        read_pods(document)


def test_an_empty_node_has_no_pods():
    """Go writes null for an empty list."""
    assert read_pods(b'{"items": null}') == {}


class CountingKubelet:
    """Gives lists, and counts how often."""

    def __init__(self, *answers: bytes | RequestRefusedError) -> None:
        self.answers = list(answers)
        self.calls = 0

    async def fetch(self) -> bytes:
        """Return the next answer. The last one goes on."""
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        self.calls += 1
        await asyncio.sleep(0.01)
        if isinstance(answer, RequestRefusedError):
            raise answer
        return answer


async def test_a_fresh_list_serves_many():
    """The kubelet is not asked for each stream."""
    kubelet = CountingKubelet(listed(pod()))
    gate = PodAuthorizer(kubelet.fetch)
    for _ in range(20):
        await gate.authorize(caller(), route())
    assert kubelet.calls == 1


async def test_only_a_current_list_can_refuse(monkeypatch):
    """SEC-17: who is not on this node's own list is not there. One that came is found at once."""
    monkeypatch.setattr(gates, "MIN_LIST_INTERVAL_SECONDS", 0.0)
    kubelet = CountingKubelet(listed(), listed(pod()))
    gate = PodAuthorizer(kubelet.fetch)
    with pytest.raises(RequestRefusedError):
        await gate.authorize(caller(), route())
    assert kubelet.calls == 1  # that list was asked for after the request came
    await gate.authorize(caller(), route())
    assert kubelet.calls == 2


async def test_a_recent_list_can_allow(monkeypatch):
    """SEC-06: a pod that was replaced by hand is not served for longer than the list is fresh."""
    monkeypatch.setattr(gates, "MIN_LIST_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(gates, "MAX_LIST_AGE_SECONDS", 0.05)
    kubelet = CountingKubelet(listed(pod()), listed(pod(vcuid=None)))
    gate = PodAuthorizer(kubelet.fetch)
    await gate.authorize(caller(), route())
    await asyncio.sleep(0.06)
    with pytest.raises(RequestRefusedError):
        await gate.authorize(caller(), route())


async def test_a_flood_of_misses_does_not_flood_the_kubelet(monkeypatch):
    """Callers share lists, and lists keep a distance."""
    monkeypatch.setattr(gates, "MIN_LIST_INTERVAL_SECONDS", 0.1)
    kubelet = CountingKubelet(listed(pod()))
    gate = PodAuthorizer(kubelet.fetch)
    misses = [gate.authorize(caller(), route(pod=f"none-{i}")) for i in range(200)]
    answers = await asyncio.gather(*misses, return_exceptions=True)
    assert all(isinstance(answer, RequestRefusedError) for answer in answers)
    assert kubelet.calls <= 2


async def test_misses_one_after_the_other_keep_a_distance(monkeypatch):
    """Each asks again, but not at any speed."""
    monkeypatch.setattr(gates, "MIN_LIST_INTERVAL_SECONDS", 0.1)
    kubelet = CountingKubelet(listed())
    gate = PodAuthorizer(kubelet.fetch)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(4):
        with pytest.raises(RequestRefusedError):
            await gate.authorize(caller(), route())
    assert kubelet.calls == 4
    assert loop.time() - began >= 0.29


async def test_a_miss_does_not_hold_up_who_is_found(monkeypatch):
    """While a list is being waited for, the last one still serves."""
    monkeypatch.setattr(gates, "MIN_LIST_INTERVAL_SECONDS", 60.0)
    gate = PodAuthorizer(CountingKubelet(listed(pod())).fetch)
    await gate.authorize(caller(), route())
    stuck = asyncio.ensure_future(gate.authorize(caller(TWO), route()))
    await asyncio.sleep(0.01)
    async with asyncio.timeout(1):
        await gate.authorize(caller(), route())
    stuck.cancel()


async def test_a_kubelet_that_fails_is_not_asked_at_any_speed(monkeypatch):
    """Lists keep a distance whatever becomes of them."""
    monkeypatch.setattr(gates, "MIN_LIST_INTERVAL_SECONDS", 60.0)
    down = RequestRefusedError(502, RefusalReason.KUBELET_DOWN, "down")
    kubelet = CountingKubelet(down, listed(pod()))
    gate = PodAuthorizer(kubelet.fetch)
    with pytest.raises(RequestRefusedError):
        await gate.authorize(caller(), route())
    again = asyncio.ensure_future(gate.authorize(caller(), route()))
    await asyncio.sleep(0.01)
    assert kubelet.calls == 1
    again.cancel()


async def test_a_kubelet_that_is_down_is_asked_once_for_all_that_wait(monkeypatch):
    """One after the other, each with its own timeout, they would wait for hours."""
    monkeypatch.setattr(gates, "MIN_LIST_INTERVAL_SECONDS", 0.0)
    down = RequestRefusedError(504, RefusalReason.KUBELET_DOWN, "down")
    kubelet = CountingKubelet(down, down, listed(pod()))
    gate = PodAuthorizer(kubelet.fetch)
    waiting = [gate.authorize(caller(), route()) for _ in range(50)]
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert answers == [down] * 50
    assert kubelet.calls == 1
    with pytest.raises(RequestRefusedError):
        await gate.authorize(caller(), route())
    await gate.authorize(caller(), route())


async def test_who_goes_away_while_it_asks_leaves_no_old_failure_behind(monkeypatch):
    """The next in line asks for itself, and is not told of a kubelet that was down before."""
    monkeypatch.setattr(gates, "MIN_LIST_INTERVAL_SECONDS", 0.0)
    kubelet = CountingKubelet(
        RequestRefusedError(504, RefusalReason.KUBELET_DOWN, "down"), listed(pod())
    )
    gate = PodAuthorizer(kubelet.fetch)
    with pytest.raises(RequestRefusedError):
        await gate.authorize(caller(), route())
    asking = asyncio.ensure_future(gate.authorize(caller(), route()))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(gate.authorize(caller(), route()))
    await asyncio.sleep(0.005)
    assert kubelet.calls == 2
    asking.cancel()
    assert (await waiting).name == pod()["metadata"]["name"]


async def test_a_list_that_cannot_be_read_is_the_kubelets_fault(monkeypatch):
    """502, and the next request asks again."""
    monkeypatch.setattr(gates, "MIN_LIST_INTERVAL_SECONDS", 0.0)
    gate = PodAuthorizer(CountingKubelet(b"<html>", listed(pod())).fetch)
    with pytest.raises(RequestRefusedError) as refused:
        await gate.authorize(caller(), route())
    assert (refused.value.status, refused.value.reason) == (502, RefusalReason.KUBELET_ODD)
    await gate.authorize(caller(), route())


def test_a_copied_record_outside_the_tenants_namespace_changes_nothing():
    """SEC-231: a copy in another namespace neither hides the pod nor is served in its place."""
    copy = pod(uid=UID)
    copy["metadata"]["namespace"], copy["metadata"]["uid"] = "elsewhere", "another"
    table = read_pods(listed(pod(), copy))
    assert find_pod(table, caller(), route()).super_uid == SUPER_UID
    assert refusal(read_pods(listed(copy)), route()) is RefusalReason.NOT_FOUND
