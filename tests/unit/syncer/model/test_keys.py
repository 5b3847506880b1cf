"""Keys of the work queue and the groups that share it fairly."""

from __future__ import annotations

from syncer.model.keys import HOME, Key, group_of

KEY = Key("vc", HOME, "Pod", "web", "p")


def test_queues_are_fair_between_tenants_and_between_the_super_clusters_of_each():
    assert group_of(KEY) == "vc"
    assert group_of(KEY._replace(super_cluster="c2")) == "vc@c2"
