import pytest

from syncer.model import replace_update
from syncer.model.field_rules import ALLOW_SCALAR, DropField, ListOfObjects, ObjectFields

TABLE = {
    "name": ALLOW_SCALAR,
    "secret": DropField("never synced"),
    "inner": ObjectFields({"value": ALLOW_SCALAR}),
    "rules": ListOfObjects({"port": ALLOW_SCALAR}),
}
METADATA = {"name": "x", "namespace": "below", "labels": {"app": "web"}, "annotations": {}}
LIVE_METADATA = {**METADATA, "uid": "u", "resourceVersion": "7"}


def replacement(there, wanted, *, live_metadata=LIVE_METADATA, metadata=METADATA):
    live = {"kind": "Thing", "metadata": live_metadata, "spec": there}
    twin = {"kind": "Thing", "metadata": metadata, "spec": wanted}
    return replace_update.build_replacement(live, twin, table=TABLE, field="spec")


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ({"name": "a"}, {"name": "a"}),
        ({"name": "a", "default": "of the server"}, {"name": "a"}),
        ({"name": "a", "secret": 1}, {"name": "a", "secret": 2}),
        ({"rules": []}, {}),
        ({"name": None}, {}),
        (None, None),
        ({"rules": [{"port": 80, "default": "TCP"}]}, {"rules": [{"port": 80}]}),
    ],
)
def test_object_that_is_as_it_should_be_is_not_replaced(there, wanted):
    assert replacement(there, wanted) is None


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ({"name": "a"}, {"name": "b"}),
        ({"name": "a"}, {}),
        ({"inner": {}}, {}),
        ({"inner": {"value": 1}}, {"inner": {"value": 2}}),
        ({"rules": [{"port": 80}, {"port": 81}]}, {"rules": [{"port": 80}]}),
        ({"rules": [{"port": 80}]}, {"rules": [{"port": 81}]}),
        ({"rules": "no list"}, {"rules": [{"port": 81}]}),
    ],
)
def test_drift_of_a_leaf_of_the_table_is_replaced(there, wanted):
    found = replacement(there, wanted)
    assert found is not None
    assert found["spec"] == wanted
    assert (found["metadata"]["uid"], found["metadata"]["resourceVersion"]) == ("u", "7")


def test_drift_of_a_label_alone_is_replaced():
    live = {**LIVE_METADATA, "labels": {"app": "admin"}}
    found = replacement({}, {}, live_metadata=live)
    assert found is not None
    assert found["metadata"]["labels"] == {"app": "web"}


def test_keys_of_other_owners_stay():
    live = {
        **LIVE_METADATA,
        "labels": {"app": "web", "example.com/owner": "team"},
        "annotations": {"example.com/note": "n"},
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"uid": "o"}],
        "managedFields": [{}],
    }
    found = replace_update.build_metadata(live, METADATA, {"labels": {"old": None, "new": "1"}})
    assert found == {
        "name": "x",
        "namespace": "below",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"app": "web", "example.com/owner": "team", "new": "1"},
        "annotations": {"example.com/note": "n"},
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"uid": "o"}],
    }


def test_table_may_describe_the_whole_object():
    live = {"kind": "Thing", "metadata": LIVE_METADATA, "name": "a"}
    twin = {"kind": "Thing", "metadata": METADATA, "name": "b"}
    found = replace_update.build_replacement(live, twin, table=TABLE)
    assert found is not None
    assert found["name"] == "b"
