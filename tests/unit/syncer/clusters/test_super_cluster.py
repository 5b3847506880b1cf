"""Objects of a super cluster that are watched, and the bound of their lists."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeio import Object
from kubeio.cache.reflector import Reflector
from syncer import rbac
from syncer.clusters import super_cluster
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.super_cluster import TARGET_RESOURCES, SuperCluster
from tenancy.resources import SELF_SUBJECT_REVIEWS, Resource
from tests.support.syncer.sessions import RecordingClient


def test_a_target_is_watched_for_pods_and_what_they_need_and_nothing_else():
    plurals = {resource.plural for resource in TARGET_RESOURCES}
    assert plurals == {
        "configmaps",
        "namespaces",
        "networkpolicies",
        "poddisruptionbudgets",
        "pods",
        "secrets",
        "serviceaccounts",
    }
    watched = {
        each.resource.plural
        for each in SuperCluster(RecordingClient(), name="c2").reflectors  # type: ignore[arg-type]
    }
    assert watched == plurals | {"nodes", "servicecidrs", "events"}
    rows = (*rbac.TARGET_RBAC_RULES, *rbac.NAMESPACE_RBAC_RULES)
    granted = {name for row in rows for name in row.resources}
    assert watched <= granted


def test_what_may_be_kept_of_a_list_is_bounded_in_a_target_alone():
    api: Any = RecordingClient()
    there = SuperCluster(api, name="c2", registration="r1").reflectors
    assert {each._options.max_list_bytes for each in there} == {super_cluster.MAX_LIST_BYTES}  # type: ignore[union-attr]
    home = HomeCluster(api, namespace="vc-manager").reflectors
    own = [each for each in home if isinstance(each, Reflector)]
    assert {each._options.max_list_bytes for each in own} == {None}


async def test_many_namespaces_at_once_ask_for_the_own_account_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[Resource] = []
    api: Any = RecordingClient()

    async def create(resource: Resource, _body: Object) -> Object:
        sent.append(resource)
        await asyncio.sleep(0)
        name = "system:serviceaccount:vc-manager:vc-syncer"
        return {"status": {"userInfo": {"username": name}}}

    monkeypatch.setattr(api, "create", create, raising=False)
    cluster = SuperCluster(api, name="c2")
    subjects = await asyncio.gather(*(cluster.fetch_subject() for _ in range(3)))
    assert sent == [SELF_SUBJECT_REVIEWS]
    assert {each["name"] for each in subjects} == {"vc-syncer"}
