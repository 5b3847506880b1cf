"""Containers of a pod, with the reason why one does not run."""

from kubectl_vc.ui.pod_facts import build_container_rows


def test_init_containers_come_first_with_their_reasons():
    pod = {
        "status": {
            "containerStatuses": [
                {"name": "a", "restartCount": 4, "state": {"running": {"startedAt": "x"}}},
                {
                    "name": "b",
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no\nimage"}},
                },
                {"name": "c"},
            ],
            "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"reason": "Completed"}}}
            ],
        }
    }
    rows = build_container_rows(pod)
    assert [(row.name, row.state.text, row.state.grade) for row in rows] == [
        ("i", "Completed", "good"),
        ("a", "running", "good"),
        ("b", "ImagePullBackOff", "bad"),
        ("c", "unknown", "busy"),
    ]
    assert (rows[1].restarts, rows[2].message) == ("4", "no image")
    assert build_container_rows({}) == []
