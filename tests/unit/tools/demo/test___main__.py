"""The demo: an audit without a proof, and the policy of its tenant."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kubectl_vc.audit.quota import QuotaRoom, choose_request, find_limits
from kubectl_vc.audit.report import HoleFoundError, UnprovedError
from tenancy import policies
from tenancy.policies import BASELINE_POLICY
from tools.demo.__main__ import HERE, POLICY, ROOT, UNPROVED, SuperCluster, check_audit
from tools.demo.transcript import TranscriptError


def cluster(*, is_embedded: bool, enforces: bool) -> SuperCluster:
    return SuperCluster(Path("kubeconfig"), is_embedded, enforces)


@pytest.mark.parametrize("code", UNPROVED)
def test_a_hole_in_a_cluster_that_enforces_policies_ends_the_demo(code):
    found = cluster(is_embedded=True, enforces=True)
    check_audit(0, must_isolate=found.must_isolate)
    with pytest.raises(TranscriptError, match="although this cluster enforces network policies"):
        check_audit(code, must_isolate=found.must_isolate)


@pytest.mark.parametrize("code", [0, *UNPROVED])
@pytest.mark.parametrize(("is_embedded", "enforces"), [(True, False), (False, False)])
def test_a_hole_is_shown_where_the_cluster_may_have_no_enforcement(code, is_embedded, enforces):
    found = cluster(is_embedded=is_embedded, enforces=enforces)
    check_audit(code, must_isolate=found.must_isolate)


def test_each_exit_code_of_an_audit_without_a_proof_is_known():
    assert set(UNPROVED) == {HoleFoundError.exit_code, UnprovedError.exit_code}


def test_the_policy_of_the_tenant_is_baseline_with_a_quota_that_the_audit_can_prove():
    body = yaml.safe_load((ROOT / HERE / "policy.yaml").read_text())
    tenant = yaml.safe_load((ROOT / HERE / "vc.yaml").read_text())
    assert body["metadata"]["name"] == POLICY == tenant["spec"]["policyRef"]["name"]
    policy = policies.parse_tenant_policy(body)
    assert policy.quota.items() >= BASELINE_POLICY.quota.items()
    assert choose_request(QuotaRoom(find_limits(policy.quota), {})) is not None
    assert policy.security == BASELINE_POLICY.security
