"""Which tenants a change in the super cluster wakes, and which watches are open."""

from __future__ import annotations

from typing import Any

import orjson

from kubeio.cache.store import Entry, parse_entry
from vcmanager.runtime import keys
from vcmanager.runtime.content_sources import ContentSource, ContentSources

ONE, TWO = keys.build_content_key("default", "one"), keys.build_content_key("default", "two")


def entry(name: str, namespace: str = "", **metadata: Any) -> Entry:
    body = {"metadata": {"name": name, "namespace": namespace, "uid": name, **metadata}}
    return parse_entry(orjson.dumps(body))


def both() -> tuple[ContentSources, list[keys.ReconcileKey]]:
    woken: list[keys.ReconcileKey] = []
    sources = ContentSources(woken.append)
    sources.set_sources(ONE, frozenset({ContentSource("Secret", "platform")}))
    sources.set_sources(
        TWO,
        frozenset(
            {ContentSource("ConfigMap", "default", "addon"), ContentSource("Secret", "other")}
        ),
    )
    return sources, woken


def test_a_change_enqueues_the_tenants_that_depend_on_it():
    sources, woken = both()
    for kind, found, expected in (
        ("Secret", entry("any", "platform"), [ONE]),
        ("ConfigMap", entry("any", "platform"), []),
        ("ConfigMap", entry("addon", "default"), [TWO]),
        ("ConfigMap", entry("another", "default"), []),
    ):
        for old, new in ((None, found), (found, None)):
            woken.clear()
            sources._handle_object(kind, old, new, True)
            assert woken == expected
    woken.clear()
    sources._handle_object("Secret", None, entry("any", "platform"), False)
    assert woken == []  # the first list


def test_the_label_of_a_source_namespace_enqueues_its_tenants():
    sources, woken = both()
    plain, labelled = entry("platform"), entry("platform", labels={"a": "b"})
    sources._handle_namespace(None, plain, False)
    sources._handle_namespace(plain, labelled, True)
    sources._handle_namespace(labelled, labelled, True)
    assert woken == [ONE, ONE]


class FakeWatch:
    """Stands where a scoped reflector is."""

    def __init__(self) -> None:
        self.open: set[tuple[str, str]] = set()

    def start(self, namespace: str, name: str) -> None:
        assert (namespace, name) not in self.open
        self.open.add((namespace, name))

    def stop(self, namespace: str, name: str) -> None:
        self.open.remove((namespace, name))


def test_each_source_is_watched_once_and_as_long_as_a_tenant_needs_it():
    sources, _ = both()
    watches = {"Secret": FakeWatch(), "ConfigMap": FakeWatch()}
    sources._watches = watches  # type: ignore[assignment]
    sources.set_sources(ONE, frozenset({ContentSource("Secret", "platform")}))
    assert watches["Secret"].open == {("platform", ""), ("other", "")}
    assert watches["ConfigMap"].open == {("default", "addon")}
    sources.set_sources(TWO, frozenset({ContentSource("Secret", "platform")}))
    assert watches["Secret"].open == {("platform", "")}
    assert watches["ConfigMap"].open == set()
    assert sources.has_sources(TWO)
    for key in (ONE, TWO):
        sources.set_sources(key, frozenset())
    assert watches["Secret"].open == set()
    assert not sources.has_sources(TWO)
