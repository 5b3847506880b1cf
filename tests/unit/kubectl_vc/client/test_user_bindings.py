"""Removal of one user from the bindings of a virtual cluster."""

import pytest

from kubectl_vc.client import user_bindings
from kubectl_vc.output.cli_errors import CliError
from kubeio import errors

USER = "vc-kubeconfig:admin:1"


def subject(name, kind="User"):
    return {"kind": kind, "name": name}


@pytest.mark.parametrize(
    ("subjects", "others"),
    [
        (None, None),
        ([subject("a")], None),
        ([subject(USER, "ServiceAccount")], None),
        ([subject(USER)], []),
        ([subject(USER), subject("a"), subject(USER)], [subject("a")]),
    ],
)
def test_only_the_user_is_removed(subjects, others):
    assert user_bindings.list_other_subjects({"subjects": subjects}, USER) == others


class RestlessTenant:
    """Another client creates a binding again after each delete, `times` times."""

    def __init__(self, times):
        self.times, self.deleted = times, 0

    async def list(self, kind, *, continue_token="", **_):
        metadata = {"name": "x", "uid": "u", "resourceVersion": "1"}
        items = [{"metadata": metadata, "subjects": [subject(USER)]}]
        if kind.kind != "ClusterRoleBinding" or self.times < 0:
            return {"metadata": {}, "items": []}
        if not continue_token:
            return {"metadata": {"continue": "more"}, "items": []}
        return {"metadata": {}, "items": items}

    async def delete(self, *_, **__):
        self.times -= 1
        self.deleted += 1
        if self.deleted == 1:
            raise errors.Conflict("it was changed meanwhile")


async def test_bindings_are_removed_until_none_is_left(monkeypatch):
    monkeypatch.setattr(user_bindings, "_PAUSE_SECONDS", 0)
    removed = await user_bindings.remove_bindings(RestlessTenant(3), USER)
    assert (removed.total, removed.describe()) == (3, "3 bindings deleted")


async def test_bindings_that_appear_without_end_are_an_error(monkeypatch):
    monkeypatch.setattr(user_bindings, "_PAUSE_SECONDS", 0)
    with pytest.raises(CliError, match=r"appear again and again\. 9 bindings deleted so far"):
        await user_bindings.remove_bindings(RestlessTenant(99), USER)
