"""`kubectl vc target confirm`: a confirmation of exactly the loss that the condition names."""

from __future__ import annotations

import pytest

from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.target import confirm
from tests.support.kubectl_vc.super_clusters import HOME_UID, held


def test_what_is_confirmed_is_what_the_condition_names():
    loss = {
        "type": "LossesHeld",
        "status": "True",
        "message": "5 of 5 (state 0123456789abcdef), so",
    }
    assert confirm.confirmed("c2", held(loss))[0] == "0123456789abcdef"
    answers = f"another cluster answers: its kube-system is {HOME_UID}, and that of the cluster"
    another = {"type": "Reachable", "status": "False", "reason": "IdentityChanged"}
    word, meant = confirm.confirmed("c2", held(loss, {**another, "message": answers}))
    assert word == HOME_UID
    assert HOME_UID in meant


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        ("False", "state 0123456789abcdef", "nothing is held for c2"),
        ("True", "5 of 5", "names no state"),
    ],
)
def test_without_a_loss_there_is_nothing_to_confirm(status, message, words):
    with pytest.raises(CliProblem, match=words):
        confirm.confirmed("c2", held({"type": "LossesHeld", "status": status, "message": message}))
