import errno

import pytest

from kubectl_vc.output import cli_errors
from kubeio import errors
from kubeio.http import transport_protocol
from tests.support.kubeio.described_requests import REQUEST


def from_status(code: int, message: str, reason: str = "", **details) -> errors.ApiError:
    status = {"kind": "Status", "message": message, "reason": reason, "details": details}
    return errors.from_status(code, status, request=REQUEST)


def test_a_refusal_of_rbac_reports_who_may_not_what_and_how_to_get_it():
    told = cli_errors.describe_error(
        from_status(
            403,
            'virtualclusters.tenancy.x-k8s.io is forbidden: User "jane" cannot create resource'
            ' "virtualclusters" in API group "tenancy.x-k8s.io" in the namespace "shop"',
            "Forbidden",
        )
    )
    assert told == (
        "you (jane) may not create virtualclusters.tenancy.x-k8s.io in the namespace shop. Ask a"
        " platform administrator to run: kubectl create rolebinding NAME --clusterrole"
        " virtual-cluster-edit --user jane --namespace shop"
    )


@pytest.mark.parametrize(
    ("verb", "resource", "group", "scope", "remedy"),
    [
        (
            "list",
            "virtualclusters",
            "tenancy.x-k8s.io",
            "at the cluster scope",
            "kubectl create clusterrolebinding NAME --clusterrole virtual-cluster-view --user jane",
        ),
        (
            "get",
            "clusterversions",
            "tenancy.x-k8s.io",
            "at the cluster scope",
            (
                "kubectl create clusterrolebinding NAME --clusterrole virtual-cluster-versions"
                " --user jane"
            ),
        ),
        ("list", "namespaces", "", "at the cluster scope", "to allow `list` on it."),
    ],
)
def test_the_remedy_fits_what_was_refused(verb, resource, group, scope, remedy):
    message = (
        f'{resource} is forbidden: User "jane" cannot {verb} resource "{resource}" in API group'
        f' "{group}" {scope}'
    )
    assert cli_errors.describe_error(from_status(403, message)).endswith(remedy)


def test_a_refusal_by_others_is_passed_on():
    told = cli_errors.describe_error(
        from_status(403, "exceeded quota: tenants, used: 3, limited: 3")
    )
    assert (
        told == "the API server rejected the request: exceeded quota: tenants, used: 3, limited: 3"
    )


def test_a_kind_that_is_not_there_means_the_chart_is_not():
    told = cli_errors.describe_error(
        from_status(404, "the server could not find the requested resource", "NotFound")
    )
    assert "to install the Helm chart virtual-cluster" in told


def test_an_object_that_is_not_there_is_named():
    missing = from_status(
        404, 'virtualclusters.tenancy.x-k8s.io "web" not found', "NotFound", name="web"
    )
    assert cli_errors.describe_error(missing).startswith(
        'virtualclusters.tenancy.x-k8s.io "web" not found'
    )


def test_fields_that_are_wrong_are_named_with_the_words_of_the_schema():
    problem = from_status(
        422,
        "everything at once",
        "Invalid",
        name="both",
        kind="ClusterVersion",
        causes=[
            {"field": "spec", "message": 'Invalid value: "object": the short form and the bundles'},
            {"field": "spec.dns", "message": 'Unsupported value: "x": supported values: "managed"'},
            {"field": "<nil>", "message": "Invalid value: null: some validation rules were not"
             " checked because the object was invalid"},
        ],
    )  # fmt: skip
    assert cli_errors.describe_error(problem) == (
        'the ClusterVersion "both" is invalid: spec: the short form and the bundles.'
        ' spec.dns: Unsupported value: "x": supported values: "managed".'
    )


def test_a_policy_speaks_for_itself():
    words = "namespace 'a' and name 'b' have 60 characters together"
    policy = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "
    problem = from_status(422, f'the virtualclusters "b" is invalid: : {policy}{words}', "Invalid")
    assert cli_errors.describe_error(problem) == f'the virtualclusters "b" is invalid: : {words}'
    caused = from_status(
        422, "x", "Invalid", name="b", kind="virtualclusters", causes=[{"message": policy + words}]
    )
    assert cli_errors.describe_error(caused) == f'the VirtualCluster "b" is invalid: {words}.'


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (errors.NotSent("no route"), "Check --kubeconfig and --context"),
        (
            errors.Timeout("no answer within 15 s"),
            "the API server cannot be reached",
        ),
        (
            errors.Unavailable("the connection broke", request=REQUEST),
            "reached: https://super: the connection broke. Check",
        ),
        (
            from_status(404, 'namespaces "n" not found', "NotFound", kind="namespaces", name="n"),
            'namespaces "n" not found. Create it with `kubectl create namespace n`, or',
        ),
        (errors.Untrusted("TLS failed"), "Put the certificate of its CA into"),
        (
            from_status(401, "Unauthorized"),
            "you must be logged in to the server (Unauthorized). Log in again, or",
        ),
        (from_status(503, "etcd is away"), "the API server failed: etcd is away"),
        (errors.CredentialsError("the kubeconfig has no context 'x'"), "no context 'x'."),
        (from_status(409, "it changed\n  meanwhile"), "it changed meanwhile"),
    ],
)
def test_each_error_is_one_sentence_with_a_remedy(problem, told):
    sentence = cli_errors.describe_error(problem)
    assert told in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (
            transport_protocol.connect_failed(
                REQUEST, "super", 443, OSError(errno.ECONNREFUSED, "")
            ),
            "cannot be reached: cannot connect to super:443: Connection refused. Check",
        ),
        (
            transport_protocol.no_connection_in_time(REQUEST),
            "cannot be reached: https://super: no connection was made in time. Check",
        ),
        (
            transport_protocol.request_timed_out(REQUEST, 15),
            "cannot be reached: https://super: no answer within 15 s. Check",
        ),
        (
            transport_protocol.server_untrusted(REQUEST, ValueError("old")),
            "https://super: TLS failed: old: the certificate",
        ),
    ],
)
def test_server_without_answer_is_named_without_the_path_of_the_request(problem, shown):
    assert "POST /apis/x" in str(problem)
    sentence = cli_errors.describe_error(problem)
    assert shown in sentence
    assert "/apis" not in sentence


def test_a_wrong_call_ends_with_2_and_everything_else_with_1():
    assert cli_errors.UsageError("x").exit_code == 2
    assert cli_errors.CliError("x").exit_code == 1
