"""Service variables, resolvers, host names and tokens of a pod."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncer.rules.pods import token_specs
from syncer.rules.pods.token_specs import TokenSpec
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")


NOW = datetime(2026, 1, 1, tzinfo=UTC)


SHARED = TokenSpec(namespace="web", account="robot", account_uid="a-uid")


BOUND = TokenSpec(
    namespace="web",
    account="robot",
    account_uid="a-uid",
    audience="vault",
    seconds=900,
    pod="p",
    pod_uid="p-uid",
)


@pytest.mark.parametrize("token", [SHARED, BOUND])
def test_a_token_secret_reports_all_that_its_renewal_needs(token):
    expires = NOW + timedelta(seconds=token.seconds)
    secret = token_specs.build_secret(token, TENANT, "below", "the-token", expires=expires, now=NOW)
    annotations = secret["metadata"]["annotations"]
    assert token_specs.parse_secret(annotations) == token
    assert secret["metadata"]["name"] == token.secret_name
    assert secret["data"] == {"token": "dGhlLXRva2Vu"}
    assert "the-token" not in str(secret)
    assert token_specs.compute_seconds_to_renewal(annotations, NOW) == token.seconds / 2


def test_what_is_no_token_secret_is_none():
    assert token_specs.parse_secret({}) is None
    assert (
        token_specs.parse_secret({wellknown.TOKEN_SECONDS: "7200", wellknown.ACCOUNT: "a"}) is None
    )
    assert token_specs.compute_seconds_to_renewal({wellknown.TOKEN_RENEW: "never"}, NOW) == 0


@pytest.mark.parametrize(
    ("given", "wait"), [(600, 300), (7200, 3600), (31536000, 3600), (30, 60), (-5, 60)]
)
def test_a_token_is_renewed_at_half_the_life_that_the_tenant_gave_it(given, wait):
    expires = NOW + timedelta(seconds=given)
    secret = token_specs.build_secret(SHARED, TENANT, "below", "t", expires=expires, now=NOW)
    assert token_specs.compute_seconds_to_renewal(secret["metadata"]["annotations"], NOW) == wait


def test_what_is_asked_of_the_tenant():
    assert SHARED.build_request()["spec"] == {"expirationSeconds": 7200}
    assert BOUND.build_request()["spec"] == {
        "expirationSeconds": 900,
        "audiences": ["vault"],
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid"},
    }


def test_pods_of_an_account_share_one_token_and_audiences_are_bound():
    def pod(uid: str) -> dict[str, object]:
        sources = [
            {"serviceAccountToken": {"path": "t", "expirationSeconds": 3607}},
            {"serviceAccountToken": {"path": "v", "audience": "vault", "expirationSeconds": 10}},
        ]
        return {
            "metadata": {"name": uid, "namespace": "web", "uid": uid},
            "spec": {"volumes": [{"name": "x", "projected": {"sources": sources}}]},
        }

    one, two = (token_specs.list_token_specs(pod(uid), "a-uid") for uid in ("p1", "p2"))
    assert one["", 3607].secret_name == two["", 3607].secret_name
    assert one["vault", 10].secret_name != two["vault", 10].secret_name
    assert one["vault", 10].seconds == 600  # the least that the API gives
    assert one["", 3607].account == "default"
    assert one["", 3607].secret_name == names.build_token_secret_name("a-uid", "", 7200)


def test_a_token_secret_is_one_that_an_api_server_takes():
    secret = token_specs.build_secret(
        BOUND, TENANT, "below", "t", expires=NOW + timedelta(seconds=900), now=NOW
    )
    metadata = secret.pop("metadata")
    assert secret == {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "data": {"token": "dA=="},
    }
    annotations = metadata.pop("annotations")
    assert metadata == {
        "name": BOUND.secret_name,
        "namespace": "below",
        "labels": ownership.build_owner_labels(TENANT, "web"),
    }
    assert annotations[wellknown.EXPIRES] == "2026-01-01T00:15:00+00:00"
    assert annotations[wellknown.TOKEN_POD] == "p/p-uid"


def test_the_tenant_is_asked_in_the_words_of_its_api():
    request = SHARED.build_request()
    assert (request["apiVersion"], request["kind"]) == (
        "authentication.k8s.io/v1",
        "TokenRequest",
    )


def test_what_a_source_leaves_out_is_what_the_api_would_write():
    assert token_specs.parse_source({}) == ("", 3600)
    assert token_specs.parse_source({"audience": "v", "expirationSeconds": 7}) == ("v", 7)


@pytest.mark.parametrize(
    "missing", [wellknown.TOKEN_SECONDS, wellknown.ACCOUNT, wellknown.VC_UID, wellknown.UID]
)
def test_half_a_record_of_a_token_is_none(missing):
    secret = token_specs.build_secret(BOUND, TENANT, "below", "t", expires=NOW, now=NOW)
    annotations = secret["metadata"]["annotations"]
    assert token_specs.parse_secret({**annotations, wellknown.TOKEN_SECONDS: "soon"}) is None
    del annotations[missing]
    assert token_specs.parse_secret(annotations) is None


@pytest.mark.parametrize(("made_for", "others"), [("", ["r1"]), ("r1", ["", "r2"])])
def test_a_token_is_one_of_the_registration_that_it_was_made_for(made_for, others):
    tenant = replace(TENANT, super_cluster_uid=made_for)
    secret = token_specs.build_secret(BOUND, tenant, "below", "t", expires=NOW, now=NOW)
    annotations = secret["metadata"]["annotations"]
    assert token_specs.parse_secret(annotations, made_for) == BOUND
    for other in others:
        assert token_specs.parse_secret(annotations, other) is None


def test_a_token_without_an_audience_or_a_pod_is_the_shared_one():
    secret = token_specs.build_secret(SHARED, TENANT, "below", "t", expires=NOW, now=NOW)
    annotations = secret["metadata"]["annotations"]
    del annotations[wellknown.TOKEN_AUDIENCE]
    assert token_specs.parse_secret(annotations) == SHARED


def test_the_tokens_of_a_pod_are_those_of_its_own_account_and_itself():
    sources = [
        {"serviceAccountToken": {"path": "t"}},
        {"serviceAccountToken": {"path": "v", "audience": "vault", "expirationSeconds": 900}},
    ]
    tenant_pod = {
        "metadata": {"name": "p", "namespace": "web", "uid": "p-uid"},
        "spec": {
            "serviceAccountName": "robot",
            "volumes": [{"name": "x", "projected": {"sources": sources}}],
        },
    }
    assert token_specs.list_token_specs(tenant_pod, "a-uid") == {
        ("", 3600): SHARED,
        ("vault", 900): BOUND,
    }
