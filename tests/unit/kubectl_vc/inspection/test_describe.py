"""The description of a VirtualCluster."""

from datetime import UTC, datetime

from kubectl_vc.inspection import describe

NOW = datetime(2026, 1, 2, tzinfo=UTC)
BODY = {
    "metadata": {
        "name": "web",
        "namespace": "default",
        "uid": "u",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"team": "a"},
    },
    "spec": {"clusterVersionName": "v1.36", "policyRef": {"name": "trusted"}},
    "status": {
        "phase": "Running",
        "endpoint": "https://10.0.0.5:30443",
        "restore": {"phase": "Stopping", "message": "The control plane stops."},
        "targets": [{"name": "far", "phase": "Granted", "pods": 2}],
        "conditions": [
            {
                "type": "ControlPlaneUpToDate",
                "status": "False",
                "reason": "RollingOut",
                "message": "etcd\nrestarts",
            }
        ],
    },
}
POD = {
    "metadata": {"name": "etcd-0", "creationTimestamp": "2026-01-01T23:00:00Z"},
    "spec": {"containers": [{}], "nodeName": "n1"},
    "status": {"phase": "Running", "containerStatuses": [{"ready": True, "restartCount": 3}]},
}


def test_all_sections():
    components = describe.build_components([POD], NOW)
    text = describe.build_description(BODY, NOW, [("Components", components), ("Events", "")])
    heads = [line for line in text.splitlines() if not line.startswith(" ")]
    assert [line.partition(":")[0] for line in heads[-6:]] == [
        *("Conditions", "Restore", "Rollout", "Targets", "Components", "Events"),
    ]
    words = " ".join(text.split())
    for part in (
        "Labels: team=a",
        "Created: 2026-01-01T00:00:00Z (24h)",
        "Policy: trusted",
        "Phase: Stopping",
        "Message: etcd restarts",
        "far Granted 2",
        "etcd-0 1/1 Running 3 n1 60m",
        "Events: <none>",
    ):
        assert part in words, part


def test_a_new_object_has_the_short_form():
    body = {"metadata": {"name": "web", "namespace": "default", "deletionTimestamp": "now"}}
    text = describe.build_description(body, NOW, [])
    assert "Phase: Terminating" in " ".join(text.split())
    assert "baseline (default)" in text
    assert "Restore" not in text
    assert describe.build_components([], NOW) == ""
