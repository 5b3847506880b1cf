from datetime import UTC, datetime

import pytest

from kubectl_vc.verbs import get

NOW = datetime(2026, 1, 2, tzinfo=UTC)
STAMP = "2026-01-01T23:59:00Z"


def pod(name: str, namespace: str, **status) -> dict:
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": STAMP},
        "spec": {"nodeName": "n1", "containers": [{}]},
        "status": {"phase": "Running", **status},
    }


def test_namespaces_pods_and_nodes_report_which_tenant_namespace_they_are_for():
    found = get.SuperSummary(
        namespaces=[
            {"metadata": {"name": "a-1-web", "creationTimestamp": STAMP}},
            {
                "metadata": {
                    "name": "a-1-web-shop",
                    "creationTimestamp": STAMP,
                    "annotations": {"tenancy.x-k8s.io/namespace": "shop"},
                },
                "status": {"phase": "Active"},
            },
        ],
        pods=[
            pod("etcd-0", "a-1-web", containerStatuses=[{"ready": True}]),
            pod("cart", "a-1-web-shop"),
        ],
        nodes=[
            {
                "metadata": {"name": "n1"},
                "spec": {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        ],
    )
    assert get.build_super_tables(found, NOW) == (
        "\nSUPER-NAMESPACE   NAMESPACE         STATUS   AGE\n"
        "a-1-web           (control plane)   <none>   60s\n"
        "a-1-web-shop      shop              Active   60s\n"
        "\nPOD      SUPER-NAMESPACE   NAMESPACE         READY   STATUS    NODE   AGE\n"
        "etcd-0   a-1-web           (control plane)   1/1     Running   n1     60s\n"
        "cart     a-1-web-shop      shop              0/1     Running   n1     60s\n"
        "\nNODE   STATUS                     PODS\n"
        "n1     Ready,SchedulingDisabled   2\n"
    )


def test_other_super_clusters_are_shown_with_their_phase_and_their_pods():
    listed = [{"name": "c2", "phase": "Draining", "pods": 3}, {"name": "c3"}]
    assert get.build_targets_table({"status": {"targets": listed}}) == (
        "\nTARGET   PHASE      PODS\nc2       Draining   3\nc3       <none>     <none>\n"
    )
    assert get.build_targets_table({"status": {}}) == ""


def test_what_has_nothing_yet_is_reported_in_words():
    assert get.build_super_tables(get.SuperSummary([], [], []), NOW) == (
        "\nIt has no namespaces in the super cluster yet.\n"
    )


def test_conditions_begin_with_the_summary():
    conditions = [
        {"type": kind, "status": "True", "reason": "R", "message": "a\n b",
         "lastTransitionTime": STAMP}
        for kind in ("Zoo", "APIServerReady", "EtcdReady", "Ready", "Ant")
    ]  # fmt: skip
    table = get.build_conditions_table({"status": {"conditions": conditions}}, NOW)
    assert [line.split()[0] for line in table.split("\n")[1:-1]] == [
        *("CONDITION", "Ready", "EtcdReady", "APIServerReady", "Ant", "Zoo"),
    ]
    assert "a b" in table
    assert "is running.\n" in get.build_conditions_table({}, NOW)


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, "Running"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
         "CrashLoopBackOff"),
        ({"initContainerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]},
         "Running"),
        ({"initContainerStatuses": [{"state": {"terminated": {"reason": "Error"}}}]}, "Error"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    ],
)  # fmt: skip
def test_a_pods_status_is_what_is_wrong_with_it_else_its_phase(status, shown):
    assert get.format_pod_status(pod("a", "b", **status)) == shown


def test_a_pod_that_is_going_reports_it():
    going = pod("a", "b")
    going["metadata"]["deletionTimestamp"] = STAMP
    assert get.format_pod_status(going) == "Terminating"
