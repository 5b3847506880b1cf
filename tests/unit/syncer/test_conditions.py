"""What is said of a VirtualCluster, in as many words as its definition allows."""

from __future__ import annotations

import pytest

from syncer.tenants import conditions

MANY = [f"target-{number:04}" for number in range(200)]


@pytest.mark.parametrize("message", ["x" * 5000, ""])
def test_no_message_is_longer_than_a_condition_may_have(message: str):
    said = [
        conditions.synced(reason=conditions.ENGAGED, message=message, generation=1),
        conditions.deletes_held(message=message, generation=1),
        conditions.targets_granted(missing=MANY, generation=1),
    ]
    assert all(len(each["message"]) <= conditions._MAX_MESSAGE for each in said)


def test_targets_that_nobody_declared_are_named_with_what_to_do():
    (said, fine) = (conditions.targets_granted(missing=m, generation=1) for m in (["c9"], []))
    assert (said["status"], said["reason"]) == ("False", conditions.NO_SUCH_TARGET)
    assert said["message"].startswith("There is no SuperCluster c9, which spec.targets names; join")
    assert said["message"].endswith("or take it out.")
    assert (fine["status"], fine["reason"]) == ("True", conditions.GRANTED)
