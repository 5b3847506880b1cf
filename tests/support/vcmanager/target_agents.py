"""One target and its agent, beside a home cluster that records its requests."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import trustme

from kubeio.config.endpoint import Endpoint
from tests.support.vcmanager.factories import NOW, RecordingClient, fake_means
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.options import AgentPodSettings
from vcmanager.targets import agents, probe
from vcmanager.targets.agents import AgentContext
from vcmanager.targets.required_permissions import RequiredPermission
from vcmanager.targets.super_cluster_conditions import ConditionBody

HOME_UID = "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd"
UID = "cccccccc-0000-4000-8000-000000000000"
TITLE = "vn-agent-target-c2"


SECRET, DEPLOYMENT = f"Secret/{TITLE}", f"Deployment/{TITLE}"


PODS = AgentPodSettings(image="registry.example/vn-agent:1")
THERE = Endpoint(server="https://10.0.0.5:6443", ca=b"CA", token="account-token", strict=False)
DAY = timedelta(days=1)


class AgentHome(RecordingClient):
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


class AgentTargetApi:
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


class AgentWorld:
    """One target and its agent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.there = AgentHome(), AgentTargetApi()
        self.means: ReconcileContext = fake_means(self.home, agent_pods=PODS)
        self.context = AgentContext(
            name="c2",
            uid=UID,
            endpoint=THERE,
            client=self.there,
            home=HOME_UID,  # type: ignore[arg-type]
        )
        self.lacking: list[RequiredPermission] = []
        self.wanted: list[Any] = []
        self.looked: list[Endpoint] = []
        self.look_problem: Exception | None = None

        @asynccontextmanager
        async def opened(_: Any, endpoint: Endpoint):
            self.looked.append(endpoint)
            yield "client"

        async def lacking(_: Any, wanted: Any) -> list[RequiredPermission]:
            self.wanted.append(wanted)
            if self.look_problem is not None:
                raise self.look_problem
            return self.lacking

        monkeypatch.setattr(type(self.means.target_clients), "open_client", opened)
        monkeypatch.setattr(probe, "list_missing_permissions", lacking)

    async def keep(self, **other: Any) -> ConditionBody:
        return await agents.reconcile_agent(self.means, replace(self.context, **other))

    def later(self, time: timedelta) -> None:
        self.means = replace(self.means, now=lambda: NOW + time)


KUBELETS = trustme.CA().cert_pem.bytes()


def environment(agent_world: AgentWorld) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in container_of(agent_world)["env"]}


def container_of(agent_world: AgentWorld) -> dict[str, Any]:
    return agent_world.home.template()["spec"]["containers"][0]
