"""Which manifests are applied, in which order, and how a refusal reads."""

from __future__ import annotations

import json
from typing import Any

from kubeio import errors
from tenancy.specs import parse_virtual_cluster
from tests.support.vcmanager.factories import UID, RecordingClient, fake_means
from vcmanager.phases.content import addons
from vcmanager.phases.content.addons import apply_addons
from vcmanager.plan.content import addon_manifests

SERVED = {
    "/api/v1": [
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
        {"name": "namespaces/status", "kind": "Namespace", "namespaced": False},
    ]
}
TEXT = (
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n"
    "{apiVersion: v1, kind: Namespace, metadata: {name: web}}"
)


class TenantApi(RecordingClient):
    """Stands where the tenant's API is."""

    def __init__(self, problem: Exception | None = None, refused: str = "") -> None:
        super().__init__()
        self.refused = refused
        """Kind that the API refuses."""
        self.problem, self.paths = problem, list[str]()
        self.applied: list[str] = []

    async def raw(self, _method: str, path: str) -> bytes:
        self.paths.append(path)
        if path not in SERVED:
            raise errors.NotFound("no such group")
        return json.dumps({"resources": SERVED[path]}).encode()

    async def apply(self, resource: Any, body: Any, **options: Any) -> Any:
        assert options == {"field_manager": "vc-manager-addons", "validation": "Strict"}
        if self.problem is not None:
            raise self.problem
        if body["kind"] == self.refused:
            raise errors.Forbidden("403")
        self.applied.append(resource.build_path(body["metadata"].get("namespace", "")))


def config_map(text: str = TEXT) -> dict[str, Any]:
    return {"metadata": {"name": "base"}, "data": {"all.yaml": text}}


async def run(api: TenantApi, *, digest: str = "", addons: Any = (), **objects: Any) -> Any:
    status = {"addons": [{"name": "base", "digest": digest}] if digest else list(addons)}
    body = {
        "metadata": {"name": "vc-1", "namespace": "default", "uid": UID},
        "spec": {"clusterVersionName": "v", "addons": [{"name": "base"}]},
        "status": status,
    }
    means = fake_means(RecordingClient(objects))
    return await apply_addons(means, api, parse_virtual_cluster(body))  # type: ignore[arg-type]


async def test_objects_are_applied_in_order_by_their_discovered_resource():
    api = TenantApi()
    found = await run(api, base=config_map())
    assert api.applied == ["/api/v1/namespaces", "/api/v1/namespaces/default/configmaps"]
    assert api.paths == ["/api/v1"]
    digest = addon_manifests.compute_digest(config_map())
    assert found == addons.AddonResult(({"name": "base", "digest": digest},), ())


async def test_a_content_that_was_applied_is_not_applied_again():
    api = TenantApi()
    digest = addon_manifests.compute_digest(config_map())
    found = await run(api, digest=digest, base=config_map())
    assert (api.applied, api.paths) == ([], [])
    assert found.applied == ({"name": "base", "digest": digest},)
    await run(api, digest="older", base=config_map())
    assert len(api.applied) == 2


async def test_a_missing_config_map_is_named_and_its_digest_stays():
    found = await run(TenantApi(), digest="d")
    assert "ConfigMap base does not exist" in found.problems[0]
    assert found.applied == ({"name": "base", "digest": "d"},)


async def test_a_refusal_names_the_object_and_the_field():
    details = {"causes": [{"field": "data.x", "message": "must be a text"}]}
    found = await run(TenantApi(errors.Invalid("422", details=details)), base=config_map())
    assert found.applied == ()
    assert "ConfigMap base, all.yaml, document 2: Namespace web: data.x: must be a text" in str(
        found.problems
    )


async def test_a_refused_object_does_not_apply_the_others_again():
    """A repetition would revert the tenant's edits every 30 s."""
    api = TenantApi(refused="Namespace")
    first = await run(api, base=config_map())
    assert api.applied == ["/api/v1/namespaces/default/configmaps"]
    (recorded,) = first.applied
    assert recorded["digest"] == ""
    second = await run(api, addons=first.applied, base=config_map())
    assert len(api.applied) == 1
    assert second == first
    changed = config_map(TEXT.replace("{name: a}", "{name: a, labels: {b: c}}"))
    await run(api, addons=first.applied, base=changed)
    assert len(api.applied) == 2
    api.refused = ""
    last = await run(api, addons=first.applied, base=config_map())
    assert api.applied[2:] == ["/api/v1/namespaces"]
    digest = addon_manifests.compute_digest(config_map())
    assert last == addons.AddonResult(({"name": "base", "digest": digest},), ())


async def test_a_kind_that_is_not_served_is_named():
    text = "{apiVersion: x.example/v1, kind: Thing, metadata: {name: a}}"
    found = await run(TenantApi(), base=config_map(text))
    assert "serves no kind Thing of x.example/v1" in found.problems[0]


async def test_many_problems_are_counted():
    many = "\n---\n".join(["{apiVersion: y/v1, kind: T, metadata: {name: a}}"] * 9)
    found = await run(TenantApi(), base=config_map(many))
    assert len(found.problems) == 6
    assert "4 more" in found.problems[-1]
