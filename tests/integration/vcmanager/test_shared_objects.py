"""ConfigMaps and Secrets of the super cluster in a tenant, by its policy."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import Any

from kubeio import Object
from kubeio.errors import NotFound
from tenancy import ownership, wellknown
from tenancy.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.content_stage import ContentStage, reconciling
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tests.support.vcmanager.factories import TENANT

READY = wellknown.SHARED_OBJECTS_READY


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pull_secret(name: str, text: str = "one", **labels: str) -> Object:
    """Return a Secret of the platform."""
    config = {".dockerconfigjson": encoded(f'{{"auths": {{"{text}": {{}}}}}}')}
    return {
        "metadata": {"name": name, "labels": {"share": "all", **labels}},
        "type": "kubernetes.io/dockerconfigjson",
        "data": config,
    }


def rule(namespace: str, kind: str = "Secret", **fields: Any) -> Object:
    return {"kind": kind, "namespace": namespace, "matchLabels": {"share": "all"}, **fields}


async def is_gone(stage: ContentStage, name: str, namespace: str) -> None:
    async def look() -> bool:
        with contextlib.suppress(NotFound):
            await stage.tenant.get(SECRETS, name, namespace=namespace)
            return False
        return True

    await eventually(look)


async def has_data(stage: ContentStage, name: str, namespace: str, data: Object) -> Object:
    return await eventually(
        lambda: stage.tenant.get(SECRETS, name, namespace=namespace),
        until=lambda body: body["data"] == data,
    )


async def test_content_follows_the_source_and_an_edit_is_put_back(
    stage: ManagerStage, inside: LocalControlPlane
):
    async with reconciling(stage, inside) as found:
        source, name = await found.source_namespace(), fresh_name("pull")
        one, two = pull_secret(name, "one"), pull_secret(name, "two")
        await found.admin.create(SECRETS, one, namespace=source)
        await found.admin.create(
            SECRETS, {"metadata": {"name": fresh_name("other")}}, namespace=source
        )
        await found.use_policy(rule(source))
        made = await has_data(found, name, "kube-public", one["data"])
        assert made["type"] == "kubernetes.io/dockerconfigjson"
        assert "share" not in made["metadata"]["labels"]
        assert source not in str(made)
        await found.condition_is(READY, "True", "1 shared objects")

        await found.admin.patch(SECRETS, name, {"data": two["data"]}, namespace=source)
        await has_data(found, name, "kube-public", two["data"])
        assert await found.told("kube-public", name) == []

        change = {"data": {"added": encoded("x")}, "metadata": {"labels": {"mine": "1"}}}
        await found.tenant.patch(SECRETS, name, change, namespace="kube-public")
        await has_data(found, name, "kube-public", two["data"])
        await eventually(
            lambda: found.told("kube-public", name),
            until=lambda reasons: reasons == ["SharedObjectReverted"],
        )
        await found.tenant.delete(SECRETS, name, namespace="kube-public")
        await has_data(found, name, "kube-public", two["data"])
        await found.tenant.patch(SECRETS, name, {"immutable": True}, namespace="kube-public")
        await eventually(
            lambda: found.tenant.get(SECRETS, name, namespace="kube-public"),
            until=lambda body: not body.get("immutable"),
        )

        await found.admin.delete(SECRETS, name, namespace=source)
        await is_gone(found, name, "kube-public")


async def test_namespaces_by_name_and_label_also_those_that_come_later(
    stage: ManagerStage, inside: LocalControlPlane
):
    async with reconciling(stage, inside) as found:
        source, name, team = await found.source_namespace(), fresh_name("ca"), fresh_name("team")
        body = {"metadata": {"name": name, "labels": {"share": "all"}}, "data": {"ca.crt": "x"}}
        await found.admin.create(CONFIG_MAPS, body, namespace=source)
        early = await found.tenant_namespace(team=team)
        later = fresh_name("later")
        fields = {"tenantNamespaces": [later], "tenantNamespaceLabels": {"team": team}}
        await found.use_policy(rule(source, "ConfigMap", **fields))

        async def arrives(namespace: str) -> None:
            await eventually(lambda: found.tenant.get(CONFIG_MAPS, name, namespace=namespace))

        await arrives(early)
        await found.tenant.create(NAMESPACES, {"metadata": {"name": later}})
        await arrives(later)
        await arrives(await found.tenant_namespace(team=team))
        with contextlib.suppress(NotFound):
            await found.tenant.get(CONFIG_MAPS, name, namespace="kube-public")
            raise AssertionError("a namespace that no rule names got the object")
        await found.set_spec(policyRef=None)  # the built-in policy shares nothing

        async def left() -> bool:
            listed = await found.tenant.list(CONFIG_MAPS, label_selector=f"{wellknown.SHARED}=true")
            return name not in {each["metadata"]["name"] for each in listed["items"]}

        await eventually(left)


async def test_an_object_of_the_tenant_is_never_overwritten(
    stage: ManagerStage, inside: LocalControlPlane
):
    async with reconciling(stage, inside) as found:
        source, name = await found.source_namespace(), fresh_name("pull")
        own = {"metadata": {"name": name}, "data": {"mine": encoded("1")}}
        made = await found.tenant.create(SECRETS, own, namespace="kube-public")
        await found.admin.create(SECRETS, pull_secret(name), namespace=source)
        await found.use_policy(rule(source))
        await found.condition_is(READY, "False", name)
        await eventually(
            lambda: found.told("kube-public", name),
            until=lambda reasons: reasons == ["SharedNameTaken"],
        )
        live = await found.tenant.get(SECRETS, name, namespace="kube-public")
        assert live["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        await found.tenant.delete(SECRETS, name, namespace="kube-public")
        await has_data(found, name, "kube-public", pull_secret(name)["data"])
        await found.condition_is(READY, "True")


async def test_no_namespace_without_the_label_or_of_a_tenant_is_a_source(
    stage: ManagerStage, inside: LocalControlPlane
):
    async with reconciling(stage, inside) as found:
        marks = ownership.build_owner_labels(TENANT, "web")
        closed = await found.source_namespace("no")
        foreign = await found.source_namespace("enabled", **marks)
        name = fresh_name("pull")
        for namespace in (closed, foreign):
            await found.admin.create(SECRETS, pull_secret(name), namespace=namespace)
        await found.use_policy(rule(closed), rule(foreign))
        said = await found.condition_is(READY, "False", closed)
        assert f"{foreign} belongs to a tenant" in said["message"]
        await asyncio.sleep(0.5)
        await is_gone(found, name, "kube-public")
        label = {"metadata": {"labels": {wellknown.SHARED_SOURCE: "enabled"}}}
        await found.admin.patch(NAMESPACES, closed, label)
        await has_data(found, name, "kube-public", pull_secret(name)["data"])
        away = {"metadata": {"labels": {wellknown.SHARED_SOURCE: None}}}
        await found.admin.patch(NAMESPACES, closed, away)
        await is_gone(found, name, "kube-public")


async def test_a_missing_policy_leaves_the_objects(stage: ManagerStage, inside: LocalControlPlane):
    async with reconciling(stage, inside) as found:
        source, name = await found.source_namespace(), fresh_name("pull")
        await found.admin.create(SECRETS, pull_secret(name), namespace=source)
        await found.use_policy(rule(source))
        await has_data(found, name, "kube-public", pull_secret(name)["data"])
        await found.condition_is(READY, "True")
        await found.set_spec(policyRef={"name": "missing"})
        await found.condition_is(READY, "False", "stay as they are")
        assert await found.tenant.get(SECRETS, name, namespace="kube-public")
