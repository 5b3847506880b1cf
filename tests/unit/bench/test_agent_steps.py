"""Results of `bench.agent_steps` from the kernel's trace, without a cluster."""

import os
import subprocess
from pathlib import Path
from time import perf_counter

import pytest

from bench.agent_steps import OWN, STANDING, CommandRun, CommandSteps, lines, rows, steps
from bench.agents import tracing
from bench.agents.tracing import NoTracingError, ProcessEvent, read, traced

TRACE = """\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
           <...>-11      [000] ..... 100.007000: sched_process_exec: filename=/usr/bin/runc pid=11 old_pid=11
       runc:[2:INIT]-12  [001] ..... 100.026000: sched_process_exec: filename=/bin/true pid=12 old_pid=12
            true-12      [001] ..... 100.027500: sched_process_exit: comm=true pid=12 prio=120 group_dead=true
         my: pid=1-13    [001] ..... 100.028000: sched_process_exit: comm=my: pid=1 pid=13 prio=120
"""  # noqa: E501 - as the kernel writes it
RAN = CommandRun(100.0, 100.031)


def event(at: float, name: str, *, has_ended: bool = False) -> ProcessEvent:
    return ProcessEvent(at, name, has_ended=has_ended)


@pytest.fixture
def events() -> list[ProcessEvent]:
    return list(read(TRACE.splitlines(keepends=True)))


def test_a_trace_reports_what_began_and_what_ended(events: list[ProcessEvent]):
    assert events == [
        event(100.007, "runc"),
        event(100.026, "true"),
        event(100.0275, "true", has_ended=True),
        event(100.028, "my: pid=1", has_ended=True),
    ]


def test_a_trace_that_has_lost_events_is_none():
    with pytest.raises(NoTracingError, match="2 of 3 events are left"):
        list(read(["# entries-in-buffer/entries-written: 2/3   #P:2\n"]))


@pytest.mark.skipif(not os.access(tracing.INSTANCES, os.W_OK), reason="it takes root")
def test_the_kernel_reports_a_program_on_the_clock_of_ours(tmp_path: Path):
    program = tmp_path / "only-this-one"  # others of the machine are traced, too
    program.symlink_to("/bin/true")
    with traced() as found:
        begun = perf_counter()
        subprocess.run([program], check=True)
        ended = perf_counter()
    mine = [each for each in found if each.name == program.name]
    assert [each.has_ended for each in mine] == [False, True]
    assert all(begun < each.at < ended for each in mine)
    assert not (tracing.INSTANCES / f"bench-{os.getpid()}").exists()


@pytest.mark.skipif(not os.access(tracing.INSTANCES, os.W_OK), reason="it takes root")
def test_what_a_traced_block_raises_is_its_own():
    with pytest.raises(ConnectionRefusedError), traced():
        raise ConnectionRefusedError("by a kubelet")
    assert not (tracing.INSTANCES / f"bench-{os.getpid()}").exists()


def test_where_the_kernel_cannot_be_seen_it_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(tracing, "INSTANCES", tmp_path / "nowhere")
    with pytest.raises(NoTracingError, match=r"nowhere.*Run it as root"), traced():
        pass


def test_a_command_has_three_steps(events: list[ProcessEvent]):
    found = steps(RAN, [event(99.9, "runc"), event(99.95, "true"), *events, event(100.2, "true")])
    assert found == pytest.approx(CommandSteps(0.007, 0.0205, 0.0035))
    assert sum(found or ()) == pytest.approx(RAN.ended - RAN.begun)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([event(100.03, "true")], id="somebody else's command too"),
        pytest.param([event(100.03, "true", has_ended=True)], id="and its end"),
        pytest.param([event(100.001, "runc")], id="somebody else's runtime"),
    ],
)
def test_a_command_beside_another_reports_nothing(
    events: list[ProcessEvent], more: list[ProcessEvent]
):
    assert steps(RAN, sorted([*events, *more], key=lambda each: each.at)) is None


def test_a_command_without_a_report_of_the_kernel_reports_nothing():
    assert steps(RAN, []) is None


def test_what_is_not_the_runtimes_is_reported_by_itself():
    turns = [
        {
            "kubelet": {"before": 7.0, "runtime": 24.0, "after": 3.0},
            STANDING: {"before": 5.0, "runtime": 25.0, "after": 3.0},
            "agent": {"before": 8.0 + more, "runtime": 25.0, "after": 3.5},
        }
        for more in (0.0, 0.2, 0.4)
    ]
    found = dict(rows(turns))
    assert list(found) == ["before", "runtime", "after", OWN]
    assert found[OWN]["later"].median == pytest.approx(1.7)
    assert found[OWN]["later"].high == pytest.approx(1.9)
    assert found["runtime"]["later"].median == pytest.approx(1.0)
    assert found["runtime"][STANDING].median == pytest.approx(25.0)
    assert len(list(lines(turns))) == 5
