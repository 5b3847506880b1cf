"""Fields of a VirtualCluster that the syncer may write, and rights that its owner needs."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_vc.audit import report as audit
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tenancy.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from tests.chart.gate import AdmissionStage, refused, token
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.integration

UID = "7b0a5f0e-0000-4000-8000-000000000001"
"""Of a kube-system."""


async def declared(stage: AdmissionStage, **metadata: Any) -> str:
    """Declare a VirtualCluster and return its name."""
    name = fresh_name("vc")
    await stage.admin.create(
        VIRTUAL_CLUSTERS,
        {
            "apiVersion": VIRTUAL_CLUSTERS.api_version,
            "kind": "VirtualCluster",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"clusterVersionName": "v1.36"},
        },
    )
    return name


async def test_a_virtual_clusters_conditions_and_a_used_confirmation(stage):
    annotations = {wellknown.CONFIRM_DELETES: "u", "mine": "1"}
    name = await declared(stage, annotations=annotations)

    async def patch(body: Object, subresource: str = "") -> object:
        return await stage.thief.patch(
            VIRTUAL_CLUSTERS, name, body, namespace="default", subresource=subresource, dry_run=True
        )

    def condition(kind: str, status: str = "True") -> Object:
        said = {"status": status, "reason": "R", "message": "m"}
        return {"type": kind, **said, "lastTransitionTime": "2026-01-01T00:00:00Z"}

    ready = condition(wellknown.READY)
    own = [
        condition(kind)
        for kind in (
            wellknown.SYNCED,
            wellknown.DELETES_HELD,
            wellknown.TARGETS_GRANTED,
            wellknown.NETWORK_READY,
        )
    ]
    await patch({"status": {"conditions": own}}, "status")  # the first status that there is
    real = {
        "endpoint": "https://192.0.2.1:6443",
        "serviceCidr": "10.96.8.0/22",
        "conditions": [ready],
    }
    await stage.admin.patch(
        VIRTUAL_CLUSTERS, name, {"status": real}, namespace="default", subresource="status"
    )
    await patch({"status": {"conditions": [*own, ready]}}, "status")
    held = {"heldStore": {"uid": UID}}
    await patch({"status": {"conditions": [ready, *own], **held}}, "status")
    restoring = {"disconnectedForRestore": "first@2026-03-01T12:00:00Z"}
    await patch({"status": {"conditions": [ready, *own], **restoring}}, "status")
    await stage.admin.patch(
        VIRTUAL_CLUSTERS, name, {"status": held}, namespace="default", subresource="status"
    )
    await patch({"status": {"heldStore": None}}, "status")
    for forged in (
        {"endpoint": "https://203.0.113.1:6443"},
        {"serviceCidr": None},
        {"phase": "Running"},
        {"conditions": [ready, *own], "endpoint": "https://203.0.113.1:6443"},
        {"conditions": own},
        {"conditions": [condition(wellknown.READY, "False"), *own]},
        {"conditions": [ready, *own, condition(audit.CONDITION)]},
        {"conditions": [ready, condition(wellknown.NETWORK_POLICIES_ENFORCED)]},
    ):
        await refused(lambda f=forged: patch({"status": f}, "status"))
    await patch({"metadata": {"annotations": {wellknown.CONFIRM_DELETES: None}}})
    for wrong in (
        {"spec": {"policyRef": {"name": "baseline"}}},
        {"metadata": {"annotations": {"mine": None}}},
        {"metadata": {"annotations": {wellknown.CONFIRM_DELETES: "v"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/held"]}},
    ):
        await refused(lambda w=wrong: patch(w))


async def test_of_a_super_cluster_the_syncer_writes_one_condition_and_takes_a_word_off(stage):
    name = fresh_name("c")
    annotations = {wellknown.CONFIRM_LOSSES: "u", "mine": "1"}
    metadata = {"name": name, "annotations": annotations}
    body = {"apiVersion": SUPER_CLUSTERS.api_version, "kind": "SuperCluster", "metadata": metadata}
    await stage.admin.create(SUPER_CLUSTERS, {**body, "spec": {"secretRef": {"name": "s"}}})

    async def patch(body: Object, subresource: str = "") -> object:
        return await stage.thief.patch(
            SUPER_CLUSTERS, name, body, subresource=subresource, dry_run=True
        )

    def condition(kind: str) -> Object:
        said = {"status": "True", "reason": "R", "message": "m"}
        return {"type": kind, **said, "lastTransitionTime": "2026-01-01T00:00:00Z"}

    ready, held = condition("Ready"), condition("LossesHeld")
    await patch({"status": {"conditions": [held]}}, "status")  # the first status that there is
    real = {"conditions": [ready], "identity": "i"}
    await stage.admin.patch(SUPER_CLUSTERS, name, {"status": real}, subresource="status")
    await patch({"status": {"conditions": [ready, held]}}, "status")
    losses = {"losses": {"state": "0123456789abcdef", "missing": 5, "total": 5}}
    await patch({"status": {"conditions": [ready, held], **losses}}, "status")
    await stage.admin.patch(SUPER_CLUSTERS, name, {"status": losses}, subresource="status")
    await patch({"status": {"losses": None}}, "status")
    for forged in (
        {"identity": "other"},
        {"observedIdentity": UID},
        {"identity": None},
        {"nodes": 3},
        {"conditions": [held]},
        {"conditions": [{**ready, "message": "other"}, held]},
    ):
        await refused(lambda f=forged: patch({"status": f}, "status"))
    await patch({"metadata": {"annotations": {wellknown.CONFIRM_LOSSES: None}}})
    for wrong in (
        {"spec": {"secretRef": {"name": "another"}}},
        {"metadata": {"annotations": {"mine": None}}},
        {"metadata": {"annotations": {wellknown.CONFIRM_LOSSES: "v"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/held"]}},
    ):
        await refused(lambda w=wrong: patch(w))


# Who may bind a VirtualCluster to a policy, and take our finalizer off.

USER = "owner"


async def let(admin: Client, user: str, *rules: Object) -> None:
    """Let a user do something in the whole cluster."""
    kind, name = "rbac.authorization.k8s.io", fresh_name(user)
    role = {"metadata": {"name": name}, "rules": list(rules)}
    await admin.create(
        resources.CLUSTER_ROLES, {"apiVersion": f"{kind}/v1", "kind": "ClusterRole", **role}
    )
    await admin.create(
        resources.CLUSTER_ROLE_BINDINGS,
        {
            "apiVersion": f"{kind}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": kind, "kind": "User", "name": user}],
        },
    )


def rule(resource: str, *verbs: str, **more: Any) -> Object:
    """Return a rule on one of our kinds."""
    group = VIRTUAL_CLUSTERS.group
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


EDIT = rule("virtualclusters", "get", "create", "update", "patch", "delete")


def bound(policy: str = "") -> Object:
    """Return a VirtualCluster that is bound to a policy."""
    ref = {"policyRef": {"name": policy}} if policy else {}
    return {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": fresh_name("vc"), "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36", **ref},
    }


async def test_only_who_may_use_a_policy_binds_a_tenant_to_it(server, stage):
    user = fresh_name(USER)
    use = rule("tenantpolicies", "use", resourceNames=["trusted"])
    await let(stage.admin, user, EDIT, use, rule("clusterversions", "use"))
    policy = "virtual-cluster-policies"
    async with Client(server.plane.endpoint_for(user)) as owner:
        told = await refused(
            lambda: owner.create(VIRTUAL_CLUSTERS, bound("conformance"), dry_run=True), policy
        )
        assert "may not bind a VirtualCluster to the TenantPolicy 'conformance'" in told
        for allowed in ("", "baseline", "trusted"):
            await owner.create(VIRTUAL_CLUSTERS, bound(allowed), dry_run=True)

        async def rebind(name: str, to: str | None, **spec: Any) -> object:
            ref = {"name": to} if to else None
            body = {"spec": {"policyRef": ref, **spec}}
            return await owner.patch(
                VIRTUAL_CLUSTERS, name, body, namespace="default", dry_run=True
            )

        made = await stage.admin.create(VIRTUAL_CLUSTERS, bound("conformance"))
        name = made["metadata"]["name"]
        await rebind(name, "conformance", pkiExpireDays=30)  # what an administrator bound stays
        await rebind(name, "trusted")
        await refused(lambda: rebind(name, "other"), policy)


async def test_an_owner_leaves_a_named_policy_only_with_the_verb_use_on_baseline(server, stage):
    """SEC-212."""
    user, policy = fresh_name(USER), "virtual-cluster-policies"
    await edit_in(stage.admin, user, "default")
    made = await stage.admin.create(VIRTUAL_CLUSTERS, bound("restricted"))
    free = await stage.admin.create(VIRTUAL_CLUSTERS, bound())
    async with Client(server.plane.endpoint_for(user)) as owner:

        async def rebind(body: Object, ref: object, **spec: Any) -> object:
            name = body["metadata"]["name"]
            patch = {"spec": {"policyRef": ref, **spec}}
            return await owner.patch(
                VIRTUAL_CLUSTERS, name, patch, namespace="default", dry_run=True
            )

        await eventually(lambda: rebind(made, {"name": "restricted"}, pkiExpireDays=30))
        for ref in (None, {"name": "baseline"}):
            told = await refused(lambda r=ref: rebind(made, r), policy)
            assert "the TenantPolicy 'baseline'" in told
            assert told.endswith("or keep spec.policyRef as it is")
            await rebind(free, ref)  # both are the policy that it has
        whole = await owner.get(VIRTUAL_CLUSTERS, made["metadata"]["name"], namespace="default")
        del whole["spec"]["policyRef"]
        await refused(lambda: owner.replace(VIRTUAL_CLUSTERS, whole, dry_run=True), policy)
        await owner.create(VIRTUAL_CLUSTERS, bound(), dry_run=True)
        use = rule("tenantpolicies", "use", resourceNames=["baseline"])
        await let(stage.admin, user, use)
        await eventually(lambda: rebind(made, None))
        await rebind(made, {"name": "baseline"})


async def test_a_namespace_may_require_a_policy_that_its_user_may_use(server, stage):
    """SEC-212: otherwise an owner deletes the tenant and creates it again without its policy."""
    user, policy, space = fresh_name(USER), "virtual-cluster-policies", fresh_name("strangers")
    labels = {wellknown.POLICY_REQUIRED: "enabled"}
    metadata = {"name": space, "labels": labels}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    await stage.admin.create(resources.NAMESPACES, body)
    await edit_in(stage.admin, user, space)
    await edit_in(stage.admin, user, "default")
    await let(stage.admin, user, rule("tenantpolicies", "use", resourceNames=["restricted"]))
    async with Client(server.plane.endpoint_for(user)) as owner:

        async def make(name: str, namespace: str = space) -> object:
            made = bound(name)
            made["metadata"]["namespace"] = namespace
            return await owner.create(VIRTUAL_CLUSTERS, made, dry_run=True)

        await eventually(lambda: make("restricted"))
        for name in ("", "baseline"):
            told = await refused(lambda n=name: make(n), policy)
            assert told.endswith("or name another one in spec.policyRef")
            await eventually(lambda n=name: make(n, "default"))
        await let(stage.admin, user, rule("tenantpolicies", "use", resourceNames=["baseline"]))
        await eventually(lambda: make(""))


async def edit_in(admin: Client, user: str, namespace: str) -> None:
    """Bind virtual-cluster-edit of the chart in a namespace."""
    kind = "rbac.authorization.k8s.io"
    await admin.create(
        resources.ROLE_BINDINGS,
        {
            "apiVersion": f"{kind}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": fresh_name("edit"), "namespace": namespace},
            "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": "virtual-cluster-edit"},
            "subjects": [{"apiGroup": kind, "kind": "User", "name": user}],
        },
    )


async def test_an_owner_uses_the_shipped_versions_and_no_other(server, stage):
    """SEC-209."""
    owner_name, policy = fresh_name(USER), "virtual-cluster-versions"
    await edit_in(stage.admin, owner_name, "default")
    other = fresh_name("old")
    async with Client(server.plane.endpoint_for(owner_name)) as owner:

        async def make(version: str, namespace: str = "default") -> object:
            body = bound()
            body["metadata"]["namespace"] = namespace
            body["spec"]["clusterVersionName"] = version
            return await owner.create(VIRTUAL_CLUSTERS, body, dry_run=True)

        for version in ("v1.36", "v1.35"):
            await eventually(lambda v=version: make(v))
        told = await refused(lambda: make(other), policy)
        assert f"you may not use the ClusterVersion '{other}'" in told
        body = bound()
        body["spec"]["clusterVersionName"] = other
        made = await stage.admin.create(VIRTUAL_CLUSTERS, body)
        name = made["metadata"]["name"]

        async def change(spec: Object) -> object:
            return await owner.patch(
                VIRTUAL_CLUSTERS, name, {"spec": spec}, namespace="default", dry_run=True
            )

        await change({"pkiExpireDays": 30})  # what an administrator chose stays
        await change({"clusterVersionName": "v1.36"})
        await refused(lambda: change({"clusterVersionName": "another"}), policy)
        # A version of an administrator's own is opened by the verb `use` on it.
        await let(stage.admin, owner_name, rule("clusterversions", "use", resourceNames=[other]))
        await eventually(lambda: make(other))


async def test_only_who_may_use_a_target_sends_pods_there(server, stage):
    """SEC-209."""
    user, policy = fresh_name(USER), "virtual-cluster-targets"
    own = [f"own-{number}" for number in range(18)]
    await let(
        stage.admin,
        user,
        EDIT,
        rule("superclusters", "use", resourceNames=own),
        rule("clusterversions", "use"),
    )
    async with Client(server.plane.endpoint_for(user)) as owner:

        def going_to(*targets: str) -> Object:
            body = bound()
            body["spec"]["targets"] = [{"name": each} for each in targets]
            return body

        async def make(*targets: str) -> object:
            return await owner.create(VIRTUAL_CLUSTERS, going_to(*targets), dry_run=True)

        await eventually(make)
        for allowed in (own[:1], own[:2], own[:16]):  # within the budget of the API server
            await make(*allowed)
        for number in (0, 1, 7, 15):
            targets = own[:15]
            targets.insert(number, "payments")
            told = await refused(lambda t=targets: make(*t), policy)
            assert "you may not use the SuperCluster 'payments'" in told
        await refused(lambda: make("home"), policy)
        told = ""
        try:
            await make(*own[:17])
        except errors.ApiError as problem:
            told = problem.server_message
        assert "may add at most 16 names to spec.targets" in told

        made = await stage.admin.create(VIRTUAL_CLUSTERS, going_to("payments", "home"))
        name = made["metadata"]["name"]

        async def retarget(*targets: str) -> object:
            body = {"spec": {"targets": [{"name": each} for each in targets]}}
            return await owner.patch(
                VIRTUAL_CLUSTERS, name, body, namespace="default", dry_run=True
            )

        await retarget("home", "payments", own[0])  # what an administrator granted stays
        await retarget("home")
        await retarget()
        await refused(lambda: retarget("home", "payments", "other"), policy)


async def test_only_who_may_suspend_a_tenant_stops_and_resumes_its_sync(server, stage):
    user, right = fresh_name(USER), fresh_name("rightful")
    use = rule("clusterversions", "use")
    await let(stage.admin, user, EDIT, use)
    role = await stage.admin.get(resources.CLUSTER_ROLES, "virtual-cluster-admin")
    await let(stage.admin, right, *role["rules"])
    policy = "virtual-cluster-suspend"
    running, stopped = bound(), bound()
    stopped["spec"]["suspend"] = True
    for body in (running, stopped):
        await stage.admin.create(VIRTUAL_CLUSTERS, body)

    async def set_to(client: Client, body: Object, value: bool | None) -> object:
        patch = {"spec": {"suspend": value, "pkiExpireDays": 30}}
        name = body["metadata"]["name"]
        return await client.patch(VIRTUAL_CLUSTERS, name, patch, namespace="default", dry_run=True)

    async with (
        Client(server.plane.endpoint_for(user)) as owner,
        Client(server.plane.endpoint_for(right)) as operator,
    ):
        for body, same, other in ((running, False, True), (stopped, True, False)):
            await set_to(owner, body, same)
            told = await refused(lambda b=body, o=other: set_to(owner, b, o), policy)
            assert "may not change spec.suspend" in told
            await set_to(operator, body, other)
        await refused(lambda: set_to(owner, stopped, None), policy)
        await set_to(owner, running, None)
        made = bound()
        made["spec"]["suspend"] = True
        await refused(lambda: owner.create(VIRTUAL_CLUSTERS, made, dry_run=True), policy)


async def test_only_who_may_delete_a_tenant_changes_its_expiry(server, stage):
    """SEC-211."""
    user, right = fresh_name(USER), fresh_name("rightful")
    use = rule("clusterversions", "use")
    changing = rule("virtualclusters", "get", "create", "update", "patch")
    await let(stage.admin, user, changing, use)
    await let(stage.admin, right, EDIT, use)
    policy, moment = "virtual-cluster-expiry", "2100-01-01T00:00:00Z"
    endless, ending = bound(), bound()
    ending["spec"]["expiresAt"] = moment
    for body in (endless, ending):
        await stage.admin.create(VIRTUAL_CLUSTERS, body)

    async def set_to(client: Client, body: Object, value: str | None) -> object:
        patch = {"spec": {"expiresAt": value, "sleep": {}}}
        name = body["metadata"]["name"]
        return await client.patch(VIRTUAL_CLUSTERS, name, patch, namespace="default", dry_run=True)

    async with (
        Client(server.plane.endpoint_for(user)) as owner,
        Client(server.plane.endpoint_for(right)) as operator,
    ):
        rows = (
            (endless, None, moment),
            (ending, moment, None),
            (ending, moment, "2026-01-01T00:00:00Z"),
        )
        for body, same, other in rows:
            await set_to(owner, body, same)
            told = await refused(lambda b=body, o=other: set_to(owner, b, o), policy)
            assert "may not change spec.expiresAt" in told
            await set_to(operator, body, other)


async def test_our_finalizer_is_taken_off_by_the_manager_or_by_right(server, stage):
    user, right = fresh_name(USER), fresh_name("rightful")
    await let(stage.admin, user, EDIT)
    await let(stage.admin, right, EDIT, rule("virtualclusters/finalizers", "update"))
    name = await declared(stage, finalizers=[wellknown.FINALIZER, "example.com/own"])
    plane = server.plane

    async def take_off(client: Client, *left: str, **metadata: Any) -> object:
        body = {"metadata": {"finalizers": list(left) or None, **metadata}}
        return await client.patch(VIRTUAL_CLUSTERS, name, body, namespace="default", dry_run=True)

    async with Client(plane.endpoint_for(user)) as owner:
        for left in ((), ("example.com/own",)):
            told = await refused(lambda e=left: take_off(owner, *e), "virtual-cluster-finalizer")
            assert "when all objects of the tenant are deleted" in told
        await take_off(owner, wellknown.FINALIZER)  # one of his own
        await take_off(owner, wellknown.FINALIZER, "example.com/own", labels={"a": "b"})
        await owner.delete(VIRTUAL_CLUSTERS, name, namespace="default")
        await refused(lambda: take_off(owner), "virtual-cluster-finalizer")
    async with Client(plane.endpoint_for(right)) as rightful:
        await take_off(rightful)
    own = plane.endpoint_with_token(token=await token(stage.admin, "vc-manager"))
    async with Client(own) as manager:
        await take_off(manager)
    await stage.admin.patch(
        VIRTUAL_CLUSTERS, name, {"metadata": {"finalizers": None}}, namespace="default"
    )
