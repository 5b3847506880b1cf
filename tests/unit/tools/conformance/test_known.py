"""The tracked lists say what they must."""

import pytest

from tools.conformance import known

ROW = """
- case: "[sig-node] X"
  sides: [tenant]
  owner: kubernetes
  line: pkg/kubelet/x.go:1
  cause: it is so
"""


def test_a_row_is_read():
    (row,) = known.failures(ROW)

    assert (row.case, row.sides, row.owner) == ("[sig-node] X", ("tenant",), "kubernetes")
    assert (row.cause, row.line) == ("it is so", "pkg/kubelet/x.go:1")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cause: it is so", 'cause: " "'),
        ("owner: kubernetes", "owner: nobody"),
        ("sides: [tenant]", "sides: [elsewhere]"),
        ("  line: pkg/kubelet/x.go:1\n", ""),
    ],
)
def test_a_row_that_has_no_reason_is_refused(old, new):
    with pytest.raises(ValueError, match="needs"):
        known.failures(ROW.replace(old, new))


def test_a_row_is_of_the_minors_that_it_names_or_of_each():
    rows = known.failures(ROW + ROW.replace("sig-node] X", "sig-node] Y") + '  minors: ["1.37"]\n')

    assert [row.case for row in known.of_minor(rows, "1.36")] == ["[sig-node] X"]
    assert [row.case for row in known.of_minor(rows, "1.37")] == ["[sig-node] X", "[sig-node] Y"]


def test_a_case_stands_in_the_list_once():
    with pytest.raises(ValueError, match="twice"):
        known.failures(ROW + ROW)


def test_the_tracked_lists_can_be_read():
    known.failures()
    names = known.slice_names()

    assert len(names) == len(set(names))
    assert all(name.endswith("[Conformance]") for name in names)


def test_the_short_run_has_cases_of_each_group_under_its_own_name():
    text = (known.HERE / "slice.yaml").read_text()
    table = known.yaml.safe_load(text)

    for group, names in table.items():
        assert names
        assert all(name.startswith(f"[{group}]") for name in names)
