"""What joining writes, and what is told of targets."""

from datetime import UTC, datetime
from typing import get_args

import pytest
import yaml

from kubectl_vc import flags
from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.output.printers import Format
from kubectl_vc.target import confirm, doctor, drain, join, leave, listing, manifests
from kubectl_vc.target.manifests import There
from kubeio import errors
from kubeio.config import secret_kubeconfig
from kubeio.config.endpoint import Endpoint
from tenancy import super_clusters
from vcmanager.targets import required_permissions

HOME_UID = "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd"
PLAN = There(HOME_UID)


def wish(**more) -> join.Wish:
    usual = {
        "name": "c2",
        "kubeconfig": "",
        "context": "x",
        "server": "",
        "tls_server_name": "",
        "namespace": "vc-manager",
        "labels": {},
        "taints": [],
        "resolvers": [],
        "token_seconds": 0,
    }
    return join.Wish(**(usual | more))


def test_the_role_that_is_written_is_the_one_that_is_checked():
    made = [body for _, body in PLAN.objects(lasting=False) if body["kind"] == "ClusterRole"]
    roles = {each["metadata"]["name"]: each["rules"] for each in made}
    assert set(roles) == {PLAN.role, PLAN.agent_role}
    assert required_permissions.missing(required_permissions.needed(), roles[PLAN.role]) == []
    assert (
        required_permissions.missing(
            required_permissions.needed_by_agent("apiserver"), roles[PLAN.agent_role]
        )
        == []
    )


@pytest.mark.parametrize(("mode", "other"), [("apiserver", "agent"), ("agent", "apiserver")])
def test_the_agents_role_is_that_of_the_mode(mode, other):
    """nodes/proxy, the broadest right that there is, is granted where a kubelet is asked."""
    made = There(HOME_UID, mode).objects(lasting=False)
    (role,) = (
        body for _, body in made if body["metadata"]["name"] == PLAN.agent_role and "rules" in body
    )
    assert (
        required_permissions.missing(required_permissions.needed_by_agent(mode), role["rules"])
        == []
    )
    assert (
        required_permissions.missing(required_permissions.needed_by_agent(other), role["rules"])
        != []
    )
    titles = {each.title for each in required_permissions.rights_of(role["rules"])}
    assert ("nodes/proxy" in titles) is (mode == "agent")


def test_the_flag_has_the_modes_that_there_are():
    assert {each.value for each in flags.Mode} == {*get_args(super_clusters.Mode)}


@pytest.mark.parametrize(
    ("known", "wished", "mode"),
    [
        (None, None, "apiserver"),
        (None, "agent", "agent"),
        ({"spec": {}}, None, "apiserver"),
        ({"spec": {"mode": "agent"}}, None, "agent"),
        ({"spec": {"mode": "agent"}}, "apiserver", "apiserver"),
    ],
)
def test_who_joins_again_without_a_word_keeps_the_mode(known, wished, mode):
    assert join._mode(known, wish(mode=wished)) == mode


@pytest.mark.parametrize("known", [None, {"spec": {"mode": "apiserver"}}])
def test_an_authority_of_kubelets_that_nobody_asks_is_refused(known):
    with pytest.raises(CliProblem, match="add --mode agent"):
        join._mode(known, wish(kubelet_authorities=b"PEM"))
    asked = wish(kubelet_authorities=b"PEM", mode="agent")
    assert join._mode(known, asked) == "agent"


def test_a_name_leaves_room_for_what_its_node_is_called():
    assert manifests.checked_name("x" * 56)
    with pytest.raises(CliProblem, match="at most 56"):
        manifests.checked_name("x" * 57)


def test_the_agents_account_has_the_agents_rights_alone():
    """Logs and streams; and vc-manager may make tokens for that account and for no other."""
    made = PLAN.objects(lasting=False)
    bound = {
        body["roleRef"]["name"]: [each["name"] for each in body["subjects"]]
        for _, body in made
        if body["kind"].endswith("Binding")
    }
    assert bound == {
        PLAN.role: ["vc-syncer"],
        PLAN.agent_role: ["vn-agent"],
        "vn-agent-tokens": ["vc-syncer"],
    }
    (rule,) = next(body["rules"] for _, body in made if body["kind"] == "Role")
    assert rule["resources"] == ["serviceaccounts/token"]
    assert (rule["resourceNames"], rule["verbs"]) == (["vn-agent"], ["create"])
    needed = required_permissions.needed_by_agent("apiserver")
    granted = {each.title for each in needed}
    assert granted == {"pods", "pods/log", "pods/attach", "pods/exec", "pods/portforward"}
    assert {each.verb for each in needed if each.title == "pods"} == {"list"}


def test_what_is_made_there_bears_the_home_cluster():
    made = PLAN.objects(lasting=True)
    assert [body["kind"] for _, body in made] == [
        *("Namespace", "ServiceAccount", "ServiceAccount"),
        *("ClusterRole", "ClusterRoleBinding") * 2,
        *("Role", "RoleBinding", "Secret"),
    ]
    for resource, body in made:
        assert PLAN.is_ours(body["metadata"])
        assert not There("other").is_ours(body["metadata"])
        assert ("namespace" in body["metadata"]) is resource.namespaced
    assert {body["metadata"]["name"] for _, body in made} >= {"virtual-cluster-d64ea0c0"}
    assert PLAN.namespace == super_clusters.accounts_namespace(HOME_UID)
    assert There("another-uid").role != PLAN.role


def test_the_secret_holds_a_kubeconfig_that_vc_manager_takes():
    content = manifests.kubeconfig(
        "c2", server="https://10.0.0.5:6443", ca=b"CA", token="tok", tls_server_name="kubernetes"
    )
    endpoint = secret_kubeconfig.endpoint({manifests.KEY: content}, name="c2", key=manifests.KEY)
    assert (endpoint.server, endpoint.ca, endpoint.token, endpoint.tls_server_name) == (
        *("https://10.0.0.5:6443", b"CA", "tok", "kubernetes"),
    )


def test_the_super_cluster_is_one_that_can_be_read():
    taints = manifests.taints(["alibabacloud.com/eci:NoSchedule", "a=b:NoExecute"])
    made = manifests.super_cluster(
        "c2",
        mode="agent",
        labels=manifests.labels(["zone=z1", "e="]),
        taints=taints,
        resolvers=manifests.resolvers(["10.98.0.10", "fd00::a"]),
    )
    spec = super_clusters.parse_spec(made)
    assert spec.network.resolvers == ("10.98.0.10", "fd00::a")
    assert (spec.labels, spec.mode) == ({"zone": "z1", "e": ""}, "agent")
    assert [(each.key, each.value, each.effect) for each in spec.taints] == [
        ("alibabacloud.com/eci", "", "NoSchedule"),
        ("a", "b", "NoExecute"),
    ]
    assert spec.secret_ref is not None
    assert spec.secret_ref.name == manifests.secret_name("c2")


def test_a_resolver_is_an_address_and_the_doctor_tells_where_there_is_none():
    with pytest.raises(CliProblem, match="is not an IP address"):
        manifests.resolvers(["dns.example.com"])
    with pytest.raises(CliProblem, match="names an interface"):
        manifests.resolvers(["fe80::1%eth0"])
    with pytest.raises(CliProblem, match="3 at most"):
        manifests.resolvers([f"10.0.0.{number}" for number in range(4)])
    found = body(Ready="True")
    (note,) = [each for each in doctor.findings(found) if each.check == "Resolver"]
    assert (note.result, "--resolver" in note.message) == ("note", True)
    found["spec"]["network"]["resolvers"] = ["10.98.0.10"]
    assert "Resolver" not in results(found)
    assert "Resolver" not in results(body("home", Ready="True"))


def test_a_server_that_only_this_machine_reaches_is_refused_with_the_remedy():
    local = Endpoint(server="https://127.0.0.1:41235", ca=b"CA")
    with pytest.raises(CliProblem, match="--server"):
        join._as_seen_from_here(local, wish())
    found = join._as_seen_from_here(local, wish(server="https://c2-control-plane:6443"))
    assert found.server == "https://c2-control-plane:6443"
    with pytest.raises(CliProblem, match="certificate-authority-data"):
        join._as_seen_from_here(Endpoint(server="https://10.0.0.5"), wish())


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (
            errors.Forbidden("where: -", said="-"),
            "-; joining and leaving need somebody who may write namespaces and cluster roles there",
        ),
        (
            errors.Untrusted("expired"),
            "expired; check server and certificate-authority-data of its kubeconfig",
        ),
        (errors.NotSent("refused"), "refused"),
        (errors.Unauthorized("where: who", said="who"), "who"),
        (errors.CredentialsProblem("no PEM"), "no PEM"),
    ],
)
def test_an_error_of_the_other_cluster_has_its_own_remedy_or_none(problem, told):
    with pytest.raises(CliProblem) as raised, join.in_target():
        raise problem
    assert str(raised.value) == f"in the other cluster: {told}"


@pytest.mark.parametrize("server", ["https://[::1", "https://10.0.0.5:99999", "c2:6443"])
def test_a_server_that_is_no_url_is_a_sentence(server):
    with pytest.raises(errors.CredentialsProblem, match="like https"):
        join._as_seen_from_here(Endpoint(server="https://10.0.0.5", ca=b"CA"), wish(server=server))


def test_a_dry_run_shows_both_clusters_and_no_token():
    shown = Endpoint(server="https://10.0.0.5:6443", ca=b"CA", token="secret")
    text = join._described(PLAN, wish(), shown)
    there, here = text.split("# In this cluster:\n")
    assert [each["kind"] for each in yaml.safe_load_all(here)] == ["Secret", "SuperCluster"]
    assert len(list(yaml.safe_load_all(there))) == 10
    assert "token: TOKEN" in text


def body(name="c2", generation=1, flat=False, **conditions):
    return {
        "metadata": {
            "name": name,
            "generation": generation,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"secretRef": {"name": "target-c2"}, "network": {"reachable": flat}},
        "status": {
            "observedGeneration": 1,
            "version": "v1.36.4",
            "nodes": 3,
            "capacity": {"cpu": "12000m", "memory": "4096Mi"},
            "conditions": [
                {"type": kind, "status": status, "reason": "R", "message": f"about {kind}\nmore"}
                for kind, status in conditions.items()
            ],
        },
    }


def results(found) -> dict[str, str]:
    return {each.check: each.result for each in doctor.findings(found)}


def test_the_doctor_tells_each_condition():
    found = body(
        Ready="False",
        Reachable="True",
        Authorized="False",
        VersionSupported="Unknown",
        NetworksOverlap="False",
    )
    assert results(found) == {
        "Reachable": "ok",
        "Authorized": "wrong",
        "VersionSupported": "unknown",
        "NetworksOverlap": "ok",
        "Resolver": "note",
    }
    assert "c2     Authorized         wrong     about Authorized more" in doctor.table(
        doctor.findings(found)
    )


@pytest.mark.parametrize(
    ("status", "flat", "result"),
    [
        ("True", True, "wrong"),
        ("True", False, "note"),
        ("Unknown", True, "note"),
        ("False", True, "ok"),
    ],
)
def test_an_overlap_is_a_fault_where_networks_meet(status, flat, result):
    assert results(body(flat=flat, NetworksOverlap=status))["NetworksOverlap"] == result


def test_the_doctor_tells_when_nobody_looks():
    assert results({"metadata": {"name": "c2"}}) == {"Looked at": "unknown"}
    assert results(body(generation=2, Reachable="True"))["Looked at"] == "unknown"


def test_the_table_of_targets():
    now = datetime(2026, 1, 2, tzinfo=UTC)
    lines = listing.table(
        [body(Ready="True", Reachable="True"), {"metadata": {"name": "new"}}],
        now=now,
        form=Format.WIDE,
    ).splitlines()
    assert lines[0].split() == [
        *("NAME", "READY", "REACHABLE", "AUTHORIZED", "VERSION", "NODES", "CPU", "MEMORY"),
        *("OVERLAP", "SECRET", "MESSAGE", "AGE"),
    ]
    assert lines[1].split()[:8] == [
        *("c2", "True", "True", "Unknown", "v1.36.4", "3", "12000m", "4096Mi"),
    ]
    assert lines[2].split()[:4] == ["new", "Unknown", "Unknown", "Unknown"]


def cluster(name: str, spec=(), status=()):
    return {
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"targets": [{"name": each} for each in spec]},
        "status": {"targets": [{"name": each} for each in status]},
    }


def test_a_target_that_tenants_may_run_in_does_not_leave():
    nobody = drain.left_in("c2", [cluster("a", ["home"]), {"metadata": {}}])
    leave._refuse_while_named("c2", nobody)
    clusters = [cluster("a", ["home", "c2"]), cluster("b", status=["c2"]), cluster("c", ["c3"])]
    clusters[1]["status"]["targets"] = [{"name": "c2", "phase": "Draining", "pods": 1}]
    words = r"shop/a, shop/b \(Draining, 1 pod\) may run pods in c2"
    with pytest.raises(CliProblem, match=words):
        leave._refuse_while_named("c2", drain.left_in("c2", clusters))


class Home:
    """The home cluster, whose tenants have a pod less in c2 with each look at them."""

    def __init__(self, pods=2, reachable="True"):
        self.patched, self.pods, self.reachable = [], pods, reachable
        self.alone, self.both = cluster("a", ["c2"], ["c2"]), cluster("b", ["home", "c2"])
        for each in (self.alone, self.both):
            each["metadata"]["uid"] = "u"

    async def list(self, _):
        if self.patched:
            self.pods -= 1
            left = {"name": "c2", "phase": "Draining", "pods": self.pods}
            self.alone["status"]["targets"] = [left] if self.pods > 0 else []
        return {"items": [self.alone, self.both]}

    async def get(self, *_):
        return {"status": {"conditions": [{"type": "Reachable", "status": self.reachable}]}}

    async def patch(self, _, name, operations, **__):
        self.patched.append((name, operations[-1]["value"]))
        found = self.alone if name == "a" else self.both
        found["spec"]["targets"] = operations[-1]["value"]


class Told:
    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)

    warn = say


async def test_a_target_that_is_drained_is_taken_from_all_and_waited_for(monkeypatch):
    monkeypatch.setattr(drain, "_TICK", 0)
    here, told = Home(), Told()
    await drain.run(here, told, "c2", seconds=5, dry_run=True)
    assert here.patched == []
    await drain.run(here, told, "c2", seconds=5, dry_run=False)
    assert here.patched == [("a", []), ("b", [{"name": "home"}])]
    assert "runs in the home cluster from now on" in told.lines[-5]
    assert told.lines[-2] == "left in c2: shop/a (Draining, 1 pod)"
    assert [line for line in told.lines if "nobody would make anew" in line] == [told.lines[-1]]


async def test_what_does_not_go_in_time_is_told(monkeypatch):
    monkeypatch.setattr(drain, "_TICK", 0.001)
    silence = "c2 does not answer"
    for reachable in ("True", "False"):
        here = Home(10**9, reachable)
        with pytest.raises(
            CliProblem, match=r"shop/a \(Draining, .* still has something in c2"
        ) as e:
            await drain.run(here, Told(), "c2", seconds=0.05, dry_run=False)
        assert (silence in str(e.value)) is (reachable == "False")


def held(*listed):
    return {"metadata": {"name": "c2", "uid": "u"}, "status": {"conditions": [*listed]}}


def test_what_is_confirmed_is_what_the_condition_names():
    loss = {
        "type": "LossesHeld",
        "status": "True",
        "message": "5 of 5 (state 0123456789abcdef), so",
    }
    assert confirm.confirmed("c2", held(loss))[0] == "0123456789abcdef"
    answers = f"another cluster answers: its kube-system is {HOME_UID}, and that of the cluster"
    another = {"type": "Reachable", "status": "False", "reason": "IdentityChanged"}
    word, meant = confirm.confirmed("c2", held(loss, {**another, "message": answers}))
    assert word == HOME_UID
    assert HOME_UID in meant


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        ("False", "state 0123456789abcdef", "nothing is held for c2"),
        ("True", "5 of 5", "names no state"),
    ],
)
def test_without_a_loss_there_is_nothing_to_confirm(status, message, words):
    with pytest.raises(CliProblem, match=words):
        confirm.confirmed("c2", held({"type": "LossesHeld", "status": status, "message": message}))


def test_a_hold_is_something_that_a_doctor_finds():
    loss = {"type": "LossesHeld", "status": "True", "message": "m"}
    found, _resolver = doctor.findings(held(loss))
    assert (found.check, found.result) == ("LossesHeld", "wrong")
    found, _resolver = doctor.findings(held({**loss, "status": "False"}))
    assert found.result == "ok"
