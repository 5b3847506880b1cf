"""Content of an entry, and events for subscribers."""

from __future__ import annotations

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache import store as stores
from kubeio.cache.store import MAX_PARSED_ANNOTATION, Store, parse_entry


def _object(name="a", namespace="ns", uid="u1", version="1", **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": version,
            **metadata,
        },
        "data": {"x": "1"},
    }


def _entry(*args, **fields):
    return parse_entry(orjson.dumps(_object(*args, **fields)))


class RecordedEvents(list):
    def __call__(self, old, new, live):
        self.append((old and old.resource_version, new and new.resource_version, live))


def test_a_store_that_keeps_nothing_reports_all_that_comes_by():
    store, told = Store(has_metadata_only=False), RecordedEvents()
    store.subscribe(told)
    store.put(_entry(version="1"), live=False)
    store.put(_entry(version="2"), live=True)
    store.discard(_entry(version="2"), live=True)
    store.retain(())
    assert told == [(None, "1", False), (None, "2", True)]
    assert (len(store), store.list()) == (0, [])


def test_identity_is_parsed_and_the_body_kept():
    entry = _entry(labels={"l": "1"}, annotations={"k": "v"}, generation=3)
    assert (entry.key, entry.uid, entry.resource_version) == (("ns", "a"), "u1", "1")
    assert (entry.labels, entry.annotations, entry.generation) == ({"l": "1"}, {"k": "v"}, 3)
    assert entry.deleting is False
    assert entry.decode() == _object(labels={"l": "1"}, annotations={"k": "v"}, generation=3)


def test_managed_fields_go_and_everything_else_stays():
    body = _object(managedFields=[{"manager": "x"}], unknown={"a": [1]})
    body["brandNew"] = {"deep": [1.5, None, "é"]}
    found = parse_entry(orjson.dumps(body)).decode()
    del body["metadata"]["managedFields"]
    assert found == body


MANAGED = b'"managedFields":[{"manager":"x"}]'
IDENTITY = b'"name":"a","namespace":"ns","uid":"u1","resourceVersion":"1"'


@pytest.mark.parametrize(
    "metadata",
    [
        b"{" + MANAGED + b"," + IDENTITY + b"}",
        b"{ " + IDENTITY + b" , " + MANAGED + b" }",
        b"{" + IDENTITY + b',"x":{"y":1,' + MANAGED + b"}," + MANAGED + b"}",
        b"{" + IDENTITY + b',"x":{"y":1,"managedFields":[]},' + MANAGED + b"}",
    ],
    ids=["first", "spaced", "nested-alike", "nested-other"],
)
@pytest.mark.parametrize("before", [b"", b'"spec":{"metadata":{"name":"b"}},'])
def test_managed_fields_go_wherever_they_stand(before, metadata):
    text = b'{"apiVersion":"v1","kind":"Pod",' + before + b'"metadata":' + metadata + b"}"
    wanted = orjson.loads(text)
    del wanted["metadata"]["managedFields"]
    entry = parse_entry(text)
    assert entry.decode() == wanted
    assert entry.name == "a"


def test_the_digest_reports_everything_in_the_metadata_but_the_version():
    first = _entry(version="1", labels={"a": "1"}, generation=1)
    assert (
        _entry(version="2", labels={"a": "1"}, generation=1).metadata_digest
        == first.metadata_digest
    )
    other = (
        {"labels": {"a": "2"}},
        {"generation": 2},
        {"deletionTimestamp": "x"},
        {"finalizers": ["f"]},
    )
    for changed in other:
        fields = {"labels": {"a": "1"}, "generation": 1, **changed}
        assert _entry(version="1", **fields).metadata_digest != first.metadata_digest


def test_items_of_a_list_get_their_kind():
    body = _object()
    del body["apiVersion"], body["kind"]
    entry = parse_entry(orjson.dumps(body), api_version="v1", kind="ConfigMap")
    assert entry.decode() == _object()


def test_the_body_does_not_hold_on_to_the_chunk_it_came_in():
    line = orjson.dumps({"object": _object(), "padding": "x" * 100_000})
    raw = msgspec.json.decode(line, type=dict[str, msgspec.Raw])["object"]
    assert len(parse_entry(raw).body) < 300


def test_equal_labels_are_one_mapping_within_bounds(monkeypatch):
    """Memory that tenants can fill is limited: many mappings, or many labels."""
    interner = stores.Interner(max_labels=2)
    monkeypatch.setattr(stores, "_INTERNER", interner)
    one, two = (_entry(name, labels={"l": "1"}) for name in ("one", "two"))
    assert one.labels is two.labels
    many = {f"l{number}": "" for number in range(stores._MAX_LABELS_SHARED_EACH + 1)}
    assert _entry(labels=many).labels == many
    for number in range(5):
        assert _entry(labels={"l": f"x{number}"}).labels == {"l": f"x{number}"}
        assert len(interner._labels) <= 2
    assert many not in interner._labels.values()
    assert _entry(labels={"l": "1"}).labels == one.labels


def test_equal_annotations_are_one_string_as_far_as_that_is_bounded(monkeypatch):
    interner = stores.Interner(max_values=4)
    monkeypatch.setattr(stores, "_INTERNER", interner)
    long = "x" * (stores._MAX_SHARED_VALUE_LENGTH + 1)

    def value(text: str) -> str:
        body = {"metadata": {"name": "a", "annotations": {"a": text}}}
        return parse_entry(orjson.dumps(body)).annotations["a"]

    assert value("same") is value("same")
    for text in (long, "one", "two", "three"):
        assert value(text) == text
        assert len(interner._values) <= 4
    assert long not in interner._values


def test_long_annotations_stay_in_the_body_only():
    long = "x" * (MAX_PARSED_ANNOTATION + 1)
    entry = _entry(annotations={"long": long, "short": "s"})
    assert entry.annotations == {"short": "s"}
    assert entry.decode()["metadata"]["annotations"]["long"] == long


def test_decode_gives_a_copy_of_the_callers_own():
    entry = _entry()
    entry.decode()["data"]["x"] = "changed"
    assert entry.decode()["data"]["x"] == "1"


def test_the_repr_shows_no_body():
    assert repr(_entry()) == "Entry(ns/a uid=u1 rv=1)"


def test_a_deletion_timestamp_is_seen():
    assert _entry(deletionTimestamp="2026-01-01T00:00:00Z").deleting


@pytest.mark.parametrize(
    "raw", [b"[]", b"{}", b'{"metadata":{}}', b"x", b'{"metadata":{"name":1}}']
)
def test_what_is_no_object_raises(raw):
    with pytest.raises(msgspec.DecodeError):
        parse_entry(raw)


def test_subscribers_hear_of_changes_and_of_nothing_else():
    store, told = Store(), RecordedEvents()
    store.subscribe(told)
    store.put(_entry(version="1"), live=False)
    store.put(_entry(version="1"), live=True)  # the very same version
    store.put(_entry(version="2"), live=True)
    store.discard(_entry(version="3"), live=True)
    store.discard(_entry(version="3"), live=True)  # was not there any longer
    assert told == [(None, "1", False), ("1", "2", True), ("3", None, True)]


def test_another_uid_is_a_change_even_at_the_same_version():
    store, told = Store(), RecordedEvents()
    store.put(_entry(uid="u1"), live=True)
    store.subscribe(told)
    store.put(_entry(uid="u2"), live=False)
    assert told == [("1", "1", False)]


def test_replay_shows_what_is_there():
    store, told = Store(), RecordedEvents()
    store.put(_entry(), live=True)
    store.subscribe(told, replay=True)
    assert told == [(None, "1", False)]


def test_a_complete_list_finds_what_is_gone_and_reports_that_it_rests_on_absence():
    store, told = Store(), RecordedEvents()
    for name in "abc":
        store.put(_entry(name), live=True)
    store.subscribe(told)
    store.replace([_entry("b"), _entry("d", version="9")])
    assert [entry.name for entry in store.list("ns")] == ["b", "d"]
    assert sorted(told, key=str) == sorted(
        [(None, "9", False), ("1", None, False), ("1", None, False)], key=str
    )


def test_namespaces_are_kept_apart_and_vanish_when_empty():
    store = Store()
    store.put(_entry("a", "one"), live=True)
    store.put(_entry("a", "two"), live=True)
    assert store.get("one", "a").namespace == "one"
    assert store.get("one", "b") is None
    assert store.get("three", "a") is None
    store.discard(_entry("a", "one"), live=True)
    assert store.namespaces() == ("two",)
    assert len(store) == 1


_names = st.sampled_from("abcd")
_groups = st.sets(st.sampled_from(["x", "y", "z"]))


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "discard", "replace"]), _names, _groups), max_size=40
    )
)
def test_indexes_always_report_what_the_entries_say(steps):
    store = Store(indexes={"groups": lambda entry: entry.labels})
    for number, (step, name, groups) in enumerate(steps):
        entry = _entry(name, version=str(number), labels=dict.fromkeys(groups, ""))
        if step == "put":
            store.put(entry, live=True)
        elif step == "discard":
            store.discard(entry, live=True)
        else:
            store.replace([entry])
    for group in ("x", "y", "z"):
        expected = {entry.key for entry in store.list() if group in entry.labels}
        assert {entry.key for entry in store.index("groups", group)} == expected
    assert len(store) == len(store.list())
