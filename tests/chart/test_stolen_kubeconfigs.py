"""Bounds of a stolen token of vc-manager beside VirtualClusters: Secrets of two names.

A kubeconfig Secret in a namespace of users could register a cluster in Argo CD.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import Object
from tenancy import resources, wellknown
from tests.chart.gate import refused
from tests.chart.stolen_tokens import MANAGER, StolenTokens, body
from tests.support.helm import NAMESPACE
from tests.support.names import fresh_name

pytestmark = pytest.mark.integration


def tool_secret(name: str, namespace: str, owner: str, **changes: Any) -> Object:
    """Return a kubeconfig Secret of a VirtualCluster, as vc-manager writes it beside it."""
    uid = changes.pop("uid", "uid-of-owner")
    reference = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "VirtualCluster",
        "name": owner,
        "uid": uid,
    }
    made = body("Secret", name, namespace, type=changes.pop("type", "cluster.x-k8s.io/secret"))
    made["metadata"] |= {
        "labels": {wellknown.KUBECONFIG_SECRETS: uid},
        "ownerReferences": [reference],
        **changes,
    }
    return made


async def test_the_managers_token_writes_kubeconfigs_only_where_a_namespace_allows_it(
    stolen: StolenTokens,
):
    """SEC-242."""
    admin, thief = stolen.stage.admin, stolen.manager
    enabled, plain = fresh_name("enabled"), fresh_name("plain")
    labels = {wellknown.KUBECONFIG_SECRETS: "enabled"}
    await admin.create(resources.NAMESPACES, {"metadata": {"name": enabled, "labels": labels}})
    await admin.create(resources.NAMESPACES, {"metadata": {"name": plain}})

    for made in (
        tool_secret("shop-kubeconfig", enabled, "shop"),
        tool_secret("shop-argocd-cluster", enabled, "shop", type="Opaque"),
    ):
        await thief.create(resources.SECRETS, made, dry_run=True)
    for made in (
        tool_secret("shop-kubeconfig", plain, "shop"),
        tool_secret("shop-kubeconfig", "kube-system", "shop"),
        tool_secret("shop-kubeconfig", NAMESPACE, "shop"),
        tool_secret("other", enabled, "shop"),
        tool_secret("shop-kubeconfig", enabled, "other"),
        tool_secret("shop-kubeconfig", enabled, "shop", type="Opaque"),
        tool_secret("shop-argocd-cluster", enabled, "shop"),
        tool_secret("shop-kubeconfig", enabled, "shop", ownerReferences=[]),
        tool_secret("shop-kubeconfig", enabled, "shop", labels={}),
    ):
        await refused(lambda b=made: thief.create(resources.SECRETS, b, dry_run=True), MANAGER)

    # A foreign Secret of that name is neither changed, nor adopted, nor deleted.
    foreign = body("Secret", "own-kubeconfig", enabled, type="cluster.x-k8s.io/secret")
    live = await admin.create(resources.SECRETS, foreign)
    adopted = tool_secret("own-kubeconfig", enabled, "own")
    adopted["metadata"]["uid"] = live["metadata"]["uid"]
    await refused(
        lambda: thief.apply(resources.SECRETS, adopted, field_manager="x", dry_run=True), MANAGER
    )
    await refused(
        lambda: thief.delete(resources.SECRETS, "own-kubeconfig", namespace=enabled, dry_run=True),
        MANAGER,
    )
    path = resources.SECRETS.build_path(enabled)
    await refused(lambda: thief.raw("DELETE", path, params={"dryRun": "All"}), MANAGER)

    # An own one is changed and deleted, also when the namespace no longer allows it.
    ours = await admin.create(resources.SECRETS, tool_secret("shop-kubeconfig", enabled, "shop"))
    changed = tool_secret("shop-kubeconfig", enabled, "shop")
    changed["metadata"]["uid"] = ours["metadata"]["uid"]
    changed["data"] = {"value": "eA=="}
    await thief.apply(resources.SECRETS, changed, field_manager="x", dry_run=True)
    other = tool_secret("shop-kubeconfig", enabled, "shop", uid="another")
    await refused(
        lambda: thief.apply(resources.SECRETS, other, field_manager="x", dry_run=True), MANAGER
    )
    no_label = {"metadata": {"labels": {wellknown.KUBECONFIG_SECRETS: None}}}
    await admin.patch(resources.NAMESPACES, enabled, no_label)
    await refused(
        lambda: thief.apply(resources.SECRETS, changed, field_manager="x", dry_run=True), MANAGER
    )
    await thief.delete(resources.SECRETS, "shop-kubeconfig", namespace=enabled, dry_run=True)
