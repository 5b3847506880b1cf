from vcmanager.plan import volume_claims


def stateful_set(**spec):
    return {
        "kind": "StatefulSet",
        "metadata": {"name": "etcd", "namespace": "root"},
        "spec": {"selector": {"matchLabels": {"component-name": "etcd"}}, **spec},
    }


def test_each_replica_has_a_claim_as_the_controller_makes_it():
    template = {
        "metadata": {"name": "data", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
    }
    made = list(
        volume_claims.iterate_claims(stateful_set(replicas=3, volumeClaimTemplates=[template]))
    )
    assert [each["metadata"]["name"] for each in made] == [f"data-etcd-{n}" for n in range(3)]
    assert made[0]["metadata"] == {
        "name": "data-etcd-0",
        "namespace": "root",
        "labels": {"a": "b", "component-name": "etcd"},
        "annotations": {"c": "d"},
    }
    assert made[0]["spec"] == template["spec"]


def test_without_templates_there_is_nothing_to_claim():
    assert list(volume_claims.iterate_claims(stateful_set())) == []
