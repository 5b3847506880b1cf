"""`kubectl vc target doctor`: one result for each condition, with what to do."""

from __future__ import annotations

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.target import doctor, manifests
from tests.support.kubectl_vc.super_clusters import body, held


def test_a_resolver_is_an_address_and_the_doctor_reports_where_there_is_none():
    with pytest.raises(CliError, match="is not an IP address"):
        manifests.parse_resolvers(["dns.example.com"])
    with pytest.raises(CliError, match="names an interface"):
        manifests.parse_resolvers(["fe80::1%eth0"])
    with pytest.raises(CliError, match="at most 3"):
        manifests.parse_resolvers([f"10.0.0.{number}" for number in range(4)])
    found = body(Ready="True")
    (note,) = [each for each in doctor.list_check_results(found) if each.check == "Resolver"]
    assert (note.result, "--resolver" in note.message) == ("note", True)
    found["spec"]["network"]["resolvers"] = ["10.98.0.10"]
    assert "Resolver" not in results(found)
    assert "Resolver" not in results(body("home", Ready="True"))


def results(found) -> dict[str, str]:
    return {each.check: each.result for each in doctor.list_check_results(found)}


def test_the_doctor_reports_each_condition():
    found = body(
        Ready="False",
        Reachable="True",
        Authorized="False",
        VersionSupported="Unknown",
        NetworksOverlap="False",
    )
    assert results(found) == {
        "Reachable": "ok",
        "Authorized": "wrong",
        "VersionSupported": "unknown",
        "NetworksOverlap": "ok",
        "Resolver": "note",
    }
    assert "c2     Authorized         wrong     about Authorized more" in doctor.build_table(
        doctor.list_check_results(found)
    )


@pytest.mark.parametrize(
    ("status", "flat", "result"),
    [
        ("True", True, "wrong"),
        ("True", False, "note"),
        ("Unknown", True, "note"),
        ("False", True, "ok"),
    ],
)
def test_an_overlap_is_a_fault_where_networks_meet(status, flat, result):
    assert results(body(flat=flat, NetworksOverlap=status))["NetworksOverlap"] == result


def test_the_doctor_reports_when_no_one_looks():
    assert results({"metadata": {"name": "c2"}}) == {"Checked": "unknown"}
    assert results(body(generation=2, Reachable="True"))["Checked"] == "unknown"


def test_a_hold_is_something_that_a_doctor_finds():
    loss = {"type": "LossesHeld", "status": "True", "message": "m"}
    found, _resolver = doctor.list_check_results(held(loss))
    assert (found.check, found.result) == ("LossesHeld", "wrong")
    found, _resolver = doctor.list_check_results(held({**loss, "status": "False"}))
    assert found.result == "ok"
