"""Caches of kinds that SyncRules declare: the rules of a target."""

from __future__ import annotations

from kubeio.cache.store import Store
from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS
from tenancy.sync_rules.specs import parse_sync_rule
from tests.support.eventually import eventually
from tests.support.memapi import clusters, verbs
from tests.support.memapi.served import Served
from tests.support.syncer.ruled_caches import WIDGETS, build_rule, follow, put_rule


async def test_a_target_has_the_kinds_whose_copies_follow_pods():
    """They begin and end while the target is connected, and report what it does not serve."""
    cluster, rules = clusters.fresh("c2", "10.96.0.0/16", accounts=False), Store()
    added: list[str] = []
    complete: list[str] = []
    put_rule(rules, name="gadgets")
    async with follow(Served(cluster), rules) as (caches, stores):
        caches.subscribe_added(lambda kind, _: added.append(kind))
        caches.subscribe_complete(complete.append)
        assert caches.describe_rules() == {}
        put_rule(rules, placement="WithPods")
        await eventually(lambda: bool((caches.describe_rules() or {}).get("widgets")))
        reason = "the CustomResourceDefinition widgets.example.io does not exist"
        assert caches.describe_rules() == {"widgets": reason}
        assert caches.describe_unserved("Widget") == reason
        assert not caches.may_have_copies("Widget")
        assert list(stores) == added == ["Widget"]
        clusters.define(cluster, WIDGETS)
        await eventually(lambda: complete == ["Widget"])
        assert caches.describe_rules() == {"widgets": ""}
        assert not caches.may_have_copies("Widget")
        body = {"metadata": {"name": "x", "namespace": "default"}}
        verbs.create(cluster, cluster.of(WIDGETS), "default", body, "test")
        await eventually(lambda: caches.may_have_copies("Widget"))
        for entry in rules.list():
            rules.discard(entry, live=True)
        await eventually(lambda: caches.get_rule("Widget") is None)
        assert caches.describe_rules() == {}
    assert not rules._handlers, "a target that is connected again has new caches"
    assert cluster.of(CUSTOM_RESOURCE_DEFINITIONS).get("", "widgets.example.io")


async def test_a_cache_that_is_prepared_early_is_the_one_that_is_filled():
    cluster, rules = clusters.fresh("c2", "10.96.0.0/16", accounts=False), Store()
    clusters.define(cluster, WIDGETS)
    async with follow(Served(cluster), rules) as (caches, stores):
        early = caches.prepare(parse_sync_rule(build_rule(placement="WithPods")))
        assert not early.synced
        put_rule(rules, placement="WithPods")
        await eventually(lambda: early.synced)
        assert stores == {"Widget": early}
