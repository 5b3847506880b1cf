import copy

import pytest

from tenancy import wellknown
from tests.support.vcmanager.factories import TENANT
from vcmanager.runtime import object_metadata

SECRETS = {("Secret", "a"): "1", ("ConfigMap", "b"): "2", ("Secret", "unused"): "3"}


def stateful_set():
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "x", "labels": {"own": "label"}, "annotations": {"own": "note"}},
        "spec": {
            "template": {
                "metadata": {"labels": {"component-name": "x"}},
                "spec": {
                    "containers": [],
                    "volumes": [
                        {"name": "1", "secret": {"secretName": "a"}},
                        {
                            "name": "2",
                            "projected": {
                                "sources": [
                                    {"configMap": {"name": "b"}},
                                    {"secret": {"name": "c"}},
                                ]
                            },
                        },
                        {"name": "3", "emptyDir": {}},
                    ],
                },
            }
        },
    }


def template_digest(made):
    return made["spec"]["template"]["metadata"]["annotations"][wellknown.SECRETS_DIGEST]


def test_an_object_specifies_whose_it_is_and_keeps_its_own_labels():
    made = object_metadata.add_metadata(stateful_set(), TENANT, {})
    assert made["metadata"]["namespace"] == TENANT.root
    assert made["metadata"]["labels"]["own"] == "label"
    assert made["metadata"]["labels"][wellknown.VC_UID] == TENANT.uid
    assert made["metadata"]["annotations"]["own"] == "note"
    inner = made["spec"]["template"]["metadata"]["labels"]
    assert inner["component-name"] == "x"
    assert inner[wellknown.VC_UID] == TENANT.uid


def test_the_given_object_is_not_changed():
    given = stateful_set()
    before = copy.deepcopy(given)
    object_metadata.add_metadata(given, TENANT, SECRETS)
    assert given == before


def test_every_way_to_mount_is_seen():
    assert object_metadata.list_mounted_sources(stateful_set()["spec"]["template"]["spec"]) == {
        ("Secret", "a"),
        ("ConfigMap", "b"),
        ("Secret", "c"),
    }


@pytest.mark.parametrize("source", [("Secret", "a"), ("ConfigMap", "b")])
def test_new_content_of_a_mounted_secret_is_a_rollout(source):
    before = object_metadata.add_metadata(stateful_set(), TENANT, SECRETS)
    after = object_metadata.add_metadata(stateful_set(), TENANT, {**SECRETS, source: "new"})
    assert template_digest(before) != template_digest(after)


def test_new_content_of_another_secret_is_none():
    before = object_metadata.add_metadata(stateful_set(), TENANT, SECRETS)
    after = object_metadata.add_metadata(
        stateful_set(), TENANT, {**SECRETS, ("Secret", "unused"): "new"}
    )
    assert before == after


def test_what_was_written_is_current_also_with_the_servers_additions():
    made = object_metadata.add_metadata(stateful_set(), TENANT, SECRETS)
    live = copy.deepcopy(made)
    live["metadata"]["uid"] = "u"
    live["spec"]["template"]["spec"]["volumes"][0]["secret"]["defaultMode"] = 420
    live["spec"]["revisionHistoryLimit"] = 10
    assert object_metadata.is_up_to_date(made, live)


def test_what_another_writer_changed_is_not_current():
    made = object_metadata.add_metadata(stateful_set(), TENANT, SECRETS)
    live = copy.deepcopy(made)
    live["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"] = "other"
    assert not object_metadata.is_up_to_date(made, live)


def test_what_we_no_longer_send_is_not_current():
    live = object_metadata.add_metadata(
        {**stateful_set(), "spec": {**stateful_set()["spec"], "extra": 1}}, TENANT, {}
    )
    assert not object_metadata.is_up_to_date(
        object_metadata.add_metadata(stateful_set(), TENANT, {}), live
    )


def test_what_is_missing_or_going_is_not_current():
    made = object_metadata.add_metadata(stateful_set(), TENANT, SECRETS)
    assert not object_metadata.is_up_to_date(made, None)
    going = {**made, "metadata": {**made["metadata"], "deletionTimestamp": "now"}}
    assert not object_metadata.is_up_to_date(made, going)


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        ({}, None, True),
        ([], None, True),
        ({"a": 1}, None, False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
        ([1, 2], [1, 2], True),
        ([1], [1, 2], False),
        ([{"a": 1}], [{"a": 1, "b": 2}], True),
        ({"a": None}, {}, True),
        ("x", ["x"], False),
    ],
)
def test_part_of(wanted, found, expected):
    assert object_metadata.is_subset(wanted, found) is expected


def test_contents_see_data_and_nothing_else():
    one = {"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"k": "v"}}
    two = {"metadata": {"name": "a", "resourceVersion": "2"}, "data": {"k": "v"}}
    other = {"metadata": {"name": "a"}, "data": {"k": "w"}}
    assert object_metadata.digest_contents([one], "Secret") == object_metadata.digest_contents(
        [two], "Secret"
    )
    assert object_metadata.digest_contents([one], "Secret") != object_metadata.digest_contents(
        [other], "Secret"
    )
