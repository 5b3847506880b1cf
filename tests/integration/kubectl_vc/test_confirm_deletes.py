"""`kubectl vc confirm-deletes` on a VirtualCluster of a real API server."""

from tenancy import wellknown
from tenancy.resources import VIRTUAL_CLUSTERS
from tests.integration.kubectl_vc.conftest import UserTerminal


async def test_held_deletes_are_confirmed_for_the_store_that_was_named(desk: UserTerminal):
    await desk.make()
    none_held = await desk.run("confirm-deletes", "web", "-n", desk.namespace)
    assert none_held.code == 1
    assert "no held deletes" in none_held.err
    store = "0b0e4a58-1c4f-4f5e-9b39-4a4d0a8f3a11"
    await desk.report(DeletesHeld=("True", "StoreChanged", "another store"))
    older = await desk.run("confirm-deletes", "web", "-n", desk.namespace)
    assert (older.code, "status.heldStore is missing" in older.err) == (1, True)
    await desk.client.patch(
        VIRTUAL_CLUSTERS,
        "web",
        {"status": {"heldStore": {"uid": store}}},
        namespace=desk.namespace,
        subresource="status",
    )
    for how in ("client", "server"):
        words = ("confirm-deletes", "web", "-n", desk.namespace, f"--dry-run={how}")
        assert "dry run" in (await desk.run(*words)).out
        assert wellknown.CONFIRM_DELETES not in (await desk.fetch())["metadata"].get(
            "annotations", {}
        )
    done = await desk.run("confirm-deletes", "web", "-n", desk.namespace)
    assert done.code == 0, done.err
    assert (await desk.fetch())["metadata"]["annotations"] == {wellknown.CONFIRM_DELETES: store}
