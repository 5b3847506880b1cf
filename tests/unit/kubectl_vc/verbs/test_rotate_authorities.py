"""`kubectl vc certs rotate`: what is requested, and what is refused before."""

import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from kubectl_vc import flags
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output.cli_errors import CliError, UsageError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import rotate_authorities
from kubectl_vc.verbs.rotate_authorities import PrintedRotation, RotateOptions
from tenancy import wellknown
from vcmanager.pki import authority, rotation

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
STAMP = "2026-11-28T12:00:00+00:00"
ROWS = [PrintedRotation("client", "issue-new", STAMP), PrintedRotation("etcd", "trust-both", "")]


def options(*authorities, name="web", force_drop=""):
    return RotateOptions(
        name=name, authorities=authorities, force_drop=force_drop, manager_namespace="vc-manager"
    )


def test_the_flag_names_the_authorities_of_the_manager():
    known = {*wellknown.TENANT_AUTHORITIES, *wellknown.SHARED_AUTHORITIES}
    assert {each.value for each in flags.RotatedAuthority} == known
    assert set(rotation.WAITS) == known - {wellknown.AGENT_SERVING_AUTHORITY}


@pytest.mark.parametrize(
    ("given", "annotations"),
    [
        (options("client"), {"rotate.tenancy.x-k8s.io/client": STAMP}),
        (options(force_drop="client"), {"force-drop.tenancy.x-k8s.io/client": STAMP}),
        (
            options(),
            {
                f"rotate.tenancy.x-k8s.io/{name}": STAMP
                for name in ("serving", "client", "etcd", "front-proxy", "service-account")
            },
        ),
    ],
)
def test_a_request_is_one_annotation_per_authority(given, annotations):
    assert rotate_authorities.build_annotations(given, NOW) == annotations


@pytest.mark.parametrize(
    "given",
    [
        options("agent-client"),
        options("agent-serving"),
        options("agent-client", "etcd", name=""),
        options("agent-client", "agent-serving", name=""),
        options(name="", force_drop="agent-serving"),
        options("etcd", name=""),
        options(name=""),
    ],
)
async def test_the_agents_authority_belongs_to_no_virtual_cluster(given):
    with pytest.raises(UsageError):
        await rotate_authorities.run_rotate(
            ConfigFlags(), Terminal(io.StringIO(), io.StringIO()), given
        )


@pytest.mark.parametrize("days", [1, 4000])
def test_the_serving_authority_of_agents_is_replaced_after_its_end_only(days):
    made = authority.make_authority("vn-agent-serving-ca", now=NOW - timedelta(days=days))
    trust = {"data": {"serving-ca.crt": made.certificate.decode()}}
    if days == 1:
        with pytest.raises(CliError, match="can be replaced only after its end"):
            rotate_authorities.check_ended(trust, NOW)
    else:
        rotate_authorities.check_ended(trust, NOW)


def test_a_serving_authority_that_is_not_published_is_an_error_with_the_remedy():
    with pytest.raises(CliError, match=r"has no certificate under serving-ca\.crt"):
        rotate_authorities.check_ended({"data": {}}, NOW)


@pytest.mark.parametrize("name", ["etcd", "serving"])
def test_an_old_authority_is_dropped_only_after_the_new_one_issues(name):
    rotate_authorities.check_force(ROWS, "client", "VirtualCluster web")
    with pytest.raises(CliError, match="only in the stage issue-new"):
        rotate_authorities.check_force(ROWS, name, "VirtualCluster web")


def test_stages_are_shown_under_the_certificates():
    table = {
        "data": {
            wellknown.ROTATIONS_KEY: json.dumps(
                [{"authority": "client", "stage": "issue-new", "until": STAMP}]
            )
        }
    }
    rows = rotate_authorities.parse_rotations(table)
    assert rows == ROWS[:1]
    assert "client" in rotate_authorities.build_rotation_table(rows)
    assert rotate_authorities.build_rotation_table([]) == ""
    held = rotate_authorities.build_rotation_table(
        [rotate_authorities.PrintedRotation("service-account", "issue-new", STAMP, "web/ci")]
    )
    assert "service-account   issue-new   held" in held
    assert "not dropped: web/ci. Remove the cause, or use --force-drop service-account." in held
    with pytest.raises(CliError, match="Delete it"):
        rotate_authorities.parse_rotations(
            {
                "metadata": {"name": "x", "namespace": "y"},
                "data": {wellknown.ROTATIONS_KEY: "[1]"},
            }
        )
