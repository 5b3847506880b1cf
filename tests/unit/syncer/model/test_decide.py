"""Every combination of the two sides comes to rest, and nothing foreign is ever touched."""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache.store import parse_entry
from syncer.model.decide import (
    Decision,
    DeleteGrounds,
    SuperState,
    SyncAction,
    TenantState,
    build_super_state,
    build_tenant_state,
    decide,
    is_owned,
)
from tenancy import wellknown
from tenancy.ownership import Tenant
from tests.support.syncer.key_states import VC, Sides

UIDS = ("uid-a", "uid-b")

tenant_sides = st.none() | st.builds(TenantState, st.sampled_from(UIDS), st.booleans())
super_sides = st.none() | st.builds(
    SuperState, st.sampled_from((VC, "vc-2", "")), st.sampled_from((*UIDS, "")), st.booleans()
)


@dataclass(frozen=True)
class Model(Sides):
    """Both sides, and an environment that finishes deletions."""

    def apply(self, decision: Decision) -> Model:
        """What the effect of a verdict makes of the world."""
        match decision.action:
            case SyncAction.CREATE:
                assert self.super_x is None
                assert self.tenant_x is not None
                return replace(self, super_x=SuperState(VC, self.tenant_x.uid, deleting=False))
            case SyncAction.DELETE:
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
        assert super_x == SuperState(VC, tenant_x.uid, deleting=False)
    else:
        assert super_x is None


@given(models)
def test_what_is_not_ours_is_never_touched(model: Model):
    decision = model.decision()
    if model.super_x is not None and model.super_x.vc_uid != VC:
        assert decision.action in (SyncAction.FOREIGN, SyncAction.NOTHING)


@given(models)
def test_a_delete_is_always_of_a_living_object_of_ours_and_says_why(model: Model):
    decision = model.decision()
    assert (decision.action is SyncAction.DELETE) == (decision.grounds is not None)
    if decision.grounds is None:
        return
    assert model.super_x is not None
    assert model.super_x.vc_uid == VC
    assert not model.super_x.deleting
    match decision.grounds:
        case DeleteGrounds.ABSENT:
            assert model.tenant_x is None
        case DeleteGrounds.SUCCEEDED:
            assert model.tenant_x is not None
            assert model.tenant_x.uid != model.super_x.uid
        case DeleteGrounds.MARKED:
            assert model.tenant_x is not None
            assert model.tenant_x.deleting
        case DeleteGrounds.UNWANTED:
            assert not model.wanted


@given(models)
def test_compare_needs_both_uids(model: Model):
    """REL-09: an equal name and spec is not enough."""
    if model.decision().action is SyncAction.COMPARE:
        assert model.tenant_x is not None
        assert model.super_x == SuperState(VC, model.tenant_x.uid, deleting=False)


@pytest.mark.parametrize(
    ("tenant_x", "super_x", "options", "expected"),
    [
        (None, None, {}, (SyncAction.NOTHING, None)),
        (TenantState("uid-a", False), None, {}, (SyncAction.CREATE, None)),
        (TenantState("uid-a", True), None, {}, (SyncAction.NOTHING, None)),
        (TenantState("uid-a", False), None, {"wanted": False}, (SyncAction.NOTHING, None)),
        (None, SuperState(VC, "uid-a", False), {}, (SyncAction.DELETE, DeleteGrounds.ABSENT)),
        (
            TenantState("uid-b", False),
            SuperState(VC, "uid-a", False),
            {},
            (SyncAction.DELETE, DeleteGrounds.SUCCEEDED),
        ),
        (
            TenantState("uid-b", False),
            SuperState(VC, "uid-a", True),
            {},
            (SyncAction.WAIT, None),
        ),
        (
            TenantState("uid-a", True),
            SuperState(VC, "uid-a", False),
            {},
            (SyncAction.DELETE, DeleteGrounds.MARKED),
        ),
        (
            TenantState("uid-a", True),
            SuperState(VC, "uid-a", False),
            {"follows_mark": False},
            (SyncAction.COMPARE, None),
        ),
        (
            TenantState("uid-a", False),
            SuperState("vc-2", "uid-a", False),
            {},
            (SyncAction.FOREIGN, None),
        ),
        (
            TenantState("uid-a", False),
            SuperState("", "", False),
            {},
            (SyncAction.FOREIGN, None),
        ),
        (TenantState("a", True), None, {"follows_mark": False}, (SyncAction.NOTHING, None)),
        (None, SuperState("vc-2", "a", False), {}, (SyncAction.NOTHING, None)),
        (TenantState("a", True), SuperState("vc-2", "a", False), {}, (SyncAction.NOTHING, None)),
        (
            TenantState("a", False),
            SuperState("vc-2", "a", False),
            {"wanted": False},
            (SyncAction.NOTHING, None),
        ),
        (TenantState("a", False), SuperState(VC, "a", False), {}, (SyncAction.COMPARE, None)),
        (TenantState("a", False), SuperState(VC, "a", True), {}, (SyncAction.WAIT, None)),
        (TenantState("a", True), SuperState(VC, "a", True), {}, (SyncAction.NOTHING, None)),
        (None, SuperState(VC, "a", True), {}, (SyncAction.NOTHING, None)),
        (
            TenantState("a", False),
            SuperState(VC, "a", True),
            {"wanted": False},
            (SyncAction.NOTHING, None),
        ),
        (
            TenantState("a", True),
            SuperState(VC, "a", True),
            {"follows_mark": False},
            (SyncAction.WAIT, None),
        ),
        (
            TenantState("a", False),
            SuperState(VC, "a", False),
            {"wanted": False},
            (SyncAction.DELETE, DeleteGrounds.UNWANTED),
        ),
        (
            TenantState("a", True),
            SuperState(VC, "a", False),
            {"wanted": False},
            (SyncAction.DELETE, DeleteGrounds.MARKED),
        ),
        (
            TenantState("a", True),
            SuperState(VC, "a", False),
            {"wanted": False, "follows_mark": False},
            (SyncAction.DELETE, DeleteGrounds.UNWANTED),
        ),
        (
            TenantState("b", True),
            SuperState(VC, "a", False),
            {},
            (SyncAction.DELETE, DeleteGrounds.SUCCEEDED),
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
    far = replace(own, super_cluster_uid="r1")
    record = {wellknown.VC_UID: VC, wellknown.UID: "uid-a", wellknown.SUPER_CLUSTER: "r1"}
    entry = parse_entry(
        orjson.dumps({"metadata": {"name": "n", "uid": "s", "annotations": record}})
    )
    assert build_super_state(entry, registration="r1") == SuperState(VC, "uid-a", deleting=False)
    for other in ("", "r2"):
        assert build_super_state(entry, registration=other) == SuperState("", "", deleting=False)
    assert is_owned({"annotations": record}, far, "uid-a")
    assert not is_owned({"annotations": record}, far, "uid-b")
    assert not is_owned({"annotations": record}, replace(far, uid="vc-2"), "uid-a")
    assert not is_owned({"annotations": record}, own, "uid-a")
    assert not is_owned({"annotations": record}, replace(own, super_cluster_uid="r2"), "uid-a")


def test_a_namespace_aimed_at_anothers_name_does_not_take_its_place():
    record = {wellknown.VC_UID: VC, wellknown.UID: "uid-a", wellknown.NAMESPACE: "long"}
    body = {"metadata": {"name": "n", "uid": "s", "annotations": record}}
    entry = parse_entry(orjson.dumps(body))
    newcomer = TenantState("uid-b", deleting=False)
    there = build_super_state(entry, "aimed")
    assert decide(newcomer, there, vc_uid=VC) == Decision(SyncAction.FOREIGN)
    assert decide(None, there, vc_uid=VC) == Decision(SyncAction.NOTHING)
    again = build_super_state(entry, "long")
    assert decide(newcomer, again, vc_uid=VC) == Decision(
        SyncAction.DELETE, DeleteGrounds.SUCCEEDED
    )


def test_what_deciding_needs_of_an_entry_is_read_from_it():
    record = {wellknown.VC_UID: VC, wellknown.UID: "uid-a", wellknown.NAMESPACE: "web"}

    def entry(**metadata: object):
        return parse_entry(orjson.dumps({"metadata": {"name": "n", "uid": "s", **metadata}}))

    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert build_tenant_state(None) is None
    assert build_super_state(None) is None
    assert build_tenant_state(entry()) == TenantState("s", deleting=False)
    assert build_tenant_state(entry(**going)) == TenantState("s", deleting=True)
    whole = entry(annotations=record)
    for namespace in (None, "web"):
        assert build_super_state(whole, namespace) == SuperState(VC, "uid-a", deleting=False)
    ending = entry(annotations=record, **going)
    assert build_super_state(ending) == SuperState(VC, "uid-a", deleting=True)
    assert build_super_state(ending, "other") == SuperState("", "", deleting=True)
    assert build_super_state(entry(annotations={wellknown.UID: "uid-a"})) == SuperState(
        "", "", deleting=False
    )
