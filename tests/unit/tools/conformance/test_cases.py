"""Names of cases: read, quoted whole, dealt out."""

import re

import pytest

from tools.conformance.cases import ConformanceCase, batches, chosen, focus, identify, parse

LISTED = """\
- testname: Pods, one
  codename: '[sig-node] Pods should (really) work. [NodeConformance]
    [Conformance]'
  description: words
  release: v1.9
  file: test/e2e/common/node/pods.go
- testname: Daemons
  codename: '[sig-apps] Daemon set [Serial] should run [Conformance]'
  release: v1.9
  file: test/e2e/apps/daemon_set.go
"""


def test_a_listing_gives_names_on_one_line_groups_and_files():
    pods, daemons = parse(LISTED)

    assert pods == ConformanceCase(
        "[sig-node] Pods should (really) work. [NodeConformance] [Conformance]",
        "test/e2e/common/node/pods.go",
    )
    assert (pods.group, pods.is_serial) == ("sig-node", False)
    assert (daemons.group, daemons.is_serial) == ("sig-apps", True)


def test_two_cases_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two cases named"):
        parse(LISTED + LISTED)


def test_a_focus_runs_the_named_cases_and_no_neighbour():
    first, second = parse(LISTED)
    expression = re.compile(focus([first]))

    assert expression.search(f"Kubernetes e2e suite {first.name}")
    assert not expression.search(f"Kubernetes e2e suite {first.name} twice")
    assert not expression.search(f"Kubernetes e2e suite [sig-node] A {first.name}")
    assert not expression.search(f"Kubernetes e2e suite {first.name.replace('.', 'x')}")
    assert not expression.search(f"Kubernetes e2e suite {second.name}")
    assert re.search(focus([first, second]), f"Kubernetes e2e suite {second.name}")


def test_names_that_the_suite_does_not_have_are_refused():
    cases = parse(LISTED)

    assert chosen(cases, [cases[1].name]) == [cases[1]]
    with pytest.raises(ValueError, match="no case '\\[sig-node\\] Gone'"):
        chosen(cases, ["[sig-node] Gone"])


def test_slow_cases_come_first_and_alone_and_neighbours_apart():
    cases = [ConformanceCase(f"case {number}", "") for number in range(7)] + [
        ConformanceCase("[Slow] new", "")
    ]

    dealt = batches(cases, 3, {"case 5": 300.0, "case 2": 70.0, "case 1": 59.0})

    assert [[case.name for case in batch] for batch in dealt] == [
        ["case 5"],
        ["case 2"],
        ["[Slow] new"],
        ["case 1", "case 3", "case 6"],
        ["case 0", "case 4"],
    ]
    assert batches([], 3) == []


def test_a_slug_is_a_short_file_name():
    name = "[sig-node] Probing container should *not* be restarted: cat /tmp/x " + "y" * 200

    slug = ConformanceCase(name, "").slug

    assert slug.startswith("sig-node-probing-container-should-not-be-restarted-cat-tmp-x-y")
    assert len(slug) <= 100


def test_a_case_is_the_same_whatever_the_order_of_its_tags():
    old = "[sig-x] Some [Serial] case runs [NodeConformance] [Conformance]"
    new = "[sig-x] Some case runs [Conformance] [NodeConformance] [Serial]"

    assert identify(old) == identify(new)
    assert identify(old) != identify(new.replace("runs", "ends"))
    assert identify(old) != identify(new.replace(" [Serial]", ""))
