"""Results: kept line by line, and read out of Ginkgo's report."""

from tools.conformance.results import (
    FAILED,
    LOST,
    PASSED,
    SKIPPED,
    CaseResult,
    ResultStore,
    from_report,
)

KUBERNETES = "/go/pkg/mod/k8s.io/kubernetes@v1.36.4"


def spec(name: str, state: str, **more):
    return {
        "ContainerHierarchyTexts": ["[sig-node] Pods", ""],
        "LeafNodeType": "It",
        "LeafNodeText": name,
        "State": state,
        "RunTime": 12_340_000_000,
        "NumAttempts": 1,
        **more,
    }


FAILURE = {
    "Message": "expected 1, got 2",
    "Location": {
        "FileName": "k8s.io/kubernetes/test/e2e/common/node/pods.go",
        "LineNumber": 42,
        "FullStackTrace": "the stack",
    },
}


def test_the_last_line_of_a_case_counts_and_half_a_line_is_none(tmp_path):
    store = ResultStore(tmp_path / "deep" / "results.jsonl")
    assert store.read() == {}
    store.add([CaseResult(case="a", state=FAILED, seconds=1.5, message="no", where="x.go:1")])
    with (tmp_path / "deep" / "results.jsonl").open("a") as file:
        file.write('\n{"case": "b", "state"')
    store.add([CaseResult(case="a", state=PASSED, seconds=2.0)])

    assert store.read() == {"a": CaseResult(case="a", state=PASSED, seconds=2.0)}
    store.add([CaseResult(case="c", state=PASSED, seconds=1.0)])
    store.forget(["a", "unknown"])
    assert set(store.read()) == {"c"}
    store.forget(["c"])
    assert store.read() == {}


def test_a_report_gives_state_seconds_message_and_line():
    report = [
        {
            "SpecReports": [
                spec("works", "passed"),
                spec("breaks", "failed", Failure=FAILURE, CapturedGinkgoWriterOutput="output"),
                spec("panics", "panicked", Failure=FAILURE),
                spec("is not for us", "skipped", Failure={"Message": "no SSH"}),
                spec("was not asked for", "skipped", NumAttempts=0),
            ]
        }
    ]
    names = [f"[sig-node] Pods {end}" for end in ("works", "breaks", "panics", "is not for us")]

    found, printed = from_report(report, names)

    assert [found[name].state for name in names] == [PASSED, FAILED, FAILED, SKIPPED]
    assert found[names[0]] == CaseResult(case=names[0], state=PASSED, seconds=12.3)
    assert found[names[1]].message == "expected 1, got 2"
    assert found[names[1]].where == "test/e2e/common/node/pods.go:42"
    assert set(printed) == set(names[1:])
    assert printed[names[1]] == "expected 1, got 2\nthe stack\noutput"
    assert set(found) == set(names)


def test_a_place_in_the_module_cache_is_shortened_as_well():
    failure = {
        "Message": "no",
        "Location": {"FileName": f"{KUBERNETES}/test/e2e/apps/job.go", "LineNumber": 7},
    }

    found, _ = from_report(
        [{"SpecReports": [spec("x", "failed", Failure=failure)]}], ["[sig-node] Pods x"]
    )

    assert found["[sig-node] Pods x"].where == "test/e2e/apps/job.go:7"


def test_a_case_that_was_to_run_and_did_not_is_lost_with_the_reason():
    report = [
        {
            "SpecReports": [
                {
                    "LeafNodeType": "SynchronizedBeforeSuite",
                    "State": "failed",
                    "Failure": {"Message": "nodes are not schedulable"},
                },
                spec("works", "skipped", NumAttempts=0),
            ]
        }
    ]

    found, printed = from_report(report, ["[sig-node] Pods works"])

    result = found["[sig-node] Pods works"]
    assert (result.state, result.message) == (LOST, "nodes are not schedulable")
    assert set(printed) == {"[sig-node] Pods works"}
