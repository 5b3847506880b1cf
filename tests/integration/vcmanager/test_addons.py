"""Manifests at the birth of a tenant: applied once for each content, with named mistakes."""

from __future__ import annotations

import asyncio

from kubeio import Object
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.content_stage import ContentStage, reconciling
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name

APPLIED = wellknown.ADDONS_APPLIED


def manifests(space: str, value: str) -> str:
    """Return a namespace and a ConfigMap in it, in the wrong order."""
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: {space}}}
data: {{mode: "{value}"}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: {space}}}
"""


async def write(found: ContentStage, name: str, text: str) -> None:
    """Create or change the ConfigMap of an addon."""
    body: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"all.yaml": text},
    }
    await found.admin.apply(CONFIG_MAPS, body, field_manager="test")


async def mode_is(found: ContentStage, space: str, value: str) -> None:
    await eventually(
        lambda: found.tenant.get(CONFIG_MAPS, "settings", namespace=space),
        until=lambda body: body["data"]["mode"] == value,
    )


async def test_applied_in_order_and_again_after_a_change_only(
    stage: ManagerStage, inside: LocalControlPlane
):
    name, space = fresh_name("addon"), fresh_name("space")
    async with reconciling(stage, inside, addons=[{"name": name}]) as found:
        await found.condition_is(APPLIED, "False", f"ConfigMap {name} does not exist")
        await write(found, name, manifests(space, "one"))
        await mode_is(found, space, "one")
        await found.condition_is(APPLIED, "True", name)
        before = (await found.fetch())["status"]["addons"]
        assert [each["name"] for each in before] == [name]

        edit = {"data": {"mode": "mine"}}
        await found.tenant.patch(CONFIG_MAPS, "settings", edit, namespace=space)
        found.wake()
        await asyncio.sleep(1)
        await mode_is(found, space, "mine")

        await write(found, name, manifests(space, "two"))
        await mode_is(found, space, "two")
        namespace_only = manifests(space, "two").partition("---\n")[2]
        await write(found, name, namespace_only)
        await eventually(
            found.fetch, until=lambda body: body["status"]["addons"][0] not in (*before,)
        )
        await asyncio.sleep(0.5)
        await mode_is(found, space, "two")  # nothing is deleted


async def test_a_mistake_is_named_with_object_and_field_and_its_correction_is_applied(
    stage: ManagerStage, inside: LocalControlPlane
):
    name, space = fresh_name("addon"), fresh_name("space")
    async with reconciling(stage, inside, addons=[{"name": name}]) as found:
        await write(found, name, manifests(space, "one").replace("\ndata:", "\ndate:"))
        said = await found.condition_is(APPLIED, "False", f"ConfigMap {space}/settings")
        assert "date" in said["message"]
        assert "document 1" in said["message"]
        await write(found, name, "apiVersion: v1\nkind: [")
        await found.condition_is(APPLIED, "False", "is no YAML")
        await write(found, name, "{apiVersion: x.example/v1, kind: Thing, metadata: {name: a}}")
        await found.condition_is(APPLIED, "False", "serves no kind Thing of x.example/v1")
        assert not (await found.fetch())["status"].get("addons")
        await write(found, name, manifests(space, "one"))
        await mode_is(found, space, "one")
        await found.condition_is(APPLIED, "True")


async def test_a_definition_and_an_object_of_it(stage: ManagerStage, inside: LocalControlPlane):
    name, plural = fresh_name("addon"), fresh_name("t").replace("-", "") + "s"
    group = "addons.example.com"
    text = f"""\
apiVersion: {group}/v1
kind: K{plural}
metadata: {{name: first}}
spec: {{size: 3}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: {plural}, singular: {plural}x, kind: K{plural}, listKind: K{plural}List}}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {{spec: {{type: object, properties: {{size: {{type: integer}}}}}}}}
"""
    async with reconciling(stage, inside, addons=[{"name": name}]) as found:
        await write(found, name, text)
        await found.condition_is(APPLIED, "True")
        made = await found.tenant.get(
            Resource(group, "v1", plural, f"K{plural}"), "first", namespace="default"
        )
        assert made["spec"] == {"size": 3}
        await found.tenant.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.{group}")


async def test_without_the_field_the_condition_goes_and_the_objects_stay(
    stage: ManagerStage, inside: LocalControlPlane
):
    name, space = fresh_name("addon"), fresh_name("space")
    async with reconciling(stage, inside, addons=[{"name": name}]) as found:
        await write(found, name, manifests(space, "one"))
        await found.condition_is(APPLIED, "True")
        await found.set_spec(addons=None)
        await eventually(
            found.fetch,
            until=lambda body: not {"addons", "conditions"} & {*body.get("status", {})},
        )
        assert await found.tenant.get(NAMESPACES, space)
