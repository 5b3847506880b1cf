"""Every combination of the two sides comes to rest, and nothing foreign is ever touched."""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache.store import parse_entry
from syncer.model.decide import (
    AwaitTwinEnd,
    CompareTwin,
    CreateTwin,
    DeleteGrounds,
    DeleteTwin,
    NoAction,
    ReportForeign,
    SuperState,
    SyncAction,
    build_super_state,
    decide,
    is_owned,
)
from tenancy import wellknown
from tenancy.ownership import Tenant
from tests.support.syncer.key_states import (
    VC,
    Sides,
    TenantState,
    TwinState,
    decided,
    outcome,
)

UIDS = ("uid-a", "uid-b")

tenant_sides = st.none() | st.builds(TenantState, st.sampled_from(UIDS), st.booleans())
super_sides = st.none() | st.builds(
    TwinState, st.sampled_from((VC, "vc-2", "")), st.sampled_from((*UIDS, "")), st.booleans()
)


@dataclass(frozen=True)
class Model(Sides):
    """Both sides, and an environment that finishes deletions."""

    def apply(self, action: SyncAction) -> Model:
        """The state of the world after the effect of a verdict."""
        match action:
            case CreateTwin():
                assert self.super_x is None
                assert self.tenant_x is not None
                return replace(self, super_x=TwinState(VC, self.tenant_x.uid, deleting=False))
            case DeleteTwin():
                assert self.super_x is not None
                return replace(self, super_x=self.super_x._replace(deleting=True))
        return self

    def environment(self) -> Model:
        """A super object that is marked goes. A tenant object that is marked goes."""
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
        return  # another owner's, whatever it is
    if tenant_x is not None and model.wanted:
        assert super_x == TwinState(VC, tenant_x.uid, deleting=False)
    else:
        assert super_x is None


@given(models)
def test_what_is_not_ours_is_never_touched(model: Model):
    action = model.decision()
    if model.super_x is not None and model.super_x.vc_uid != VC:
        assert isinstance(action, ReportForeign | NoAction)


@given(models)
def test_a_delete_is_always_of_a_living_object_of_ours_and_reports_why(model: Model):
    action = model.decision()
    if not isinstance(action, DeleteTwin):
        return
    assert model.super_x is not None
    assert action.super_x == model.super_x
    assert model.super_x.vc_uid == VC
    assert not model.super_x.deleting
    match action.grounds:
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
    action = model.decision()
    if isinstance(action, CompareTwin):
        assert model.tenant_x is not None
        assert (action.tenant_x, action.super_x) == (model.tenant_x, model.super_x)
        assert model.super_x == TwinState(VC, model.tenant_x.uid, deleting=False)


@pytest.mark.parametrize(
    ("tenant_x", "super_x", "options", "expected"),
    [
        (None, None, {}, (NoAction, None)),
        (TenantState("uid-a", False), None, {}, (CreateTwin, None)),
        (TenantState("uid-a", True), None, {}, (NoAction, None)),
        (TenantState("uid-a", False), None, {"wanted": False}, (NoAction, None)),
        (None, TwinState(VC, "uid-a", False), {}, (DeleteTwin, DeleteGrounds.ABSENT)),
        (
            TenantState("uid-b", False),
            TwinState(VC, "uid-a", False),
            {},
            (DeleteTwin, DeleteGrounds.SUCCEEDED),
        ),
        (
            TenantState("uid-b", False),
            TwinState(VC, "uid-a", True),
            {},
            (AwaitTwinEnd, None),
        ),
        (
            TenantState("uid-a", True),
            TwinState(VC, "uid-a", False),
            {},
            (DeleteTwin, DeleteGrounds.MARKED),
        ),
        (
            TenantState("uid-a", True),
            TwinState(VC, "uid-a", False),
            {"follows_mark": False},
            (CompareTwin, None),
        ),
        (
            TenantState("uid-a", False),
            TwinState("vc-2", "uid-a", False),
            {},
            (ReportForeign, None),
        ),
        (
            TenantState("uid-a", False),
            TwinState("", "", False),
            {},
            (ReportForeign, None),
        ),
        (TenantState("a", True), None, {"follows_mark": False}, (NoAction, None)),
        (None, TwinState("vc-2", "a", False), {}, (NoAction, None)),
        (TenantState("a", True), TwinState("vc-2", "a", False), {}, (NoAction, None)),
        (
            TenantState("a", False),
            TwinState("vc-2", "a", False),
            {"wanted": False},
            (NoAction, None),
        ),
        (TenantState("a", False), TwinState(VC, "a", False), {}, (CompareTwin, None)),
        (TenantState("a", False), TwinState(VC, "a", True), {}, (AwaitTwinEnd, None)),
        (TenantState("a", True), TwinState(VC, "a", True), {}, (NoAction, None)),
        (None, TwinState(VC, "a", True), {}, (NoAction, None)),
        (
            TenantState("a", False),
            TwinState(VC, "a", True),
            {"wanted": False},
            (NoAction, None),
        ),
        (
            TenantState("a", True),
            TwinState(VC, "a", True),
            {"follows_mark": False},
            (AwaitTwinEnd, None),
        ),
        (
            TenantState("a", False),
            TwinState(VC, "a", False),
            {"wanted": False},
            (DeleteTwin, DeleteGrounds.UNWANTED),
        ),
        (
            TenantState("a", True),
            TwinState(VC, "a", False),
            {"wanted": False},
            (DeleteTwin, DeleteGrounds.MARKED),
        ),
        (
            TenantState("a", True),
            TwinState(VC, "a", False),
            {"wanted": False, "follows_mark": False},
            (DeleteTwin, DeleteGrounds.UNWANTED),
        ),
        (
            TenantState("b", True),
            TwinState(VC, "a", False),
            {},
            (DeleteTwin, DeleteGrounds.SUCCEEDED),
        ),
    ],
)
def test_the_rules_one_by_one(tenant_x, super_x, options, expected):
    action = decided(tenant_x, super_x, vc_uid=VC, **options)
    assert outcome(action) == expected
    for name, side in (("tenant_x", tenant_x), ("super_x", super_x)):
        assert getattr(action, name, side) is side, "it is decided on these objects"


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
    assert build_super_state(entry, registration="r1") == SuperState(entry, VC, "uid-a")
    for other in ("", "r2"):
        assert build_super_state(entry, registration=other) == SuperState(entry, "", "")
    assert is_owned({"annotations": record}, far, "uid-a")
    assert not is_owned({"annotations": record}, far, "uid-b")
    assert not is_owned({"annotations": record}, replace(far, uid="vc-2"), "uid-a")
    assert not is_owned({"annotations": record}, own, "uid-a")
    assert not is_owned({"annotations": record}, replace(own, super_cluster_uid="r2"), "uid-a")


def test_a_namespace_aimed_at_anothers_name_does_not_take_its_place():
    record = {wellknown.VC_UID: VC, wellknown.UID: "uid-a", wellknown.NAMESPACE: "long"}
    body = {"metadata": {"name": "n", "uid": "s", "annotations": record}}
    entry = parse_entry(orjson.dumps(body))
    newcomer = parse_entry(orjson.dumps({"metadata": {"name": "n", "uid": "uid-b"}}))
    there = build_super_state(entry, "aimed")
    assert decide(newcomer, there, vc_uid=VC) == ReportForeign(newcomer)
    assert decide(None, there, vc_uid=VC) == NoAction()
    again = build_super_state(entry, "long")
    assert decide(newcomer, again, vc_uid=VC) == DeleteTwin(entry, DeleteGrounds.SUCCEEDED)


def test_what_deciding_needs_of_an_entry_is_read_from_it():
    record = {wellknown.VC_UID: VC, wellknown.UID: "uid-a", wellknown.NAMESPACE: "web"}

    def entry(**metadata: object):
        return parse_entry(orjson.dumps({"metadata": {"name": "n", "uid": "s", **metadata}}))

    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert build_super_state(None) is None
    whole = entry(annotations=record)
    assert not whole.deleting
    for namespace in (None, "web"):
        assert build_super_state(whole, namespace) == SuperState(whole, VC, "uid-a")
    ending = entry(annotations=record, **going)
    assert ending.deleting
    assert build_super_state(ending) == SuperState(ending, VC, "uid-a")
    assert build_super_state(ending, "other") == SuperState(ending, "", "")
    partly = entry(annotations={wellknown.UID: "uid-a"})
    assert build_super_state(partly) == SuperState(partly, "", "")
