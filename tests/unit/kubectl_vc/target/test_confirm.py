"""`kubectl vc target confirm`: a confirmation of exactly the loss that the status names."""

from __future__ import annotations

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.target import confirm
from tests.support.kubectl_vc.super_clusters import HOME_UID, held

LOSS = {"type": "LossesHeld", "status": "True", "message": "(state fedcba9876543210)"}
ANOTHER = {"type": "Reachable", "status": "False", "reason": "IdentityChanged", "message": "m"}
STATE = {"state": "0123456789abcdef", "missing": 5, "total": 5}


def test_what_is_confirmed_is_what_the_status_names():
    assert confirm.build_confirmation("c2", held(LOSS, losses=STATE))[0] == "0123456789abcdef"
    both = held(LOSS, ANOTHER, losses=STATE, observedIdentity=HOME_UID)
    word, meant = confirm.build_confirmation("c2", both)
    assert word == HOME_UID
    assert HOME_UID in meant


@pytest.mark.parametrize("listed", [[], [{**LOSS, "status": "False"}]])
def test_without_a_loss_there_is_nothing_to_confirm(listed):
    with pytest.raises(CliError, match="c2 has no held losses"):
        confirm.build_confirmation("c2", held(*listed, losses=STATE, observedIdentity=HOME_UID))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (held(LOSS), "LossesHeld is True, but the field status.losses is missing. The syncer"),
        (held(LOSS, losses={}), "the field status.losses is missing"),
        (
            held(LOSS, ANOTHER, losses=STATE),
            "Reachable is False, but the field status.observedIdentity is missing. The vc-manager",
        ),
    ],
)
def test_a_status_of_an_older_component_confirms_nothing_and_reports_why(body, words):
    with pytest.raises(CliError, match=words) as caught:
        confirm.build_confirmation("c2", body)
    assert "Upgrade virtual-cluster in the super cluster" in str(caught.value)
