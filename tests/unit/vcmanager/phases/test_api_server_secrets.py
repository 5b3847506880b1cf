"""When an API server may encrypt with a new key, if there are several (T2-17)."""

import pytest

from tenancy.specs import parse_cluster_version
from tests.support.vcmanager.factories import wish
from vcmanager.phases import api_server_secrets
from vcmanager.runtime.observed import ObservedObjects

KEYS = {"metadata": {"name": "encryption-keys"}, "data": {"aescbc.key": "a2V5"}}


def api_server(*, updated=3, ready=3, observed=2, mounts=True):
    volumes = [{"name": "encryption", "secret": {"secretName": "encryption-keys"}}]
    return {
        "metadata": {"name": "apiserver", "generation": 2},
        "spec": {
            "replicas": 3,
            "template": {"spec": {"volumes": volumes if mounts else []}},
        },
        "status": {
            "observedGeneration": observed,
            "updatedReplicas": updated,
            "readyReplicas": ready,
        },
    }


def may_switch(*, server, keys=KEYS, replicas=3, is_new=False) -> bool:
    spec = {
        "kubernetesVersion": "1.36",
        "replicas": replicas,
        "encryption": {"provider": "aescbc"},
    }
    version = parse_cluster_version({"metadata": {"name": "v"}, "spec": spec})
    objects = {
        "StatefulSet": {"apiserver": server} if server else {},
        "Secret": {"encryption-keys": keys} if keys else {},
    }
    snapshot = ObservedObjects(namespace=None, objects=objects)
    return api_server_secrets._may_switch(wish(version=version, is_new=is_new), snapshot)


def test_after_the_rollout_of_the_key_every_server_reads_it():
    assert may_switch(server=api_server())


@pytest.mark.parametrize(
    ("server", "keys"),
    [
        (api_server(), None),
        (api_server(), {**KEYS, "data": {"secretbox.key": "a2V5"}}),
        (api_server(mounts=False), KEYS),
        (api_server(updated=2), KEYS),
        (api_server(ready=2), KEYS),
        (api_server(observed=1), KEYS),
    ],
)
def test_before_that_one_server_could_not_read_what_another_writes(server, keys):
    assert not may_switch(server=server, keys=keys)


@pytest.mark.parametrize("more", [{"replicas": 1}, {"is_new": True}])
def test_a_single_server_and_an_unused_tenant_need_no_rollout(more):
    assert may_switch(server=api_server(mounts=False), keys=None, **more)
