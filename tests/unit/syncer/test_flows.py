"""What keys do when an API, a tenant or a stranger is not as it should be."""

from __future__ import annotations

import pytest

from kubeio.worker import Wait
from syncer import downward, kinds
from syncer.flows import pods
from tenancy import names
from tests.unit.syncer.sessions import TOKEN_MARKS, World

CONTAINERS = [{"name": "main", "image": "i"}]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Secret", f"{names.TOKEN_SECRET_PREFIX}0123456789"),
        ("ConfigMap", names.SUPER_ROOT_CA),
    ],
)
async def test_a_tenant_object_of_a_reserved_name_has_none_of_our_objects_as_twin(kind, name):
    world = World()
    world.super_has(kind, name, uid="another-uid", metadata={"annotations": TOKEN_MARKS})
    world.tenant_has(kind, name)
    world.above.objects[kind, name] = {"metadata": {"uid": f"{name}-uid"}}
    key = world.key(kind, "web", name)
    world.session.reminders.linger_seconds = 0
    await downward.reconcile(kinds.BY_NAME[kind], key, world.session)
    assert not world.below.writes()
    assert not world.below.asked


def pod_with(world: World, **spec: object) -> None:
    """Have a tenant pod that is to be made below."""
    world.ready()
    world.tenant_has(
        "Pod", "p", spec={"containers": CONTAINERS, **spec}, status={"phase": "Pending"}
    )


MOUNT = [{"name": "x", "secret": {"secretName": "registry"}}]


async def test_a_pod_that_names_a_strangers_object_is_not_made():
    world = World()
    pod_with(world, volumes=MOUNT)
    world.below.objects["Secret", "registry"] = {"metadata": {"uid": "s", "resourceVersion": "1"}}
    with pytest.raises(Wait):
        await pods.reconcile(kinds.BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session)
    assert not world.below.writes()
    assert world.told() == [downward.NAME_TAKEN]


async def test_an_object_that_may_not_go_down_leaves_its_name_to_a_stranger_but_not_the_pod():
    world = World()
    world.tenant_has("Secret", "registry", type="bootstrap.kubernetes.io/token")
    pod_with(world, volumes=MOUNT)
    world.below.objects["Secret", "registry"] = {"metadata": {"uid": "s", "resourceVersion": "1"}}
    with pytest.raises(Wait):
        await pods.reconcile(kinds.BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session)
    assert not world.below.writes()


async def test_a_pod_that_names_what_nobody_has_is_the_kubelets_to_judge():
    world = World()
    pod_with(world, volumes=MOUNT)
    await pods.reconcile(kinds.BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session)
    assert [(verb, kind) for verb, kind, _ in world.below.writes()] == [("create", "Pod")]
