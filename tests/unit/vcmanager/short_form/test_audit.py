"""Audit settings of the API server (T2-17)."""

import json

import pytest
import yaml

from tenancy.specs import parse_cluster_version
from tests.support.vcmanager.factories import wish
from vcmanager.plan import control_plane, service_cidrs
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.short_form import audit

SLICE = ServiceRange(service_cidrs.ip_network("10.96.8.0/22"))


def settings(**spec):
    body = {"metadata": {"name": "v"}, "spec": {"kubernetesVersion": "1.36", "audit": spec}}
    return audit.build_audit(parse_cluster_version(body).audit)


def test_without_the_field_nothing_is_recorded():
    assert audit.build_audit(None) == audit.AuditSettings()


def test_the_default_is_metadata_in_the_log_of_the_container():
    made = settings()
    assert made.flags[1:] == ("--audit-log-path=-",)
    assert json.loads(made.policy)["rules"][-1] == {"level": "Metadata"}
    assert not made.file_limit


@pytest.mark.parametrize("level", ["Metadata", "Request", "RequestResponse"])
def test_bodies_with_credentials_are_never_recorded(level):
    """SEC-84."""
    rules = json.loads(settings(level=level).policy)["rules"]
    assert rules[-1] == {"level": level}
    (credentials,) = [each for each in rules if "resources" in each]
    assert credentials["level"] == "Metadata"
    named = {name for group in credentials["resources"] for name in group["resources"]}
    assert {"secrets", "configmaps", "serviceaccounts/token", "tokenreviews"} <= named


def test_a_policy_replaces_the_level_and_keeps_its_kind():
    made = json.loads(settings(policy={"kind": "Other", "rules": [{"level": "Request"}]}).policy)
    assert made == {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [{"level": "Request"}],
    }


def test_a_file_is_rotated_within_a_volume_of_limited_size():
    made = settings(log={"output": "File", "maxSizeMiB": 10, "maxBackups": 2})
    assert "--audit-log-maxsize=10" in made.flags
    assert "--audit-log-maxbackup=2" in made.flags
    assert made.file_limit == "50Mi"


def test_a_webhook_alone_writes_no_log():
    made = settings(webhook={"secretName": "receiver"})
    assert made.has_webhook
    assert not any("log" in flag for flag in made.flags)
    both = settings(webhook={"secretName": "receiver"}, log={})
    assert "--audit-log-path=-" in both.flags


def test_the_pod_mounts_what_the_flags_name():
    body = {
        "metadata": {"name": "v"},
        "spec": {
            "kubernetesVersion": "1.36",
            "encryption": {"provider": "secretbox"},
            "audit": {"log": {"output": "File"}, "webhook": {"secretName": "receiver"}},
        },
    }
    plan = control_plane.build_plan(wish(version=parse_cluster_version(body)), SLICE)
    found = {(each["kind"], each["metadata"]["name"]): each for each in plan.workloads}
    config = found["ConfigMap", "apiserver-config"]["data"]
    assert yaml.safe_load(config["audit-policy.yaml"])["kind"] == "Policy"
    pod = found["StatefulSet", "apiserver"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = [each["mountPath"] for each in container["volumeMounts"]]
    files = [
        flag.partition("=")[2]
        for flag in container["args"]
        if flag.startswith(("--audit", "--encryption")) and "=/" in flag
    ]
    assert len(files) == 4
    for path in files:
        assert any(path.startswith(f"{mount}/") for mount in mounts)
    volumes = {each["name"] for each in pod["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes
