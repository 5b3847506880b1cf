"""The agent of a target, from joining to a log: two real API servers and the agent as a program.

Kubelets are played: the one of the target shows which pod's log it was asked for.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import urllib.request
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from kubectl_vc.target.manifests import TargetObjects
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import secret_kubeconfig
from tenancy import agent_permissions, resources, wellknown
from tenancy.super_clusters import AccessMode
from tests.integration.vcmanager.conftest import NAMESPACE
from tests.integration.vcmanager.test_targets import second, two_clusters  # noqa: F401 - fixtures
from tests.integration.vcmanager.two_cluster_stage import TwoClusterStage
from tests.support import grants, tls_sockets
from tests.support.account_tokens import request_account_token
from tests.support.eventually import eventually
from tests.support.own_address import OWN, needs_address
from tests.support.processes import ProgramProcess, free_port
from tests.support.vnagent import certificates
from tests.support.vnagent.certificates import VALID, VC_UID
from tests.support.vnagent.running_agent import (
    EXEC,
    LOGS,
    OTHER,
    SWITCHED,
    UID,
    FakeKubelet,
    access,
)
from vcmanager.runtime.options import AgentPodSettings
from vnagent.rbac import TARGET_HOME_RBAC_RULES

pytestmark = needs_address

ACCOUNT = "vn-agent-target"
SPACE = "default-b41df0-one-web"
NODE = "logging"


@dataclass(kw_only=True)
class JoinedTarget:
    """A joined target, and what vc-manager made for it."""

    two_clusters: TwoClusterStage
    plan: TargetObjects

    @property
    def title(self) -> str:
        return f"{ACCOUNT}-{self.two_clusters.name}"

    async def said(self) -> tuple[str, str, str]:
        """Look once, at the agent's rights as well, and return what AgentReady says."""
        self.two_clusters.targets.agent_checks.clear()
        return (await self.two_clusters.judged())["AgentReady"]

    async def made(self) -> None:
        """Have the agent made. RBAC takes a moment to count."""
        await eventually(self.said, until=lambda found: found[1] == "NotRunning")

    async def said_anew(self) -> tuple[str, str, str]:
        """Look once, without the token that there is."""
        with suppress(errors.NotFound):
            await self.two_clusters.stage.admin.delete(
                resources.SECRETS, self.title, namespace=NAMESPACE
            )
        return await self.said()

    async def secret(self) -> dict[str, bytes] | None:
        """Return the files that pods of the agent made now have of its Secret. None without one."""
        try:
            found = await self.two_clusters.stage.admin.get(
                resources.SECRETS, self.title, namespace=NAMESPACE
            )
        except errors.NotFound:
            return None
        pod = (await self.deployment())["spec"]["template"]["spec"]
        (mounted,) = [each["secret"] for each in pod["volumes"] if each["name"] == "target"]
        paths = {each["key"]: each["path"] for each in mounted["items"]}
        assert set(found["data"]) <= set(paths), "what no pod reads"
        return {paths[key]: base64.b64decode(value) for key, value in found["data"].items()}

    async def deployment(self) -> Object:
        return await self.two_clusters.stage.admin.get(
            resources.DEPLOYMENTS, self.title, namespace=NAMESPACE
        )

    async def has_deployment(self) -> bool:
        try:
            await self.deployment()
        except errors.NotFound:
            return False
        return True

    async def runs(self) -> None:
        """Play kubelet for the agent's pods at home."""
        admin, uid = (
            self.two_clusters.stage.admin,
            (await self.two_clusters.fresh())["metadata"]["uid"],
        )
        selector = f"{wellknown.SUPER_CLUSTER}={uid}"
        pods = await eventually(
            lambda: admin.list(resources.PODS, namespace=NAMESPACE, label_selector=selector),
            until=lambda page: bool(page.get("items")),
        )
        now = "2026-01-01T00:00:00Z"
        kinds = ("PodScheduled", "ContainersReady", "Ready")
        ready = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
        status = {"phase": "Running", "podIP": "10.0.0.9", "conditions": ready}
        for pod in pods["items"]:
            name = pod["metadata"]["name"]
            await admin.patch(
                *(resources.PODS, name, {"status": status}),
                namespace=NAMESPACE,
                subresource="status",
            )

    async def goes(self, mode: AccessMode, vouching: bytes) -> None:
        """Join again in a mode, with who vouches for kubelets."""
        await self.joined(TargetObjects(self.plan.home_identity, mode))
        more = {secret_kubeconfig.KUBELET_AUTHORITIES_KEY: vouching} if mode == "agent" else {}
        await self.two_clusters.secret(**more)
        await self.declared(mode)

    async def joined(self, plan: TargetObjects) -> None:
        for resource, body in plan.build_objects():
            await self.two_clusters.there.apply(resource, body, field_manager="test")

    async def declared(self, mode: AccessMode) -> None:
        wanted = {"spec": {"mode": mode}}
        await self.two_clusters.stage.admin.patch(
            resources.SUPER_CLUSTERS, self.two_clusters.name, wanted
        )


@pytest.fixture
async def scene(two_clusters: TwoClusterStage) -> JoinedTarget:  # noqa: F811 - the fixture
    """Join: what `kubectl vc target join` makes there, and its token here."""
    stage = two_clusters.stage
    means = replace(stage.means, agent_pods=AgentPodSettings(image="registry.example/vn-agent:1"))
    two_clusters.stage = replace(stage, means=means)
    home = await stage.admin.get(resources.NAMESPACES, "kube-system")
    plan = TargetObjects(home["metadata"]["uid"])
    for resource, body in plan.build_objects():
        await two_clusters.there.apply(resource, body, field_manager="test")
    two_clusters.token = await request_account_token(
        two_clusters.there, plan.namespace, wellknown.SYNCER
    )
    account = {"metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}
    with suppress(errors.AlreadyExists):
        await stage.admin.create(resources.SERVICE_ACCOUNTS, account)
    await two_clusters.secret()
    await two_clusters.declare()
    return JoinedTarget(two_clusters=two_clusters, plan=plan)


async def test_an_agent_is_made_with_a_token_of_its_own_and_goes_with_its_cluster(
    scene: JoinedTarget,
):
    await scene.made()
    await scene.runs()
    await eventually(scene.said, until=lambda found: found[:2] == ("True", "Serves"))
    assert (await scene.two_clusters.judged())["Ready"][0] == "True"
    secret = await scene.secret()
    assert secret is not None
    assert secret["ca.crt"] == scene.two_clusters.second.ca
    assert secret["token"].decode() != scene.two_clusters.token
    mark = scene.two_clusters.stage.plane.audit_mark()
    for _ in range(3):
        await scene.said()
    assert _writes(scene, mark) == []
    await scene.two_clusters.stage.admin.delete(resources.SUPER_CLUSTERS, scene.two_clusters.name)
    # The garbage collector looks for new kinds every half minute.
    await eventually(scene.secret, until=lambda found: found is None, within=90)
    await eventually(scene.has_deployment, until=lambda found: not found)


def _writes(scene: JoinedTarget, since: Any) -> list[tuple[str, str]]:
    """Return what the manager wrote in the components' namespace."""
    return [
        (event["verb"], event["requestURI"])
        for event in scene.two_clusters.stage.plane.audit_events(since)
        if event["user"].get("username") == "vc-manager"
        and event["verb"] in ("create", "patch", "update", "delete")
        and scene.title in event["requestURI"]
    ]


async def test_a_target_that_was_joined_before_reports_the_remedy(scene: JoinedTarget):
    """The agent exists all the same, to answer tenants."""
    there, plan = scene.two_clusters.there, scene.plan
    await there.delete(resources.ROLE_BINDINGS, "vn-agent-tokens", namespace=plan.namespace)
    status, _, message = await eventually(
        scene.said_anew, until=lambda found: found[1:2] == ("MissingRights",)
    )
    assert status == "False"
    assert f"kubectl vc target join {scene.two_clusters.name}" in message
    assert (await scene.two_clusters.judged())["Ready"][0] == "True", "pods run there without logs"
    assert await scene.secret() is None
    assert (await scene.deployment())["spec"]["replicas"] == 1
    await there.delete(resources.SERVICE_ACCOUNTS, "vn-agent", namespace=plan.namespace)
    for resource, body in plan.build_objects():
        if body["metadata"]["name"] == "vn-agent-tokens":
            await there.apply(resource, body, field_manager="test")
    await eventually(scene.said, until=lambda found: found[1] == "NoAccount")
    for resource, body in plan.build_objects():
        await there.apply(resource, body, field_manager="test")
    await scene.made()
    assert await scene.secret() is not None


async def test_what_the_agents_account_lacks_is_named(scene: JoinedTarget):
    (role,) = [
        body
        for resource, body in scene.plan.build_objects()
        if resource is resources.CLUSTER_ROLES
        and body["metadata"]["name"] == scene.plan.agent_role_name
    ]
    fewer = [rule for rule in role["rules"] if "pods/exec" not in rule["resources"]]
    there = scene.two_clusters.there
    await scene.made()
    await there.patch(resources.CLUSTER_ROLES, scene.plan.agent_role_name, {"rules": fewer})

    _, _, message = await eventually(scene.said, until=lambda found: found[1] == "MissingRights")
    assert "pods/exec: get, create" in message
    await there.patch(resources.CLUSTER_ROLES, scene.plan.agent_role_name, {"rules": role["rules"]})
    await scene.made()


async def test_mode_agent_needs_a_right_that_the_other_does_not(scene: JoinedTarget):
    """nodes/proxy is named until `join` has granted it, and taken back with the mode."""
    await scene.made()
    before = await scene.deployment()
    await scene.declared("agent")
    status, _, message = await eventually(
        scene.said, until=lambda found: found[1] == "MissingRights"
    )
    assert (status, "mode agent: nodes/proxy: get, create" in message) == (*("False", True),)
    await scene.joined(TargetObjects(scene.plan.home_identity, "agent"))
    await scene.made()
    secret = await scene.secret()
    assert secret is not None
    assert secret["kubelet-ca.crt"] == scene.two_clusters.second.ca, (
        "who vouches for the API server"
    )
    assert (await scene.deployment())["spec"]["template"] != before["spec"]["template"]

    async def running() -> str:
        await scene.runs()
        return (await scene.said())[2]

    await eventually(running, until=lambda message: "(mode agent)" in message)
    await scene.joined(scene.plan)
    await scene.declared("apiserver")
    assert "Its pods are being replaced" in (await scene.said())[2]
    await eventually(running, until=lambda message: "(mode apiserver)" in message)
    secret = await scene.secret()
    assert secret is not None
    assert "kubelet-ca.crt" not in secret


async def test_a_secret_that_goes_takes_the_agents_credential_along(scene: JoinedTarget):
    await scene.made()
    assert await scene.secret() is not None
    await scene.two_clusters.stage.admin.delete(
        resources.SECRETS, scene.two_clusters.name, namespace=NAMESPACE
    )
    assert (await scene.said())[:2] == ("False", "NoCredential")
    assert await scene.secret() is None


# --- a log, from a tenant's certificate to the kubelet --------------------------------------------


def recorded(registration: str, *, name: str = "shop", vc_uid: str = VC_UID) -> Object:
    """Return a pod as the syncer makes it in a target."""
    record = {
        wellknown.VC_UID: vc_uid,
        wellknown.NAMESPACE: "web",
        wellknown.SUPER_CLUSTER: registration,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "labels": {wellknown.CONTROLLED: "true", **record},
            "annotations": {**record, wellknown.UID: UID, wellknown.CONTAINERS: "main"},
        },
        "spec": {
            "nodeName": NODE,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "x"}],
        },
    }


async def furnish(there: Client, kubelet: FakeKubelet, registration: str) -> None:
    """Have a node there whose kubelet is ours, and three pods on it."""
    with suppress(errors.AlreadyExists):
        await there.create(resources.NODES, {"metadata": {"name": NODE}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await there.patch(resources.NODES, NODE, {"status": status}, subresource="status")
    owner = {wellknown.VC_UID: VC_UID}
    # The admission policy of `join` opens streams only in namespaces of tenants.
    labels = {wellknown.CONTROLLED: "true", wellknown.NAMESPACE: "web", **owner}
    for name in (SPACE, "default"):
        metadata = {"name": name, "labels": labels, "annotations": owner}
        with suppress(errors.AlreadyExists):
            await there.create(resources.NAMESPACES, {"metadata": metadata})
        account = {"metadata": {"name": "default", "namespace": name}}
        with suppress(errors.AlreadyExists):
            await there.create(resources.SERVICE_ACCOUNTS, account)
    for body in (
        recorded(registration),
        recorded("11111111-0000-4000-8000-000000000000", name="elsewhere"),
        recorded(registration, name="theirs", vc_uid=OTHER),
    ):
        with suppress(errors.NotFound):
            name = body["metadata"]["name"]
            await there.delete(resources.PODS, name, namespace=SPACE, grace_seconds=0)
        await there.create(resources.PODS, body)
        running = {"name": "main", "ready": True, "restartCount": 0, "image": "x", "imageID": "x"}
        state = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "started": True}
        said = {"phase": "Running", "containerStatuses": [running | state], "hostIP": kubelet.host}
        await there.patch(
            resources.PODS,
            body["metadata"]["name"],
            {"status": said},
            namespace=SPACE,
            subresource="status",
        )


async def home_token(scene: JoinedTarget) -> bytes:
    """Give the agents' account at home what the chart does, and return a token of it."""
    admin = scene.two_clusters.stage.admin
    account = grants.build_account(ACCOUNT, NAMESPACE)
    for namespace in ("", NAMESPACE):
        rows = [row for row in TARGET_HOME_RBAC_RULES if row.namespaced is bool(namespace)]
        await grants.grant(admin, rows, account, namespace=namespace)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": wellknown.AGENT_ACCESS, "namespace": NAMESPACE},
        "data": {agent_permissions.DOCUMENT_KEY: access()[agent_permissions.DOCUMENT_KEY]},
    }
    await admin.apply(resources.CONFIG_MAPS, body, field_manager="test")
    return (await request_account_token(admin, NAMESPACE, ACCOUNT)).encode()


@asynccontextmanager
async def agent(
    scene: JoinedTarget, folder: Path, serving: trustme.CA, callers: Any, kubelet: FakeKubelet
):
    """Run the agent as the Deployment says, with files where its volumes are. Gives its ports."""
    plane = scene.two_clusters.stage.plane
    container = (await scene.deployment())["spec"]["template"]["spec"]["containers"][0]
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    pair = serving.issue_cert("127.0.0.1")
    files = {
        "serving.crt": pair.cert_chain_pems[0].bytes(),
        "serving.key": pair.private_key_pem.bytes(),
        "home-token": await home_token(scene),
        "home-ca": plane.ca,
        "clients": callers.pem,
        **(await scene.secret() or {}),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    port, health = free_port(), free_port()
    home = urlsplit(plane.server)
    options = {
        **{name.lower().replace("_", "-"): given[name] for name in given if "TARGET" in name},
        "upstream": given["UPSTREAM"],
        "kubelet-port": kubelet.port,
        "target-ca-file": folder / "ca.crt",
        "target-kubelet-ca-file": folder / "kubelet-ca.crt",
        "target-token-file": folder / "token",
        "pod-name": "x",
        "pod-namespace": NAMESPACE,
        "pod-ip": "127.0.0.1",
        "port": port,
        "health-port": health,
        "metrics-port": 0,
        "client-ca-file": folder / "clients",
        "token-file": folder / "home-token",
        "api-host": home.hostname,
        "api-port": home.port,
        "api-ca-file": folder / "home-ca",
        "tls-cert-file": folder / "serving.crt",
        "tls-private-key-file": folder / "serving.key",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    process = ProgramProcess([sys.executable, "-m", "vnagent", *flags], folder / "agent.log")
    try:
        yield port, health
    finally:
        await process.stop()


@pytest.mark.parametrize("mode", ["apiserver", "agent"])
async def test_logs_and_exec_reach_the_kubelet_of_the_target(
    scene: JoinedTarget, tmp_path: Path, mode: AccessMode
):
    """Only with the token that vc-manager made, through RBAC as `join` made it."""
    serving, callers, vouching = trustme.CA(), certificates.make_authority(), trustme.CA()
    await scene.goes(mode, vouching.cert_pem.bytes())
    await scene.made()
    registration = (await scene.two_clusters.fresh())["metadata"]["uid"]
    kubelet = FakeKubelet(host=OWN) if mode == "agent" else FakeKubelet()
    # What the other API server makes of a kubelet's certificate is its own matter.
    with kubelet.running(vouching if mode == "agent" else trustme.CA()):
        await furnish(scene.two_clusters.there, kubelet, registration)
        async with agent(scene, tmp_path, serving, callers, kubelet) as (port, health):
            context = tls_sockets.client_context(serving)
            certificates.present(context, tmp_path, callers, VALID)

            def talk(raw: bytes) -> bytes:
                with tls_sockets.dial(port, context) as peer:
                    peer.sendall(raw)
                    return tls_sockets.read_all(peer)

            async def ask(raw: bytes) -> bytes:
                try:
                    return await asyncio.to_thread(talk, raw)
                except OSError:
                    return b""

            answer = await eventually(lambda: ask(LOGS), until=bool, within=20)
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            assert answer.endswith(b"5\r\nhello\r\n0\r\n\r\n")
            (line,) = kubelet.asked
            assert line.split(b" ")[1].startswith(f"/containerLogs/{SPACE}/shop/main".encode())
            kubelet.answer = lambda peer, _: peer.sendall(SWITCHED)
            assert (await ask(EXEC)).startswith(b"HTTP/1.1 101 ")
            assert kubelet.asked[-1].split(b" ")[1].startswith(f"/exec/{SPACE}/shop/main".encode())
            asked = len(kubelet.asked)
            for name in (b"elsewhere", b"theirs", b"nobody"):
                for call in (LOGS, EXEC):
                    answer = await ask(call.replace(b"/shop/", b"/%s/" % name))
                    assert answer.startswith(b"HTTP/1.1 404 "), (name, answer)
            assert len(kubelet.asked) == asked
            shown = await asyncio.to_thread(metrics_of, health)
            word = {"agent": "kubelet", "apiserver": "apiserver"}[mode]
            assert f'vc_agent_upstream{{mode="{word}",reason="configured"}} 1.0' in shown
    token = (await scene.secret() or {})["token"]
    is_straight = all(b"Authorization: Bearer " + token in head for head in kubelet.heads)
    assert is_straight is (mode == "agent"), "who is shown the agent's token"
    log = (tmp_path / "agent.log").read_bytes()
    assert (await scene.secret() or {})["token"] not in log
    assert b"Traceback" not in log


def metrics_of(port: int) -> str:
    """Return what the agent shows of itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return answer.read().decode()
