"""The environment of a container, and the downward API."""

from __future__ import annotations

import pytest

from syncer.model import object_meta
from syncer.rules.pods import environment


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "vc-service-variables"),
        ({"enableServiceLinks": True}, "vc-service-variables"),
        ({"enableServiceLinks": None}, "vc-service-variables"),
        ({"enableServiceLinks": False}, "vc-api-variables"),
    ],
)
@pytest.mark.parametrize(
    "own", [[], [{"prefix": "A_", "secretRef": {"name": "s", "optional": True}}]]
)
def test_service_variables_are_the_first_source_of_a_container(spec, name, own):
    """Each later source and each variable of the container overrides the first source."""
    container = {"envFrom": own} if own else {}
    links = environment.has_service_links(spec)
    first = {"configMapRef": {"name": name}}
    assert environment.build_sources(container, links=links) == [first, *own]
    assert container == ({"envFrom": own} if own else {}), "the tenant's stays as it is"


def test_the_order_of_the_tenants_own_variables_stays():
    """A kubelet resolves a reference to the variables before it, and to all sources."""
    own = [
        {"name": "EARLY", "value": "$(LATE)"},
        {"name": "KUBERNETES_SERVICE_HOST", "value": "mine"},
        {"name": "LATE", "value": "$(REDIS_SERVICE_HOST):$$(X)"},
        {"name": "EARLY", "value": "twice"},
    ]
    found = environment.build_environment({"env": own}, account="a", mirrors=mirrors())
    assert found == own
    assert environment.build_environment({}, account="a", mirrors=mirrors()) == []


# --- the downward API -----------------------------------------------------------------------------


def mirrors() -> environment.FieldRefRewriter:
    return environment.FieldRefRewriter(
        {
            "labels": {"app": "web", "mesh.istio.io/x": "on"},
            "annotations": {
                "note": "n",
                "strange.example/a[0]": "'quoted'",
                "kubectl.kubernetes.io/restartedAt": "now",
            },
        }
    )


@pytest.mark.parametrize(
    ("path", "becomes", "needed"),
    [
        ("metadata.name", "metadata.name", ""),
        ("metadata.labels['app']", "metadata.labels['app']", ""),
        ("metadata.labels['absent']", "metadata.labels['absent']", ""),
        (
            "metadata.labels['app.kubernetes.io/name']",
            "metadata.labels['app.kubernetes.io/name']",
            "",
        ),
        (
            "metadata.annotations['app.kubernetes.io/name']",
            ("annotations", "app.kubernetes.io/name"),
            "",
        ),
        ("metadata.annotations['note']", "metadata.annotations['note']", ""),
        (
            "metadata.annotations['kubectl.kubernetes.io/restartedAt']",
            "metadata.annotations['kubectl.kubernetes.io/restartedAt']",
            "",
        ),
        ("metadata.labels['mesh.istio.io/x']", ("labels", "mesh.istio.io/x"), "on"),
        ("metadata.labels['istio.io/absent']", ("labels", "istio.io/absent"), ""),
        (
            "metadata.annotations['strange.example/a[0]']",
            ("annotations", "strange.example/a[0]"),
            "'quoted'",
        ),
        ('metadata.annotations["x.example/a"]', ("annotations", "x.example/a"), ""),
        (
            "metadata.annotations['X.example/X']",
            ("annotations", "X.example/X"),
            "",
        ),
    ],
)
def test_a_field_that_stays_above_is_read_from_its_mirror(path, becomes, needed):
    found = mirrors()
    ref = found.rewrite_field_ref({"fieldPath": path, "apiVersion": "v1"})
    if isinstance(becomes, str):
        assert (ref["fieldPath"], found.needed_annotations) == (becomes, {})
        is_annotation = path.startswith("metadata.annotations[")
        assert found.referenced_annotations == ({path[22:-2]} if is_annotation else set())
        return
    mirror = object_meta.build_mirror_key(*becomes)
    assert ref == {"fieldPath": f"metadata.annotations['{mirror}']", "apiVersion": "v1"}
    assert found.needed_annotations == {mirror: needed}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("metadata.labels", environment.LABELS_FILE_ANNOTATION),
        ("metadata.annotations", environment.ANNOTATIONS_FILE_ANNOTATION),
    ],
)
def test_all_of_them_are_read_from_a_text(path, key):
    found = mirrors()
    assert found.rewrite_field_ref({"fieldPath": path}) == {
        "fieldPath": f"metadata.annotations['{key}']"
    }
    assert list(found.needed_annotations) == [key]


def test_what_is_no_field_stays_as_it_is():
    found = mirrors()
    item = {"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu"}}
    assert environment.rewrite_downward_items([item], found) == [item]
    assert found.rewrite_field_ref({}) == {"fieldPath": ""}
    assert found.needed_annotations == {}


@pytest.mark.parametrize(
    ("character", "written"),
    [
        ("\x7f", "\\x7f"),
        ("\x80", "\\u0080"),
        ("\u200b", "\\u200b"),
        ("\uffff", "\\uffff"),
        ("\U000e0001", "\\U000e0001"),
        ("\u00e9", "\u00e9"),
        ("\n", "\\n"),
        ('"', '\\"'),
    ],
)
def test_a_file_of_labels_is_written_as_go_quotes(character, written):
    assert environment.format_downward_file({"k": character}) == f'k="{written}"'
