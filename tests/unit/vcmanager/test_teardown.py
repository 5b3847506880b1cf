import pytest

from tenancy import marks, ownership
from tests.unit.vcmanager.factories import TENANT
from vcmanager import teardown


def synced(status, reason):
    return {"conditions": [{"type": marks.SYNCED, "status": status, "reason": reason}]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, True),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, True),
        (synced("False", "Disengaged"), True),
        (synced("True", "Synced"), False),
        (synced("False", "CachesIncomplete"), False),
        (synced("Unknown", "Disengaged"), False),
    ],
)
def test_the_syncer_has_let_go_when_it_says_so_or_never_held(status, expected):
    assert teardown.has_let_go(status) is expected


def namespace(name="x-default", labels=None, annotations=None):
    return {
        "metadata": {
            "name": name,
            "labels": ownership.labels(TENANT, "default") if labels is None else labels,
            "annotations": ownership.annotations(TENANT, "default", "u")
            if annotations is None
            else annotations,
        }
    }


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (namespace(), True),
        (namespace(name=TENANT.root), False),
        (namespace(labels={}), False),
        (namespace(annotations={}), False),
        (namespace(annotations={marks.VC_UID: "other"}), False),
        (namespace(labels={marks.VC_UID: "other"}), False),
        ({"metadata": {"name": "kube-system"}}, False),
    ],
)
def test_a_namespace_goes_only_when_it_says_twice_whose_it_is(found, expected):
    assert teardown.is_theirs(found, TENANT) is expected


def test_leftovers_are_named_with_what_holds_them():
    stuck = {
        "metadata": {"name": "a"},
        "status": {
            "conditions": [
                {"type": "NamespaceContentRemaining", "status": "True", "message": "pods. has 1"},
                {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "fine"},
            ]
        },
    }
    others = [{"metadata": {"name": name}} for name in "bcde"]
    assert teardown.leftovers([stuck, *others]) == "a (pods. has 1), b, c and 2 more"
