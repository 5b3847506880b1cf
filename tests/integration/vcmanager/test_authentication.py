"""Users of an OIDC provider in a tenant, by `spec.auth`, with a real API server.

One test has a certified provider (oidc-provider of npm). The others have a small issuer of the
tests, with real keys and discovery over TLS. It also signs what a good provider never signs.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import SERVICE_RANGE, ManagerStage
from tests.support import oidc_provider
from tests.support.controlplane import LocalControlPlane, running
from tests.support.eventually import eventually
from tests.support.oidc_issuer import AUDIENCE, OidcIssuer, serving_issuer
from tools.testbed.artifacts import oidc_server
from vcmanager.plan.access import authentication_config

CONFIG = (authentication_config.CONFIG_MAP, authentication_config.KEY)
VIEWERS = "oidc:viewers"
CLAIMS = {"username": "sub", "groups": "groups"}
RBAC = "rbac.authorization.k8s.io"


USERS = {"alice": ["viewers"], "bob": ["guests"]}


@pytest.fixture
def issuer() -> Iterator[OidcIssuer]:
    with serving_issuer() as made:
        yield made


@dataclasses.dataclass(frozen=True)
class Tenant:
    """A VirtualCluster, and the API server that has the file of its ConfigMap."""

    stage: ManagerStage
    cluster: Object
    plane: LocalControlPlane
    path: Path

    async def file(self) -> str:
        """Return the file as the super cluster has it."""
        found = await self.stage.admin.get(
            resources.CONFIG_MAPS, CONFIG[0], namespace=self.stage.root(self.cluster)
        )
        return str(found["data"][CONFIG[1]])

    async def set_auth(self, *jwt: Any) -> None:
        """Change `spec.auth`, and let vc-manager and the kubelet work once."""
        metadata = self.cluster["metadata"]
        await self.stage.admin.patch(
            resources.VIRTUAL_CLUSTERS,
            metadata["name"],
            {"spec": {"auth": {"jwt": list(jwt)}}},
            namespace=metadata["namespace"],
        )
        await self.work()

    async def work(self) -> Object:
        """Reconcile once, copy the file as the kubelet does, and return the condition."""
        await self.stage.work(self.cluster)
        text = await self.file()
        if text != self.path.read_text():
            swapped = self.path.with_suffix(".new")
            swapped.write_text(text)
            swapped.replace(self.path)
        return await self.condition()

    async def condition(self) -> Object:
        return await self.stage.condition(self.cluster, wellknown.AUTHENTICATION_READY) or {}

    async def unmet_conditions(self) -> list[Object]:
        """Return the conditions that are not True. The phases after the first one set none."""
        found = (await self.stage.fresh(self.cluster)).get("status", {}).get("conditions", [])
        return [each for each in found if each["status"] != "True"]

    async def settle(self, reason: str) -> Object:
        """Work until the condition has a reason."""
        for _ in range(180):
            found = await self.work()
            if found.get("reason") == reason:
                return found
            await asyncio.sleep(0.5)
        raise AssertionError(f"never {reason}: {await self.unmet_conditions()}")

    async def settle_absent(self) -> None:
        """Work until there is no such condition."""
        for _ in range(180):
            if not await self.work():
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"still there: {await self.condition()}")

    async def list_pods(self, token: str) -> None:
        """List pods with a token."""
        async with Client(self.plane.endpoint_with_token(token=token)) as user:
            await user.list(resources.PODS, namespace="default")


@pytest.fixture
async def tenant(stage: ManagerStage, tmp_path: Path) -> AsyncIterator[Tenant]:
    path = tmp_path / "authentication.yaml"
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    plane = LocalControlPlane(
        tmp_path / "tenant",
        service_range=SERVICE_RANGE,  # vc-manager creates a Service of the tenant's own range
        api_args={"authentication-config": str(path)},
        controllers=("serviceaccount-controller",),
    )
    made = Tenant(stage, cluster, plane, path)
    path.write_text(await made.file())
    async with running(plane), Client(plane.endpoint) as client:
        stage.tenants.client = client
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
        await client.create(
            resources.CLUSTER_ROLES, {"metadata": {"name": "viewers"}, "rules": [rule]}
        )
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "viewers"}
        subject = {"apiGroup": RBAC, "kind": "Group", "name": VIEWERS}
        await client.create(
            resources.CLUSTER_ROLE_BINDINGS,
            {"metadata": {"name": "viewers"}, "roleRef": role, "subjects": [subject]},
        )
        yield made
        await stage.tear_down(cluster)


async def refused(problem: type[errors.ApiError], tenant: Tenant, token: str) -> None:
    with pytest.raises(problem):
        await tenant.list_pods(token)


async def is_refused(tenant: Tenant, token: str) -> bool:
    try:
        await tenant.list_pods(token)
    except errors.Unauthorized:
        return True
    return False


def build_authenticator(url: str, authority: str) -> dict[str, Any]:
    """Return an entry of `spec.auth.jwt` with a prefix for users and groups."""
    mapped = {name: {"claim": claim, "prefix": "oidc:"} for name, claim in CLAIMS.items()}
    issuer = {"url": url, "audiences": [AUDIENCE], "certificateAuthority": authority}
    return {"issuer": issuer, "claimMappings": mapped}


@pytest.mark.skipif(
    not oidc_server.is_available() and not oidc_server.is_required(),
    reason="node and npm are not installed",
)
async def test_a_user_signs_in_at_a_certified_provider_whose_keys_rotate(
    tenant: Tenant, tmp_path: Path
):
    folder = tmp_path / "provider"
    folder.mkdir()
    with oidc_provider.running_provider(folder, USERS) as provider:
        await tenant.set_auth(build_authenticator(provider.url, provider.authority))
        await tenant.settle("InUse")
        before = await asyncio.to_thread(provider.sign_in, "alice")
        await tenant.list_pods(await asyncio.to_thread(provider.sign_in, "alice"))
        await refused(errors.Forbidden, tenant, await asyncio.to_thread(provider.sign_in, "bob"))
        await asyncio.to_thread(provider.start)  # with a new key
        await tenant.list_pods(await asyncio.to_thread(provider.sign_in, "alice"))
        # The API server keeps an accepted token for 10 s. Two tokens of one second may be equal.
        await eventually(lambda: is_refused(tenant, before))


async def test_a_user_of_a_group_signs_in_and_keys_rotate(tenant: Tenant, issuer: OidcIssuer):
    pods = await tenant.stage.admin.list(
        resources.PODS, namespace=tenant.stage.root(tenant.cluster)
    )
    await refused(errors.Unauthorized, tenant, issuer.sign("alice", ("viewers",)))
    await tenant.set_auth(issuer.authenticator())
    used = await tenant.settle("InUse")
    assert used["status"] == "True"
    assert issuer.url in used["message"]

    await tenant.list_pods(issuer.sign("alice", ("viewers",)))
    await refused(errors.Forbidden, tenant, issuer.sign("bob", ("guests",)))
    await refused(errors.Unauthorized, tenant, issuer.sign("alice", ("viewers",), aud="other"))
    await refused(errors.Unauthorized, tenant, issuer.sign("alice", ("viewers",), exp=1))

    before = issuer.sign("alice", ("viewers",))
    issuer.rotate_keys()
    await tenant.list_pods(issuer.sign("alice", ("viewers",)))
    await refused(errors.Unauthorized, tenant, before)

    # No pod of the control plane was recreated, and a settled condition costs no request.
    after = await tenant.stage.admin.list(
        resources.PODS, namespace=tenant.stage.root(tenant.cluster)
    )
    uids = [{each["metadata"]["uid"] for each in page["items"]} for page in (pods, after)]
    assert uids[0] == uids[1]

    await tenant.set_auth()
    await tenant.settle_absent()
    await refused(errors.Unauthorized, tenant, issuer.sign("alice", ("viewers",)))


RESERVED: list[tuple[str, tuple[str, ...]]] = [
    ("system:kube-controller-manager", ()),
    ("tenancy:vc-manager", ()),
    ("vc-kubeconfig:admin:5f0c2a91d3", ()),
    ("admin", ()),
    ("alice", ("system:masters",)),
    ("alice", ("viewers", "tenancy:admins")),
]


async def test_no_token_is_a_reserved_identity(tenant: Tenant, issuer: OidcIssuer):
    """SEC-240."""
    mappings = {
        "username": {"claim": "sub", "prefix": ""},
        "groups": {"expression": "claims.groups"},
    }
    await tenant.set_auth(issuer.authenticator(**mappings))
    await tenant.settle("InUse")
    await refused(errors.Forbidden, tenant, issuer.sign("alice", ("viewers",)))
    for user, groups in RESERVED:
        await refused(errors.Unauthorized, tenant, issuer.sign(user, groups))


def with_expression(issuer: OidcIssuer, text: str) -> dict[str, Any]:
    made = issuer.authenticator()
    return {**made, "claimValidationRules": [{"expression": text}]}


async def test_a_bad_configuration_never_reaches_the_running_api_server(
    tenant: Tenant, issuer: OidcIssuer
):
    """SEC-241."""
    await tenant.set_auth(issuer.authenticator())
    await tenant.settle("InUse")
    good = await tenant.file()
    good_token = issuer.sign("alice", ("viewers",))
    changed = issuer.authenticator()
    bad: list[tuple[Any, str]] = [
        ({**changed, "issuer": {**changed["issuer"], "certificateAuthority": "x"}}, "PEM"),
        ({**changed, "issuer": {**changed["issuer"], "url": "https://a@b"}}, "user"),
        (issuer.authenticator(username={"claim": "sub"}), "prefix"),
        (issuer.authenticator(username={"claim": "sub", "prefix": "system:"}), "reserved"),
        (issuer.authenticator(username={"expression": "claims.email"}), "email_verified"),
        (issuer.authenticator(groups={"expression": "claims.nope("}), "Syntax"),
        (with_expression(issuer, "claims.a"), "must evaluate to bool"),
        (with_expression(issuer, "unknown == 'a'"), "undeclared"),
        (with_expression(issuer, "user.username == 'a'"), "undeclared"),
        (with_expression(issuer, "request.name == 'a'"), "no variable 'request'"),
        (with_expression(issuer, "true), (claims.a == 'b'"), "Syntax"),
        (with_expression(issuer, "true], [true"), "Syntax"),
        (
            {**changed, "userValidationRules": [{"expression": "user.nope == 'a'"}]},
            "undefined field",
        ),
    ]
    for entry, word in bad:
        await tenant.set_auth(entry)
        found = await tenant.condition()
        assert (found["status"], found["reason"]) == ("False", "InvalidAuthentication"), entry
        assert word in found["message"], found
        assert "keeps its present issuers" in found["message"]
        assert await tenant.file() == good
        ready = await tenant.stage.condition(tenant.cluster, wellknown.READY)
        assert ready is not None
        assert ready["status"] == "True"
    await tenant.list_pods(good_token)
    await tenant.plane.stop_apiserver()
    await tenant.plane.start()  # it starts with the file that it has
    await tenant.list_pods(good_token)


async def test_an_issuer_that_does_not_answer_is_reported(tenant: Tenant, issuer: OidcIssuer):
    nowhere = issuer.authenticator()
    nowhere["issuer"] = {**nowhere["issuer"], "url": "https://127.0.0.1:9"}
    await tenant.set_auth(nowhere)
    found = await tenant.settle("ReloadFailed")
    assert "https://127.0.0.1:9" in found["message"]
    await tenant.set_auth(issuer.authenticator())
    await tenant.settle("InUse")
