"""What the agent of a target is made of, where its credential comes from, and what is said."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import trustme

from kubeio import errors
from kubeio.endpoint import Endpoint
from tenancy import marks
from tests.unit.vcmanager.factories import NOW, Recorder, fake_means
from vcmanager import __main__, keys
from vcmanager.keys import Key
from vcmanager.means import Means
from vcmanager.targets import agent_objects, agents, probe, rights
from vcmanager.targets.agent_objects import AgentPods, Post, Servers
from vcmanager.targets.agents import Ground
from vcmanager.targets.judgement import Said
from vcmanager.targets.rights import Right
from vnagent import choice, settings

HOME_UID = "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd"
UID = "cccccccc-0000-4000-8000-000000000000"
TITLE = "vn-agent-target-c2"
SECRET, DEPLOYMENT = f"Secret/{TITLE}", f"Deployment/{TITLE}"
PODS = AgentPods(image="registry.example/vn-agent:1")
THERE = Endpoint(server="https://10.0.0.5:6443", ca=b"CA", token="account-token", strict=False)
DAY = timedelta(days=1)


class Home(Recorder):
    """The home cluster, where a Secret and a Deployment have one name."""

    async def get(self, resource: Any, name: str, **_: Any) -> dict[str, Any]:
        return await super().get(resource, f"{resource.kind}/{name}")

    async def apply(self, resource: Any, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        name = f"{resource.kind}/{body['metadata']['name']}"
        self._write("apply", name, body)
        uid = f"uid-{name}"
        kept = {"metadata": {**body["metadata"], "uid": uid}}
        status = {"status": self.objects.get(name, {}).get("status", {})}
        self.objects[name] = {**body, **kept, **status}
        return self.objects[name]

    async def delete(self, resource: Any, name: str, *, uid: str = "", **_: Any) -> None:
        name = f"{resource.kind}/{name}"
        assert self.objects[name]["metadata"]["uid"] == uid
        self._write("delete", name, {})
        del self.objects[name]

    @property
    def token(self) -> str | None:
        """Return the token that agents have."""
        if SECRET not in self.objects:
            return None
        (token,) = [text for key, text in self.data().items() if key.startswith("token-")]
        return token.decode()

    def data(self) -> dict[str, bytes]:
        """Return what the Secret has."""
        data = self.objects[SECRET]["data"]
        return {key: base64.b64decode(value) for key, value in data.items()}

    def mounted(self) -> dict[str, bytes]:
        """Play kubelet: return the files that pods made now would have of the Secret."""
        volumes = self.template()["spec"]["volumes"]
        (secret,) = [each["secret"] for each in volumes if each["name"] == "target"]
        assert (secret["secretName"], secret["optional"]) == (TITLE, True)
        data = self.data() if SECRET in self.objects else {}
        return {each["path"]: data[each["key"]] for each in secret["items"] if each["key"] in data}

    def runs(self, ready: int = 1) -> None:
        """Let the pods be ready."""
        self.objects[DEPLOYMENT]["status"] = {"readyReplicas": ready}

    def template(self) -> dict[str, Any]:
        """Return what pods are made of."""
        return self.objects[DEPLOYMENT]["spec"]["template"]


class There:
    """The target, which makes tokens."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.problem: Exception | None = None
        self.answer: Any = None
        self.lasts = DAY

    async def create(self, _: Any, body: Any, *, namespace: str, name: str, subresource: str):
        self.asked.append((namespace, name, subresource))
        assert body["kind"] == "TokenRequest"
        if self.problem is not None:
            raise self.problem
        if self.answer is not None:
            return self.answer
        ends = (NOW + self.lasts).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"status": {"token": f"made-{len(self.asked)}", "expirationTimestamp": ends}}


class Yard:
    """One target and its agent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.there = Home(), There()
        self.means: Means = fake_means(self.home, agent_pods=PODS)
        self.ground = Ground(
            name="c2",
            uid=UID,
            endpoint=THERE,
            client=self.there,
            home=HOME_UID,  # type: ignore[arg-type]
        )
        self.lacking: list[Right] = []
        self.wanted: list[Any] = []
        self.looked: list[Endpoint] = []
        self.look_problem: Exception | None = None

        @asynccontextmanager
        async def opened(_: Any, endpoint: Endpoint):
            self.looked.append(endpoint)
            yield "client"

        async def lacking(_: Any, wanted: Any) -> list[Right]:
            self.wanted.append(wanted)
            if self.look_problem is not None:
                raise self.look_problem
            return self.lacking

        monkeypatch.setattr(type(self.means.targets), "opened", opened)
        monkeypatch.setattr(probe, "lacking", lacking)

    async def keep(self, **other: Any) -> Said:
        return await agents.keep(self.means, replace(self.ground, **other))

    def later(self, time: timedelta) -> None:
        self.means = replace(self.means, now=lambda: NOW + time)


@pytest.fixture
def yard(monkeypatch) -> Yard:
    return Yard(monkeypatch)


async def test_a_token_is_made_there_and_an_agent_here(yard):
    said = await yard.keep()
    assert said[:2] == ("False", "NotRunning")
    assert yard.there.asked == [("virtual-cluster-d64ea0c0", "vn-agent", "token")]
    assert yard.home.calls == [("apply", SECRET), ("apply", DEPLOYMENT)]
    assert yard.home.token == "made-1"
    yard.home.runs()
    assert (await yard.keep())[:2] == ("True", "Serves")


async def test_at_rest_nothing_is_written_and_nothing_asked(yard):
    await yard.keep()
    yard.home.runs()
    yard.home.calls.clear()
    for _ in range(3):
        await yard.keep()
    assert yard.home.calls == []
    assert (len(yard.there.asked), len(yard.looked)) == (1, 1)


async def test_the_account_of_the_components_stays_out_of_it(yard):
    """The Secret has the token that was made and the authority; nothing else of the endpoint."""
    await yard.keep()
    assert yard.home.mounted() == {"token": b"made-1", "ca.crt": b"CA"}
    assert len(yard.home.data()) == 2
    assert b"account-token" not in msgspec.json.encode(yard.home.bodies)
    (looked,) = yard.looked
    assert (looked.token, looked.server, looked.client_cert) == ("made-1", THERE.server, b"")


async def test_it_is_renewed_at_half_of_its_life_without_a_rollout(yard):
    await yard.keep()
    template = yard.home.template()
    yard.later(DAY * 0.49)
    await yard.keep()
    assert yard.home.token == "made-1"
    yard.there.lasts = 2 * DAY
    yard.later(DAY * 0.51)
    await yard.keep()
    assert yard.home.token == "made-2"
    assert yard.home.template() == template


@pytest.mark.parametrize(
    ("problem", "reason", "words"),
    [
        (errors.NotFound("x"), "NoAccount", "virtual-cluster-d64ea0c0/vn-agent there is missing"),
        (errors.Forbidden("x"), "MissingRights", "serviceaccounts/token: create"),
        (errors.Timeout("slow"), "TokenNotMade", "slow"),
    ],
)
async def test_without_a_token_the_agent_runs_and_says_so(yard, problem, reason, words):
    """And what to do about it is in the condition."""
    yard.there.problem = problem
    said = await yard.keep()
    assert said[:2] == ("False", reason)
    assert words in said[2]
    if reason != "TokenNotMade":
        assert "kubectl vc target join c2" in said[2]
    assert yard.home.token is None
    before = yard.home.template()
    assert before["metadata"]["annotations"][marks.SECRETS_DIGEST] == agent_objects.NO_CREDENTIAL
    yard.there.problem = None
    await yard.keep()
    assert yard.home.token == "made-2"
    assert yard.home.template() != before


async def test_a_token_that_holds_is_kept_while_there_is_no_other(yard):
    """It is told before it ends, and taken away when it has ended."""
    await yard.keep()
    yard.home.runs()
    yard.there.problem = errors.Forbidden("x")
    yard.later(DAY * 0.6)
    status, reason, message = await yard.keep()
    assert (status, reason) == ("False", "MissingRights")
    assert "ends on 2026-03-02T12:00:00Z" in message
    assert yard.home.token == "made-1"
    yard.later(DAY)
    await yard.keep()
    assert yard.home.token is None


async def test_a_target_that_is_away_keeps_its_agent(yard):
    await yard.keep()
    yard.home.runs()
    yard.home.calls.clear()
    assert (await yard.keep(client=None))[:2] == ("Unknown", "NotReached")
    yard.later(DAY * 0.9)
    assert (await yard.keep(client=None))[:2] == ("Unknown", "NotReached")
    assert yard.home.calls == []


async def test_a_credential_that_was_taken_away_is_used_no_longer(yard):
    """Neither in the Secret nor by a pod that has read it."""
    await yard.keep()
    yard.home.runs()
    before = yard.home.template()
    said = await yard.keep(endpoint=None, client=None)
    assert said[:2] == ("False", "NoCredential")
    assert yard.home.token is None
    assert yard.home.template()["metadata"]["annotations"] != before["metadata"]["annotations"]
    env = yard.home.template()["spec"]["containers"][0]["env"]
    assert {"name": "TARGET_SERVER", "value": agent_objects.NOWHERE} in env


@pytest.mark.parametrize(
    "other",
    [
        replace(THERE, server="https://10.0.0.6:6443"),
        replace(THERE, ca=b"another"),
        replace(THERE, tls_server_name="far"),
    ],
)
async def test_a_token_for_one_server_is_not_shown_to_another(yard, other):
    """Not even while the other one is not reached."""
    await yard.keep()
    await yard.keep(endpoint=other, client=None)
    assert yard.home.token is None
    await yard.keep(endpoint=other)
    assert yard.home.token == "made-2"
    env = {each["name"]: each.get("value") for each in _container(yard)["env"]}
    assert env["TARGET_SERVER"] == other.server
    assert env.get("TARGET_SERVER_NAME", "") == other.tls_server_name


async def test_an_endpoint_without_an_authority_is_none_for_agents(yard):
    said = await yard.keep(endpoint=replace(THERE, ca=b""))
    assert said[:2] == ("False", "NoAuthority")
    assert (yard.home.token, yard.there.asked) == (None, [])


async def test_missing_rights_are_named_and_looked_at_again(yard):
    yard.lacking = [Right("", "pods/exec", "create"), Right("", "pods/exec", "get")]
    status, reason, message = await yard.keep()
    assert (status, reason) == ("False", "MissingRights")
    assert "pods/exec: create, get" in message
    yard.lacking = []
    yard.home.runs()
    assert (await yard.keep())[1] == "MissingRights", "not asked about with each look"
    yard.later(timedelta(seconds=agents.UNWELL_LOOK_SECONDS))
    assert (await yard.keep())[1] == "Serves"


async def test_a_token_that_is_not_taken_is_said(yard):
    yard.look_problem = errors.Unauthorized("no")
    assert (await yard.keep())[:2] == ("False", "NotAccepted")


ENDS = "2026-03-02T12:00:00Z"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"status": None},
        {"status": {"token": "t"}},
        {"status": {"token": "", "expirationTimestamp": ENDS}},
        {"status": {"token": "a\nb", "expirationTimestamp": ENDS}},
        {"status": {"token": "a" * 20_000, "expirationTimestamp": ENDS}},
        {"status": {"token": ["t"], "expirationTimestamp": ENDS}},
        {"status": {"token": "t", "expirationTimestamp": "soon"}},
        {"status": {"token": "t", "expirationTimestamp": "2026-03-02T12:00:00"}},
        {"status": {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}},
        {"status": "odd"},
    ],
)
async def test_what_is_no_token_is_not_written(yard, answer):
    """The other side may be anybody."""
    yard.there.answer = answer
    assert (await yard.keep())[:2] == ("False", "TokenNotMade")
    assert yard.home.token is None


async def test_an_answer_that_lasts_for_years_is_renewed_as_any_other(yard):
    yard.there.lasts = 1000 * DAY
    await yard.keep()
    yard.later(DAY * 0.51)
    await yard.keep()
    assert yard.home.token == "made-2"


async def test_a_token_of_an_account_that_was_made_anew_is_replaced(yard):
    """Who removes an account takes back what it may do; joining makes another of its name."""
    await yard.keep()
    yard.look_problem = errors.Unauthorized("no such account")
    yard.later(timedelta(seconds=agents.LOOK_SECONDS))
    assert (await yard.keep())[:2] == ("False", "NotAccepted")
    assert yard.home.token is None
    yard.look_problem = None
    assert (await yard.keep())[:2] == ("False", "NotRunning")
    assert yard.home.token == "made-2"


async def test_who_is_gone_has_no_agent(yard):
    """Also when its SuperCluster was deleted so that what hangs on it stays."""
    await yard.keep()
    await agents.forget(yard.means, "c2")
    assert yard.home.objects == {}
    await agents.forget(yard.means, "c2")


async def test_what_has_the_name_of_one_and_is_none_stays(yard):
    yard.home.objects[SECRET] = {"metadata": {"name": TITLE, "namespace": "n", "uid": "u"}}
    await agents.forget(yard.means, "c2")
    assert SECRET in yard.home.objects


@pytest.mark.parametrize("name", [SECRET, DEPLOYMENT])
async def test_what_is_somebody_elses_is_left_alone(yard, name):
    theirs = {"metadata": {"name": TITLE, "namespace": "vc-manager", "uid": "theirs"}}
    yard.home.objects[name] = theirs
    status, reason, message = await yard.keep()
    assert (status, reason) == ("False", "NameTaken")
    assert name.partition("/")[0] in message
    assert yard.home.objects[name] is theirs


async def test_what_an_earlier_registration_left_is_taken_away_first(yard):
    """Its selector cannot change, and its pods ask for pods of a registration that is gone."""
    await yard.keep(uid="11111111-0000-4000-8000-000000000000")
    assert (await yard.keep())[:2] == ("False", "NameTaken")
    for _ in range(2):
        await yard.keep()
    assert yard.home.token is not None
    labels = yard.home.objects[DEPLOYMENT]["metadata"]["labels"]
    assert labels[marks.SUPER_CLUSTER] == UID


@pytest.mark.parametrize("name", [SECRET, DEPLOYMENT])
async def test_what_the_home_cluster_refuses_is_said_and_no_more(yard, name):
    yard.home.problems["apply", name] = errors.Forbidden("quota")
    status, reason, message = await yard.keep()
    assert (status, reason) == ("False", "NotMade")
    assert "quota" in message


STRAIGHT = replace(THERE, ca=trustme.CA().cert_pem.bytes())
"""A cluster whose kubelets may be asked: who vouches for them can be read."""
KUBELETS = trustme.CA().cert_pem.bytes()


def environment(yard: Yard) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in _container(yard)["env"]}


@pytest.mark.parametrize(("said", "vouching"), [(b"", STRAIGHT.ca), (KUBELETS, KUBELETS)])
async def test_in_mode_agent_it_is_told_to_ask_kubelets_and_by_what_it_knows_them(
    yard, said, vouching
):
    """By an authority of their own where there is one, else by the API server's; never by none."""
    await yard.keep(mode="agent", endpoint=STRAIGHT, kubelet_authorities=said)
    assert environment(yard)["UPSTREAM"] == "kubelet"
    assert yard.home.mounted() == {
        "token": b"made-1",
        "ca.crt": STRAIGHT.ca,
        "kubelet-ca.crt": vouching,
    }
    assert yard.wanted == [rights.needed_by_agent("agent")]
    assert {each.title for each in yard.wanted[0]} == {"pods", "nodes/proxy"}


async def test_in_mode_apiserver_no_kubelet_is_known(yard):
    """Whatever the Secret has."""
    await yard.keep(endpoint=STRAIGHT, kubelet_authorities=KUBELETS)
    assert environment(yard)["UPSTREAM"] == "apiserver"
    assert set(yard.home.mounted()) == {"token", "ca.crt"}
    assert yard.wanted == [rights.needed_by_agent("apiserver")]
    assert "nodes/proxy" not in {each.title for each in yard.wanted[0]}


@pytest.mark.parametrize(
    ("mode", "words"), [("apiserver", "(mode apiserver)"), ("agent", "kubelets (mode agent)")]
)
async def test_the_condition_says_which_mode_is_served(yard, mode, words):
    await yard.keep(mode=mode, endpoint=STRAIGHT)
    yard.home.runs()
    status, reason, message = await yard.keep(mode=mode, endpoint=STRAIGHT)
    assert (status, reason) == ("True", "Serves")
    assert words in message


@pytest.mark.parametrize("before", ["apiserver", "agent"])
async def test_another_mode_has_the_pods_and_the_token_made_anew(yard, before):
    """A pod that serves the mode of before is not said to serve this one."""
    after = "agent" if before == "apiserver" else "apiserver"
    await yard.keep(mode=before, endpoint=STRAIGHT)
    yard.home.runs()
    template = yard.home.template()
    await yard.keep(mode=after, endpoint=STRAIGHT)
    assert yard.home.token == "made-2"
    now = yard.home.template()
    assert now["spec"] != template["spec"]
    assert now["metadata"]["annotations"] != template["metadata"]["annotations"]
    live = yard.home.objects[DEPLOYMENT]
    live["metadata"]["generation"] = 2
    for status in (
        {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1},
        {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1},
        {"observedGeneration": 2, "replicas": 1, "readyReplicas": 1},
    ):
        live["status"] = status
        said = await yard.keep(mode=after, endpoint=STRAIGHT)
        assert said[:2] == ("True", "Serves")
        assert said[2].endswith("its pods are being made anew"), status
    live["status"] |= {"updatedReplicas": 1}
    assert f"(mode {after})" in (await yard.keep(mode=after, endpoint=STRAIGHT))[2]


async def test_other_authorities_of_kubelets_are_other_servers(yard):
    """They get a token of their own, and pods that have read no other authority."""
    straight = {"mode": "agent", "endpoint": STRAIGHT}
    await yard.keep(**straight)
    before = dict(yard.home.objects[DEPLOYMENT])
    await yard.keep(**straight, kubelet_authorities=KUBELETS)
    assert yard.home.token == "made-2"
    assert yard.home.mounted()["token"] == b"made-2"
    made, yard.home.objects[DEPLOYMENT] = yard.home.objects[DEPLOYMENT], before
    assert "token" not in yard.home.mounted(), "a pod of before reads no token for these"
    assert yard.home.template() != made["spec"]["template"]
    yard.home.objects[DEPLOYMENT] = made
    await yard.keep(**straight, kubelet_authorities=KUBELETS)
    assert yard.home.token == "made-2"


@pytest.mark.parametrize("said", [b"nothing", b" ", KUBELETS * 200])
async def test_what_vouches_for_no_kubelet_is_told_and_nothing_shown_to_one(yard, said):
    await yard.keep(mode="agent", endpoint=STRAIGHT)
    answer = await yard.keep(mode="agent", endpoint=STRAIGHT, kubelet_authorities=said)
    assert answer[:2] == ("False", "NoKubeletAuthority")
    assert "kubelet-ca.crt in the Secret" in answer[2]
    assert yard.home.token is None


async def test_the_right_to_kubelets_is_named_where_it_is_missing(yard):
    yard.lacking = [Right("", "nodes/proxy", "get"), Right("", "nodes/proxy", "create")]
    status, reason, message = await yard.keep(mode="agent", endpoint=STRAIGHT)
    assert (status, reason) == ("False", "MissingRights")
    assert "mode agent needs; it lacks nodes/proxy: get, create" in message
    assert "kubectl vc target join c2" in message


async def test_nobody_said_how_agents_run(yard):
    yard.means = fake_means(yard.home)
    assert (await yard.keep())[:2] == ("False", "NotConfigured")
    assert yard.home.calls == []


def _container(yard: Yard) -> dict[str, Any]:
    return yard.home.template()["spec"]["containers"][0]


async def test_its_pods_have_an_account_of_their_own_and_the_credential_alone(yard):
    """SEC-12: no account token but the bound one, nothing writable but a small volume."""
    await yard.keep()
    body = yard.home.objects[DEPLOYMENT]
    pod = body["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "vn-agent-target"
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    security = _container(yard)["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    secret = volumes["target"]["secret"]
    assert {field: secret[field] for field in secret if field != "items"} == {
        "secretName": TITLE,
        "optional": True,
        "defaultMode": 0o440,
    }
    assert volumes["trust"] == {"name": "trust", "configMap": {"name": "vn-agent-trust"}}
    assert {each["name"] for each in _container(yard)["volumeMounts"]} == set(volumes)
    labels = body["spec"]["template"]["metadata"]["labels"]
    assert body["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["app.kubernetes.io/name"] == "vn-agent-target"
    assert labels[marks.SUPER_CLUSTER] == UID
    assert marks.CONTROLLED not in labels
    for name in (SECRET, DEPLOYMENT):
        (owner,) = yard.home.objects[name]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("SuperCluster", UID)


async def test_both_wake_the_super_cluster(yard):
    await yard.keep()
    for name in (SECRET, DEPLOYMENT):
        found = keys.parent_of(yard.home.objects[name]["metadata"])
        assert found == Key("SuperCluster", "", "c2")
    assert keys.parent_of({"labels": {marks.COMPONENT: marks.TARGET_AGENT}}) is None


def test_the_agent_reads_what_it_is_given():
    """The environment of the pod, with what a kubelet fills in, is one that it starts with."""
    post = Post(name="c2", uid=UID, namespace="vc-manager", mode="agent")
    servers = Servers(THERE, KUBELETS)
    made = agent_objects.deployment(post, PODS, servers, has_credential=True)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value", "10.1.0.7") for each in container["env"]}
    environment["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    given = settings.parse([], environment, "v1")
    assert given.target.server.port == 6443
    assert given.target.registration == UID
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert str(given.target.token_file) == f"{mounts['target']}/token"
    assert str(given.target.authorities_file) == f"{mounts['target']}/ca.crt"
    assert str(given.target.kubelet_authorities_file) == f"{mounts['target']}/kubelet-ca.crt"
    assert given.target.mode is choice.Mode.KUBELET
    data = agent_objects.secret(post, servers, "t")["data"]
    volumes = {each["name"]: each for each in made["spec"]["template"]["spec"]["volumes"]}
    paths = {each["key"]: each["path"] for each in volumes["target"]["secret"]["items"]}
    files = (given.target.authorities_file, given.target.kubelet_authorities_file)
    assert {each.name for each in (*files, given.target.token_file)} == {paths[key] for key in data}
    assert str(given.client_authorities_file.parent) == mounts["trust"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {
        "kubelet": given.port,
        "http": given.health_port,
        "metrics": given.metrics_port,
    }


def test_the_wishes_of_the_chart_are_in_the_pods():
    post = Post(name="c2", uid=UID, namespace="vc-manager")
    pods = AgentPods(
        image="i",
        image_pull_secrets=({"name": "s"},),
        priority_class_name="p",
        tolerations=({"operator": "Exists"},),
        affinity={"nodeAffinity": {}},
        node_selector={"a": "b"},
        resources={"limits": {"memory": "1Gi"}},
        pod_annotations={"c": "d"},
        secure_metrics=False,
        replicas=2,
    )
    body = agent_objects.deployment(post, pods, None, has_credential=False)
    spec = body["spec"]["template"]["spec"]
    assert (body["spec"]["replicas"], spec["priorityClassName"]) == (2, "p")
    assert spec["imagePullSecrets"] == [{"name": "s"}]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "a": "b"}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["containers"][0]["resources"] == {"limits": {"memory": "1Gi"}}
    assert body["spec"]["template"]["metadata"]["annotations"]["c"] == "d"
    assert {"name": "METRICS_PORT", "value": "0"} in spec["containers"][0]["env"]


def test_what_the_chart_says_is_read_at_the_start(monkeypatch, capsys):
    monkeypatch.setenv("AGENT_PODS", '{"image": "i", "imagePullPolicy": "Always"}')
    monkeypatch.setattr(__main__, "_version", lambda: "v0")
    options = __main__._options([])
    assert options.agent_pods == AgentPods(image="i", image_pull_policy="Always")
    with pytest.raises(SystemExit):
        __main__._options(["--agent-pods", "{}"])
    assert "image" in capsys.readouterr().err


async def test_a_manager_that_lost_its_lease_writes_nothing(yard):
    yard.home.problems["apply", SECRET] = errors.Fenced("lost")
    with pytest.raises(errors.Fenced):
        await yard.keep()
