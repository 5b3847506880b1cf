"""Refusals of the super cluster for objects of a root namespace."""

import pytest

from kubeio import errors
from tests.support.vcmanager.factories import RecordingClient, fake_means, workload
from vcmanager.phases import apply
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects

REFUSAL = 'spec.template.spec.nodeSelector: Invalid value: "a b": name part must consist of'


@pytest.mark.parametrize("problem", [errors.Invalid, errors.BadRequest])
async def test_a_refused_object_is_named_with_its_field(problem):
    super_client = RecordingClient()
    super_client.problems["apply", "etcd"] = problem(REFUSAL)
    nothing = ObservedObjects(namespace=None, objects={})
    with pytest.raises(PhaseBlocked) as raised:
        await apply.apply_changed(fake_means(super_client), [workload()], nothing)
    assert raised.value.needs_admin
    assert raised.value.reason == "InvalidTemplate"
    for part in ("The super cluster rejected the StatefulSet etcd", REFUSAL, "ClusterVersion"):
        assert part in raised.value.message
