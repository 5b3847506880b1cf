"""Field paths of a SyncRule: the places of a path in an object."""

import pytest

from tenancy.sync_rules import field_paths


@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("spec.name", [("spec.name", "a")]),
        ("spec.rules[].host", [("spec.rules[0].host", "x"), ("spec.rules[2].host", "y")]),
        ("spec.names[]", [("spec.names[0]", "b"), ("spec.names[1]", "c")]),
        ("spec.name.deeper", []),
        ("spec.rules.host", []),
        ("spec.absent", []),
        ("spec.empty", []),
    ],
)
def test_places_of_a_path_have_their_holder_and_their_text(path, places):
    body = {
        "spec": {
            "name": "a",
            "names": ["b", "c"],
            "rules": [{"host": "x"}, {"path": "/"}, {"host": "y"}],
            "empty": None,
        }
    }
    found = [(where, holder[key]) for holder, key, where in field_paths.iterate_places(body, path)]
    assert found == places
