"""The section `Calls of kubectl`: which calls of which kubectl worked on which kubelet, and when.

`python -m tools.rows.calls FILE ...` reads JUnit reports of the node tests and writes it into
`docs/reliability.md`. Hazard: calls that a run did not try must be shown as not run. An old result
would pass for a new one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.node.minors import MINORS
from tests.support import sections
from tools.rows import page
from tools.rows.results import each_case

TITLE = "Calls of kubectl"
SELF_SIGNED = ("node/agent/test_upstream.py", "node/agent/test_whole.py")
CALLS: Mapping[str, tuple[str, ...]] = {
    "logs, each option": ("test_every_option_of_logs_arrives",),
    "logs -f": ("test_following_a_log_ends_with_its_reader", "test_a_log_is_followed"),
    "exec, exit codes 0, 1, 42, 137": ("test_exec_gives_the_exit_code", "test_exec_works_there"),
    "exec -i": ("test_exec_takes_input_to_its_end",),
    "exec -it, a terminal that is resized": ("test_exec_has_a_terminal",),
    "attach -i": ("test_attach_talks_to_the_main_process",),
    "port-forward": ("test_ports_are_forwarded",),
    "port-forward, 50 connections": ("test_fifty_connections_to_a_port_keep_their_bytes_apart",),
    "cp": ("test_copies_are_whole", "test_a_file_is_copied_both_ways"),
    "cp of 1 GiB, both ways": ("test_a_gibibyte_is_copied_both_ways",),
    "debug -i": ("test_a_debug_container_is_talked_to_and_sees_its_target",),
    "top": ("test_top_shows_the_tenants_pods_and_no_others",),
}
_INTRO = """\
Written by `python -m tools.rows.calls` from reports of `pytest --junitxml` of the node tests, run
on {commit}. Do not edit. V is a node with a kubelet certificate that verifies. S is a node with a
self-signed kubelet certificate. Each protocol of a stream is a separate test (`LEGS` in
`tests/node/agent/conftest.py`). `top` is not available on S (501).
"""
CallResults = Mapping[tuple[str, str, str], Sequence[bool]]
"""Whether each test was well, by call, minor of kubectl, and V or S."""


def counted(reports: Sequence[str]) -> CallResults:
    """Return the contents of the reports. For a test in several reports the last one counts."""
    calls = {name: call for call, names in CALLS.items() for name in names}
    found = defaultdict(list)
    cases = {case[:2]: case[2] for report in reports for case in each_case(report)}
    for (module, name), is_well in cases.items():
        test, _, parameters = name.partition("[")
        minor = re.search(r"\b1\.\d\d\b", parameters)
        if test in calls and minor:
            kubelet = "S" if module in SELF_SIGNED else "V"
            found[calls[test], minor[0], kubelet].append(is_well)
    return found


def render(found: CallResults, commit: str) -> str:
    """The body of the section. Pure."""
    columns = [(minor, kubelet) for kubelet in "VS" for minor in MINORS]
    head = " | ".join(f"{kubelet}, kubectl {minor}" for minor, kubelet in columns)
    lines = [_INTRO.format(commit=commit), f"| call | {head} |", f"|{'---|' * (len(columns) + 1)}"]
    for call in CALLS:
        cells = [_cell(found.get((call, *column), ())) for column in columns]
        lines.append(f"| {' | '.join([call, *cells])} |")
    return "\n".join(lines)


def _cell(are_well: Sequence[bool]) -> str:
    if not are_well:
        return "not run"
    bad = are_well.count(False)
    return f"**{bad} of {len(are_well)} failed**" if bad else f"{len(are_well)} passed"


def main() -> None:
    """Write the section."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, check=True, text=True).stdout.strip()
    found = counted([Path(file).read_text() for file in sys.argv[1:]])
    file = page.RELIABILITY.file
    file.write_text(sections.put(file.read_text(), TITLE, render(found, commit)))


if __name__ == "__main__":
    main()
