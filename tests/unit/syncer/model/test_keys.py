"""Keys of the work queue and the groups that share it fairly."""

from __future__ import annotations

from syncer.model.keys import HOME, Key, build_group

KEY = Key("vc", HOME, "Pod", "web", "p")


def test_queues_are_fair_between_tenants_and_between_the_super_clusters_of_each():
    assert build_group(KEY) == "vc"
    assert build_group(KEY._replace(super_cluster="c2")) == "vc@c2"
