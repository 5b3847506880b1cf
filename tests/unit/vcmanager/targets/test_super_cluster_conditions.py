"""Conditions of a SuperCluster, and their remedies."""

import base64
import json
from datetime import UTC, datetime

import pytest

from kubeio import errors
from tenancy import super_clusters, wellknown
from tenancy.super_clusters import ClusterRanges
from vcmanager.targets import super_cluster_conditions
from vcmanager.targets.probe import ProbeResult
from vcmanager.targets.required_permissions import RequiredPermission
from vcmanager.targets.super_cluster_conditions import TargetConditions

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PODS = ClusterRanges(pods=("10.244.0.0/16",))


def sight(version="v1.36.4", lacking=(), ranges=PODS) -> ProbeResult:
    return ProbeResult(
        version=version,
        identity="uid",
        missing_permissions=lacking,
        nodes=1,
        capacity={},
        ranges=ranges,
    )


def judged(found=None, *, home="v1.36.1", ranges=PODS, others=None, until=None, flat=False):
    verdict = TargetConditions()
    super_cluster_conditions.set_probe_conditions(
        verdict,
        found or sight(),
        name="c2",
        home_version=home,
        ranges=ranges,
        others=others or {},
        until=until,
    )
    verdict.set_ready(reachable_network=flat)
    return verdict.conditions


def token(**claims) -> str:
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"h.{middle}.s"


def test_a_cluster_that_is_well_is_ready():
    said = judged(until=datetime(2027, 1, 2, 3, 4, tzinfo=UTC))
    assert {kind: each.status for kind, each in said.items()} == {
        "Ready": "True",
        "Reachable": "True",
        "Authorized": "True",
        "VersionSupported": "True",
        "NetworksOverlap": "False",
    }
    assert "Its token expires on 2027-01-02 03:04 UTC" in said["Authorized"].message


def test_each_missing_verb_is_named_and_what_to_do():
    lacking = (RequiredPermission("", "pods", "create"), RequiredPermission("", "secrets", "list"))
    said = judged(sight(lacking=lacking))
    assert said["Authorized"].status == "False"
    assert "lacks permissions: pods: create; secrets: list" in said["Authorized"].message
    assert "kubectl vc target join c2" in said["Ready"].message
    assert said["Ready"].reason == "MissingRights"


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [
        ("v1.35.9", "True", ", and v1.36.1 in the home cluster"),
        ("v1.37.0-rc.1", "True", "in the home cluster"),
        ("v1.36.4+k3s1", "True", "in the home cluster"),
        (
            "v1.34.0",
            "False",
            "2 minors behind v1.36.1 of the home cluster (supported: 1). Upgrade the target",
        ),
        (
            "v1.38.0",
            "False",
            "2 minors ahead of v1.36.1 of the home cluster (supported: 1). Upgrade the home",
        ),
        ("banana", "Unknown", "is not a Kubernetes version. Check"),
        ("v1", "Unknown", "is not a Kubernetes version"),
        ("v1." + "9" * 5000, "Unknown", "is not a Kubernetes version"),
    ],
)
def test_one_minor_apart_is_supported(version, status, words):
    found = judged(sight(version))["VersionSupported"]
    assert (found.status, words in found.message) == (status, True), found


def test_overlapping_pods_are_reported_and_count_where_networks_meet():
    """A2-13."""
    others = {"home": ClusterRanges(pods=("10.244.0.0/24",))}
    apart, meeting = judged(others=others), judged(others=others, flat=True)
    assert apart["NetworksOverlap"].status == "True"
    assert "10.244.0.0/16 overlaps 10.244.0.0/24 of home" in apart["NetworksOverlap"].message
    assert "spec.network.reachable" in apart["NetworksOverlap"].message
    assert (apart["Ready"].status, meeting["Ready"].status) == ("True", "False")


def test_unknown_ranges_are_asked_for():
    found = judged(ranges=ClusterRanges())["NetworksOverlap"]
    assert (found.status, found.reason) == ("Unknown", "RangesUnknown")
    assert "spec.network.podCIDRs" in found.message


@pytest.mark.parametrize(
    ("reason", "is_stalled"),
    [("InvalidSpec", True), ("SameCluster", True), ("SecretNotFound", False)],
)
def test_only_what_no_later_probe_changes_is_stalled(reason, is_stalled):
    verdict = TargetConditions()
    verdict.set_unreachable(reason, "m")
    verdict.carry_over([])
    verdict.set_ready(reachable_network=True)
    listed = {each["type"]: each for each in verdict.build_conditions(now="t", generation=3)}
    assert ("Stalled" in listed) is is_stalled
    assert listed["Ready"]["reason"] == reason


def test_a_cluster_that_is_not_reached_keeps_what_cannot_have_changed():
    old = [
        {"type": "VersionSupported", "status": "True", "reason": "Supported", "message": "m"},
        {"type": "Authorized", "status": "True", "reason": "Authorized", "message": "m"},
    ]
    verdict = TargetConditions()
    verdict.set_unreachable("NoAnswer", "nobody there")
    verdict.carry_over(old)
    verdict.set_ready(reachable_network=True)
    listed = {each["type"]: each for each in verdict.build_conditions(now="t", generation=3)}
    # The agent's reconcile sets one. The other is for reasons that no later probe changes.
    others = [super_clusters.AGENT_READY, wellknown.STALLED]
    assert [*listed, *others] == [*super_clusters.CONDITIONS]
    assert {kind: each["status"] for kind, each in listed.items()} == {
        "Ready": "False",
        "Reachable": "False",
        "Authorized": "Unknown",
        "VersionSupported": "True",
        "NetworksOverlap": "Unknown",
    }
    assert listed["Ready"]["message"] == "nobody there"


@pytest.mark.parametrize(
    ("problem", "reason", "remedy"),
    [
        (errors.Untrusted("x: TLS failed"), "CertificateNotTrusted", "spec.tlsServerName"),
        (errors.Timeout("x: no answer"), "NoAnswer", "firewall"),
        (errors.NotSent("x: cannot connect"), "NotConnected", "spec.server"),
        (errors.Unavailable("x"), "NotConnected", "spec.server"),
        (errors.ServerError("x"), "ServerFails", "cannot serve"),
        (errors.ServerTimeout("x"), "NoAnswer", "firewall"),
        (errors.NotFound("x"), "ServerFails", "cannot serve"),
    ],
)
def test_why_a_cluster_is_not_reached(problem, reason, remedy):
    said = super_cluster_conditions.build_unreachable_condition(problem)
    assert (said.status, said.reason) == ("False", reason)
    assert remedy in said.message


def test_a_token_that_has_ended_is_reported():
    ended = int(datetime(2026, 2, 1, 10, 0, tzinfo=UTC).timestamp())
    assert super_cluster_conditions.describe_refused_credential(token(exp=ended), NOW).startswith(
        "The token expired on 2026-02-01 10:00 UTC. Run `kubectl vc target join` again"
    )
    for other in ("", token(exp=ended + 10**8), token(sub="x"), "opaque"):
        assert super_cluster_conditions.describe_refused_credential(other, NOW).startswith(
            "The target cluster does not accept"
        )


@pytest.mark.parametrize(
    "odd",
    [
        "a.b.c",
        "a.%%%.c",
        "....",
        token(exp="soon"),
        token(exp=10**30),
        token(exp=None),
        "a." + base64.urlsafe_b64encode(b"[" * 9000).decode() + ".c",
        "a." + "x" * 20_000 + ".c",
        "a." + base64.urlsafe_b64encode(b"[1]").decode() + ".c",
        "a." + base64.urlsafe_b64encode(b'{"exp": 1e999}').decode() + ".c",
    ],
)
def test_a_token_may_be_anything(odd):
    assert super_cluster_conditions.read_token_expiry(odd) is None


def test_a_message_is_cut_to_what_the_api_takes():
    verdict = TargetConditions()
    verdict.set_unreachable("NoAnswer", "x" * 100_000)
    verdict.carry_over([])
    verdict.set_ready(reachable_network=False)
    assert all(len(c["message"]) <= 4096 for c in verdict.build_conditions(now="t", generation=1))
