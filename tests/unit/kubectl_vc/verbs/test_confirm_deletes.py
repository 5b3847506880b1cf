"""The store that `kubectl vc confirm-deletes` confirms: the one in the status, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.verbs.confirm_deletes import held_store

STORE = "0b0e4a58-1c4f-4f5e-9b39-4a4d0a8f3a11"
OTHER = "0b0e4a58-1c4f-4f5e-9b39-4a4d0a8f3a12"


def body(is_held: str = "True", **status: Any) -> dict[str, Any]:
    condition = {"type": "DeletesHeld", "status": is_held, "message": f"kube-system {OTHER}, and"}
    return {"status": {"conditions": [condition], **status}}


def test_the_store_comes_from_the_field_and_not_from_the_message():
    assert held_store("it", body(heldStore={"uid": STORE})) == STORE


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, "no held deletes"),
        (body("False", heldStore={"uid": STORE}), "no held deletes"),
        (body("Unknown"), "no held deletes"),
        (body(), "DeletesHeld is True, but the field status.heldStore is missing. The syncer"),
        (body(), "Upgrade virtual-cluster in the super cluster, then run the command again"),
        (body(heldStore={}), "has no UID, because the tenant's etcd has no Namespace"),
    ],
)
def test_without_a_store_nothing_is_confirmed_and_the_error_reports_why(found: Any, words: str):
    with pytest.raises(CliError, match=words):
        held_store("it", found)
