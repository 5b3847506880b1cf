"""Outlines of large objects: a digest that differs for different objects, and no value."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache.store import parse_entry
from syncer.rules.configuration import cache_transforms, config_maps_secrets
from tenancy import wellknown
from tests.support.syncer.tenant_views import network_view

LARGE = "v" * 10_000


def config_map(**fields: Any) -> dict[str, Any]:
    """Return a tenant's ConfigMap."""
    metadata = {"name": "c", "namespace": "web", "uid": "up", "resourceVersion": "7"}
    given_metadata = fields.pop("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, **given_metadata},
        **fields,
    }


def kept(body: dict[str, Any]) -> dict[str, Any]:
    """Return what a cache keeps of an object."""
    return cache_transforms.reduce_entry(parse_entry(orjson.dumps(body))).decode()


def below(body: dict[str, Any]) -> dict[str, Any]:
    """Return the twin of a ConfigMap as the super API hands it out."""
    twin = config_maps_secrets.build_config_map(body, network_view())
    twin["metadata"] |= {"uid": "below", "resourceVersion": "9"}
    return twin


def differs(live: dict[str, Any], tenant_x: dict[str, Any]) -> bool:
    """Return whether a twin is to be changed."""
    wanted = config_maps_secrets.build_config_map(tenant_x, network_view())
    return config_maps_secrets.build_replacement(live, wanted, "ConfigMap") is not None


def test_a_small_object_is_kept_as_it_is():
    body = config_map(data={"a": "1"})
    assert kept(body) == body


def test_of_a_large_one_no_value_is_kept():
    long = {"note": "n" * 5000, wellknown.SYNCED_KEYS: "k" * 5000}
    body = config_map(
        data={"a": LARGE, "COLOUR": "red"},
        binaryData={"b": "c2VjcmV0"},
        immutable=True,
        metadata={"annotations": long},
    )
    found = kept(body)
    assert cache_transforms.is_outline(found)
    assert not {"vvvv", "red", "c2VjcmV0", "nnnn"} & {*str(found).split("'")}
    assert "vvvv" not in str(found)
    assert "nnnn" not in str(found)
    assert found["immutable"] is True
    assert found["metadata"]["annotations"][wellknown.SYNCED_KEYS] == long[wellknown.SYNCED_KEYS]
    assert len(orjson.dumps(found)) < 6000


def test_a_secret_keeps_its_type():
    body = {**config_map(data={"a": LARGE}), "kind": "Secret", "type": "kubernetes.io/tls"}
    assert kept(body)["type"] == "kubernetes.io/tls"


VALUES = st.dictionaries(st.text("ab", min_size=1, max_size=2), st.sampled_from(["", "1", LARGE]))
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "data": VALUES,
        "binaryData": VALUES,
        "immutable": st.booleans(),
        "metadata": st.fixed_dictionaries(
            {"annotations": st.dictionaries(st.sampled_from("ab"), st.sampled_from(["", LARGE]))}
        ),
    },
)


@given(before=BODIES, after=BODIES, reduces_live=st.booleans(), reduces_own=st.booleans())
def test_two_differ_by_their_outlines_when_they_do(
    before: dict[str, Any], after: dict[str, Any], reduces_live: bool, reduces_own: bool
):
    """Whichever of them was large enough, and whatever it was that changed."""
    live, own = below(config_map(**before)), config_map(**after)
    expected = differs(live, own)
    shown_live = cache_transforms.build_outline(live) if reduces_live else live
    shown_own = cache_transforms.build_outline(own) if reduces_own else own
    assert differs(shown_live, shown_own) == expected


@given(before=BODIES, after=BODIES, reduces_live=st.booleans(), reduces_own=st.booleans())
def test_what_is_fixed_is_recreated_for_other_values_only(
    before: dict[str, Any], after: dict[str, Any], reduces_live: bool, reduces_own: bool
):
    """One of the two may be an outline: the marks below make a twin larger than its original."""
    live = below(config_map(**before))
    wanted = config_maps_secrets.build_config_map(config_map(**after), network_view())
    values = [
        {key: found.get(key) or None for key in cache_transforms.VALUE_FIELDS}
        for found in (live, wanted)
    ]
    expected = bool(live.get("immutable")) and values[0] != values[1]
    shown_live = cache_transforms.build_outline(live) if reduces_live else live
    shown_own = cache_transforms.build_outline(wanted) if reduces_own else wanted
    assert config_maps_secrets.is_fixed(shown_live, shown_own) == expected


def test_an_outline_of_an_outline_is_the_same():
    found = cache_transforms.build_outline(config_map(data={"a": LARGE}))
    assert cache_transforms.build_outline(found) == found


@pytest.mark.parametrize(
    "forged",
    [
        {cache_transforms.CONTENT_DIGEST_FIELD: "x"},
        {"data": [LARGE]},
        {"data": LARGE, "metadata": {"annotations": [LARGE]}},
    ],
    ids=["a mark", "a list of data", "no shape"],
)
def test_a_hostile_api_gains_nothing(forged: dict[str, Any]):
    body = config_map(**{**forged, "metadata": {}})
    found = kept(body)
    assert cache_transforms.CONTENT_DIGEST_FIELD not in cache_transforms.strip_outline_fields(found)


def test_what_cannot_be_read_is_not_kept_either():
    entry = cache_transforms.reduce_entry(
        parse_entry(b'{"metadata":{"name":"c"},"data":"\xff' + b"v" * 9999 + b'"}')
    )
    assert entry.name == "c"
    assert entry.body == b""
    with pytest.raises(ValueError, match="zero-length"):
        entry.decode()
