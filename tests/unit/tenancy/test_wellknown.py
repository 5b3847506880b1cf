"""Reserved keys are recognised by whole domains, in every spelling."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy import wellknown

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@pytest.mark.parametrize(
    "key",
    [
        "tenancy.x-k8s.io/uid",
        "Tenancy.X-K8s.io/uid",
        "transparency.tenancy.x-k8s.io/clusterIP",
        "anything.tenancy.x-k8s.io/name",
    ],
)
def test_our_domains_are_reserved(key: str):
    assert wellknown.is_reserved_key(key)


@pytest.mark.parametrize(
    "key",
    ["app", "app.kubernetes.io/name", "mytenancy.x-k8s.io/uid", "x-k8s.io/uid", "tenancy.x-k8s.io"],
)
def test_look_alikes_are_not(key: str):
    assert not wellknown.is_reserved_key(key)


@pytest.mark.parametrize(
    ("key", "translated"),
    [
        ("gateway.networking.k8s.io/gateway-name", "gateway-name-vvhpcpvpwd4gzzv5yyvxg5ehyi"),
        ("istio-injection", "istio-injection-7afqiwdgo2xcowcu4ru5dtby2i"),
        (f"linkerd.io/{'n' * 63}", f"{'n' * 36}-z3aba4rconboegav3v4al2xzpa"),
        ("linkerd.io/", "2sujp5prmgquvcltqzil4kjvsm"),
    ],
)
def test_a_label_key_is_translated_to_the_same_key_for_ever(key: str, translated: str):
    """Selectors and pods of an earlier version have it."""
    assert wellknown.translate_label_key(key) == f"label.tenancy.x-k8s.io/{translated}"


@given(key=st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_every_translated_key_is_a_key_that_the_api_takes_and_reserves(key: str):
    found = wellknown.translate_label_key(key)
    domain, _, name = found.partition("/")
    assert domain == wellknown.LABEL_DOMAIN
    assert len(name) <= 63
    assert NAME.fullmatch(name)
    assert wellknown.is_reserved_key(found)
    assert wellknown.translate_label_key(found) != found
