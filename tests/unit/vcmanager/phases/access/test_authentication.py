"""The file changes only after every check, and the condition follows the API server's metric."""

import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import NOW, wish, workload
from tests.unit.vcmanager.pki.test_reloaded_files import RANGE
from tests.unit.vcmanager.plan.access.test_authentication_rules import GOOD, issuer, parse
from tests.unit.vcmanager.plan.access.test_expression_check import WHOLE
from tests.unit.vcmanager.plan.access.test_reload_metrics import FAILURE
from vcmanager.phases.access import authentication
from vcmanager.plan import control_plane
from vcmanager.plan.access import authentication_config, reload_metrics
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

PLAN = control_plane.build_plan(wish(), RANGE)
BASIS = authentication_config.get_basis(PLAN)
OTHER = issuer(url="https://other.example.com")


class TenantApi:
    """Stands where the tenant's client is."""

    def __init__(self, problem=None, lines=()):
        self.problem, self.lines = problem, list(lines)
        self.created, self.read = [], 0

    async def create(self, _resource, body, *, dry_run):
        assert dry_run
        self.created.append(body)
        if self.problem is not None:
            raise self.problem

    async def find_lines(self, path, *, start, max_bytes):
        assert (path, start) == ("/metrics", reload_metrics.PREFIX)
        assert max_bytes == reload_metrics.MAX_BYTES
        self.read += 1
        if isinstance(self.lines[0] if self.lines else None, Exception):
            raise self.lines[0]
        return self.lines


def observed(file, *, is_ready=True):
    config_map = {"metadata": {"name": "apiserver-config"}, "data": {"authentication.yaml": file}}
    sets = {"apiserver": workload("apiserver", ready=int(is_ready))}
    return ObservedObjects(
        namespace={}, objects={"ConfigMap": {"apiserver-config": config_map}, "StatefulSet": sets}
    )


async def plan_it(entries, *, live=BASIS, api=None, is_ready=True, plan=PLAN, **more):
    report = ReconcileStatus(generation=1, now=NOW.isoformat())
    api = api or TenantApi()

    async def connect():
        return api

    made = await authentication.plan_authentication(
        wish(auth=parse(*entries), **more), plan, observed(live, is_ready=is_ready), report, connect
    )
    file = authentication_config.get_basis(made)
    return file, report.get_condition(wellknown.AUTHENTICATION_READY), api


def file_of(*entries):
    return authentication_config.build_file(BASIS, parse(*entries))


async def test_good_issuers_are_compiled_once_and_written():
    file, condition, api = await plan_it([WHOLE])
    assert (file, condition, len(api.created)) == (file_of(WHOLE), None, 1)
    file, condition, api = await plan_it([WHOLE], live=file_of(WHOLE))
    assert (file, condition, api.created) == (file_of(WHOLE), None, [])


async def test_no_issuer_is_the_basis_at_once():
    file, condition, api = await plan_it([], live=file_of(GOOD))
    assert (file, condition, api.created) == (BASIS, None, [])


@pytest.mark.parametrize("live", [BASIS, file_of(OTHER)])
@pytest.mark.parametrize(
    "entry",
    [
        issuer(url="https://a?b"),
        {**GOOD, "claimValidationRules": [{"expression": "object == null"}]},
    ],
)
async def test_a_bad_issuer_keeps_the_file_and_asks_no_api_server(entry, live):
    file, condition, api = await plan_it([entry], live=live)
    assert (file, api.created) == (live, [])
    assert (condition["status"], condition["reason"]) == ("False", "InvalidAuthentication")
    assert "spec.auth.jwt[0]" in condition["message"]


async def test_an_expression_that_does_not_compile_keeps_the_file():
    refused = errors.Invalid(
        "no",
        details={"causes": [{"field": "spec.variables[2].expression", "message": "undeclared"}]},
    )
    file, condition, _ = await plan_it([WHOLE], live=file_of(OTHER), api=TenantApi(refused))
    assert file == file_of(OTHER)
    assert condition["reason"] == "InvalidAuthentication"
    assert "claimMappings.username.expression" in condition["message"]


@pytest.mark.parametrize("problem", [errors.Unavailable("away"), errors.Forbidden("no")])
async def test_an_api_server_that_does_not_check_keeps_the_file(problem):
    file, condition, _ = await plan_it([WHOLE], api=TenantApi(problem))
    assert (file, condition["reason"]) == (BASIS, "NotChecked")


async def test_a_new_tenant_starts_without_issuers():
    file, condition, api = await plan_it([GOOD], is_ready=False)
    assert (file, condition["reason"], api.created) == (BASIS, "NotChecked", [])


async def report_it(entries, lines, *, old=(), is_held=False):
    report = ReconcileStatus(generation=1, now=NOW.isoformat())
    plan = authentication_config.replace_file(PLAN, file_of(*entries))
    api = TenantApi(lines=lines)
    await authentication.report_authentication(
        wish(auth=parse(*entries)),
        plan,
        report,
        {"conditions": list(old)},
        client=api,
        is_held=is_held,
    )
    return report.get_condition(wellknown.AUTHENTICATION_READY), api


def used(*entries):
    text = authentication_config.compute_hash(file_of(*entries)).encode()
    return reload_metrics.PREFIX + b'last_config_info{apiserver_id_hash="a",hash="' + text + b'"} 1'


def condition(status, reason="x", message="m", since="2026-03-01T11:00:00Z"):
    return {
        "type": wellknown.AUTHENTICATION_READY,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


async def test_the_condition_follows_the_hash_in_use():
    found, _ = await report_it([GOOD], [used(GOOD)])
    assert (found["status"], found["reason"]) == ("True", "InUse")
    again, api = await report_it([GOOD], [], old=[{**condition("True"), **found}])
    assert again["status"] == "True"
    assert api.read == 0
    other, _ = await report_it([GOOD], [used(OTHER)], old=[condition("True")])
    assert (other["status"], other["reason"]) == ("False", "Reloading")
    held, api = await report_it([GOOD], [], is_held=True)
    assert (held["reason"], api.read) == (wellknown.WAITING_FOR_ROLLOUT, 0)


@pytest.mark.parametrize(
    ("since", "reason"),
    [("2023-11-14T00:00:00Z", "ReloadFailed"), ("2023-11-15T00:00:00Z", "Reloading")],
)
async def test_a_failure_after_the_change_is_reported(since, reason):
    lines = [used(OTHER), FAILURE + b"1.700000001e+09"]  # 2023-11-14T22:13:21Z
    found, _ = await report_it([GOOD], lines, old=[condition("False", since=since)])
    assert found["reason"] == reason


async def test_removed_issuers_are_reported_until_the_api_server_forgets_them():
    found, api = await report_it([], [])
    assert (found, api.read) == (None, 0)
    found, _ = await report_it([], [used(GOOD)], old=[condition("True")])
    assert found["reason"] == "Reloading"
    found, _ = await report_it([], [used()], old=[condition("False")])
    assert found is None


@pytest.mark.parametrize("problem", [errors.Unavailable("x"), TimeoutError()])
async def test_metrics_that_cannot_be_read_are_read_later(problem):
    found, _ = await report_it([GOOD], [problem])
    assert found["reason"] == "Reloading"
