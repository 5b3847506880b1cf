"""Every combination of the two sides comes to rest, and nothing foreign is ever touched."""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache.store import parse
from syncer.model.decide import (
    Decision,
    Grounds,
    SuperSide,
    TenantSide,
    Verdict,
    decide,
    is_owned,
    super_side,
    tenant_side,
)
from tenancy import wellknown
from tenancy.ownership import Tenant
from tests.support.syncer.key_states import VC, Sides

UIDS = ("uid-a", "uid-b")

tenant_sides = st.none() | st.builds(TenantSide, st.sampled_from(UIDS), st.booleans())
super_sides = st.none() | st.builds(
    SuperSide, st.sampled_from((VC, "vc-2", "")), st.sampled_from((*UIDS, "")), st.booleans()
)


@dataclass(frozen=True)
class Model(Sides):
    """Both sides, and an environment that finishes deletions."""

    def apply(self, decision: Decision) -> Model:
        """What the effect of a verdict makes of the world."""
        match decision.verdict:
            case Verdict.CREATE:
                assert self.super_x is None
                assert self.tenant_x is not None
                return replace(self, super_x=SuperSide(VC, self.tenant_x.uid, deleting=False))
            case Verdict.DELETE:
                assert self.super_x is not None
                return replace(self, super_x=self.super_x._replace(deleting=True))
        return self

    def environment(self) -> Model:
        """A super object that is marked goes; a tenant object that is marked goes."""
        super_x, tenant_x = self.super_x, self.tenant_x
        if super_x is not None and super_x.deleting:
            super_x = None
        if tenant_x is not None and tenant_x.deleting:
            tenant_x = None
        return replace(self, super_x=super_x, tenant_x=tenant_x)


models = st.builds(Model, tenant_sides, super_sides, st.booleans(), st.booleans())


@given(models)
def test_every_combination_converges_and_is_idempotent(model: Model):
    for _ in range(6):
        before = model
        model = model.apply(model.decision()).environment()
        if model == before:
            break
    else:
        raise AssertionError(f"never came to rest: {model}")
    last = model.decision()
    assert model.apply(last) == model
    tenant_x, super_x = model.tenant_x, model.super_x
    if super_x is not None and super_x.vc_uid != VC:
        return  # somebody else's, whatever it is
    if tenant_x is not None and model.wanted:
        assert super_x == SuperSide(VC, tenant_x.uid, deleting=False)
    else:
        assert super_x is None


@given(models)
def test_what_is_not_ours_is_never_touched(model: Model):
    decision = model.decision()
    if model.super_x is not None and model.super_x.vc_uid != VC:
        assert decision.verdict in (Verdict.FOREIGN, Verdict.NOTHING)


@given(models)
def test_a_delete_is_always_of_a_living_object_of_ours_and_says_why(model: Model):
    decision = model.decision()
    assert (decision.verdict is Verdict.DELETE) == (decision.grounds is not None)
    if decision.grounds is None:
        return
    assert model.super_x is not None
    assert model.super_x.vc_uid == VC
    assert not model.super_x.deleting
    match decision.grounds:
        case Grounds.ABSENT:
            assert model.tenant_x is None
        case Grounds.SUCCEEDED:
            assert model.tenant_x is not None
            assert model.tenant_x.uid != model.super_x.uid
        case Grounds.MARKED:
            assert model.tenant_x is not None
            assert model.tenant_x.deleting
        case Grounds.UNWANTED:
            assert not model.wanted


@given(models)
def test_compare_needs_both_uids(model: Model):
    """REL-09: an equal name and spec is not enough."""
    if model.decision().verdict is Verdict.COMPARE:
        assert model.tenant_x is not None
        assert model.super_x == SuperSide(VC, model.tenant_x.uid, deleting=False)


@pytest.mark.parametrize(
    ("tenant_x", "super_x", "options", "expected"),
    [
        (None, None, {}, (Verdict.NOTHING, None)),
        (TenantSide("uid-a", False), None, {}, (Verdict.CREATE, None)),
        (TenantSide("uid-a", True), None, {}, (Verdict.NOTHING, None)),
        (TenantSide("uid-a", False), None, {"wanted": False}, (Verdict.NOTHING, None)),
        (None, SuperSide(VC, "uid-a", False), {}, (Verdict.DELETE, Grounds.ABSENT)),
        (
            TenantSide("uid-b", False),
            SuperSide(VC, "uid-a", False),
            {},
            (Verdict.DELETE, Grounds.SUCCEEDED),
        ),
        (
            TenantSide("uid-b", False),
            SuperSide(VC, "uid-a", True),
            {},
            (Verdict.WAIT, None),
        ),
        (
            TenantSide("uid-a", True),
            SuperSide(VC, "uid-a", False),
            {},
            (Verdict.DELETE, Grounds.MARKED),
        ),
        (
            TenantSide("uid-a", True),
            SuperSide(VC, "uid-a", False),
            {"follows_mark": False},
            (Verdict.COMPARE, None),
        ),
        (
            TenantSide("uid-a", False),
            SuperSide("vc-2", "uid-a", False),
            {},
            (Verdict.FOREIGN, None),
        ),
        (
            TenantSide("uid-a", False),
            SuperSide("", "", False),
            {},
            (Verdict.FOREIGN, None),
        ),
        (TenantSide("a", True), None, {"follows_mark": False}, (Verdict.NOTHING, None)),
        (None, SuperSide("vc-2", "a", False), {}, (Verdict.NOTHING, None)),
        (TenantSide("a", True), SuperSide("vc-2", "a", False), {}, (Verdict.NOTHING, None)),
        (
            TenantSide("a", False),
            SuperSide("vc-2", "a", False),
            {"wanted": False},
            (Verdict.NOTHING, None),
        ),
        (TenantSide("a", False), SuperSide(VC, "a", False), {}, (Verdict.COMPARE, None)),
        (TenantSide("a", False), SuperSide(VC, "a", True), {}, (Verdict.WAIT, None)),
        (TenantSide("a", True), SuperSide(VC, "a", True), {}, (Verdict.NOTHING, None)),
        (None, SuperSide(VC, "a", True), {}, (Verdict.NOTHING, None)),
        (
            TenantSide("a", False),
            SuperSide(VC, "a", True),
            {"wanted": False},
            (Verdict.NOTHING, None),
        ),
        (
            TenantSide("a", True),
            SuperSide(VC, "a", True),
            {"follows_mark": False},
            (Verdict.WAIT, None),
        ),
        (
            TenantSide("a", False),
            SuperSide(VC, "a", False),
            {"wanted": False},
            (Verdict.DELETE, Grounds.UNWANTED),
        ),
        (
            TenantSide("a", True),
            SuperSide(VC, "a", False),
            {"wanted": False},
            (Verdict.DELETE, Grounds.MARKED),
        ),
        (
            TenantSide("a", True),
            SuperSide(VC, "a", False),
            {"wanted": False, "follows_mark": False},
            (Verdict.DELETE, Grounds.UNWANTED),
        ),
        (
            TenantSide("b", True),
            SuperSide(VC, "a", False),
            {},
            (Verdict.DELETE, Grounds.SUCCEEDED),
        ),
    ],
)
def test_the_rules_one_by_one(tenant_x, super_x, options, expected):
    assert decide(tenant_x, super_x, vc_uid=VC, **options) == Decision(*expected)


def test_ownership_is_both_uids():
    record = {wellknown.VC_UID: VC, wellknown.UID: "uid-a"}
    own = Tenant(name="vc", namespace="default", uid=VC, root="root")
    assert is_owned({"annotations": record}, own, "uid-a")
    assert not is_owned({"annotations": record}, own, "uid-b")
    assert not is_owned({"annotations": record}, replace(own, uid="vc-2"), "uid-a")
    assert not is_owned({"annotations": {wellknown.UID: "uid-a"}}, own, "uid-a")
    assert not is_owned({}, replace(own, uid=""), "")


def test_what_was_made_for_another_registration_is_a_strangers():
    own = Tenant(name="vc", namespace="default", uid=VC, root="root")
    far = replace(own, registration="r1")
    record = {wellknown.VC_UID: VC, wellknown.UID: "uid-a", wellknown.SUPER_CLUSTER: "r1"}
    entry = parse(orjson.dumps({"metadata": {"name": "n", "uid": "s", "annotations": record}}))
    assert super_side(entry, registration="r1") == SuperSide(VC, "uid-a", deleting=False)
    for other in ("", "r2"):
        assert super_side(entry, registration=other) == SuperSide("", "", deleting=False)
    assert is_owned({"annotations": record}, far, "uid-a")
    assert not is_owned({"annotations": record}, far, "uid-b")
    assert not is_owned({"annotations": record}, replace(far, uid="vc-2"), "uid-a")
    assert not is_owned({"annotations": record}, own, "uid-a")
    assert not is_owned({"annotations": record}, replace(own, registration="r2"), "uid-a")


def test_a_namespace_aimed_at_anothers_name_does_not_take_its_place():
    record = {wellknown.VC_UID: VC, wellknown.UID: "uid-a", wellknown.NAMESPACE: "long"}
    body = {"metadata": {"name": "n", "uid": "s", "annotations": record}}
    entry = parse(orjson.dumps(body))
    newcomer = TenantSide("uid-b", deleting=False)
    there = super_side(entry, "aimed")
    assert decide(newcomer, there, vc_uid=VC) == Decision(Verdict.FOREIGN)
    assert decide(None, there, vc_uid=VC) == Decision(Verdict.NOTHING)
    again = super_side(entry, "long")
    assert decide(newcomer, again, vc_uid=VC) == Decision(Verdict.DELETE, Grounds.SUCCEEDED)


def test_what_deciding_needs_of_an_entry_is_read_from_it():
    record = {wellknown.VC_UID: VC, wellknown.UID: "uid-a", wellknown.NAMESPACE: "web"}

    def entry(**metadata: object):
        return parse(orjson.dumps({"metadata": {"name": "n", "uid": "s", **metadata}}))

    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert tenant_side(None) is None
    assert super_side(None) is None
    assert tenant_side(entry()) == TenantSide("s", deleting=False)
    assert tenant_side(entry(**going)) == TenantSide("s", deleting=True)
    whole = entry(annotations=record)
    for namespace in (None, "web"):
        assert super_side(whole, namespace) == SuperSide(VC, "uid-a", deleting=False)
    ending = entry(annotations=record, **going)
    assert super_side(ending) == SuperSide(VC, "uid-a", deleting=True)
    assert super_side(ending, "other") == SuperSide("", "", deleting=True)
    assert super_side(entry(annotations={wellknown.UID: "uid-a"})) == SuperSide(
        "", "", deleting=False
    )
