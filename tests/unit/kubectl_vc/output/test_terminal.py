import io
import re

import pytest

from kubectl_vc.output.terminal import LiveProgress, Progress, Terminal


class TerminalClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TerminalScreen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_results_and_complaints_go_to_different_streams():
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal(out, err)
    terminal.print_result("result")
    terminal.print_result("whole\n")
    terminal.print_warning("complaint")
    assert out.getvalue() == "result\nwhole\n"
    assert err.getvalue() == "complaint\n"


def test_a_pipe_gets_plain_lines_with_the_time_since_the_beginning():
    out, clock = io.StringIO(), TerminalClock()
    progress = Terminal(out, out, clock=clock).create_progress()
    assert type(progress) is Progress
    clock.now = 5.0
    with progress:
        clock.now = 9.2
        progress.finish_step("etcd is ready")
    assert out.getvalue() == "etcd is ready (4.2s)\n"


def test_a_pipe_hears_what_is_waited_for_when_it_has_heard_nothing_for_a_while():
    out, clock = io.StringIO(), TerminalClock()
    with Progress(out, clock) as progress:
        progress.set_waiting("etcd: ContainerCreating")
        for clock.now in (1.0, 9.0):
            progress.tick()
        progress.set_waiting("Waiting for etcd: ImagePullBackOff")
        assert out.getvalue() == ""
        for clock.now in range(10, 90):
            progress.tick()
        clock.now = 90.0
        progress.finish_step("etcd is ready")
        progress.set_waiting("apiserver")
        for clock.now in (99.0, 100.0, 101.0):
            progress.tick()
    assert out.getvalue().splitlines() == [
        "waiting for etcd: ImagePullBackOff (10s)",
        "still waiting for etcd: ImagePullBackOff (1m10s)",
        "etcd is ready (1m30s)",
        "waiting for apiserver (1m40s)",
    ]


def test_a_pipe_gets_a_line_when_the_reason_changes_and_once_a_minute():
    """Five minutes of a failing pull, whose text changes with every attempt."""
    out, clock = io.StringIO(), TerminalClock()
    with Progress(out, clock) as progress:
        for clock.now in range(300):
            text = f"etcd: ImagePullBackOff: attempt {int(clock.now) // 20}"
            progress.set_waiting(text, reason="etcd/ImagePullBackOff")
            progress.tick()
    lines = out.getvalue().splitlines()
    assert len(lines) == 5
    assert lines[1] == "still waiting for etcd: ImagePullBackOff: attempt 3 (1m10s)"


def test_reasons_that_alternate_are_printed_once_a_minute_each():
    out, clock = io.StringIO(), TerminalClock()
    with Progress(out, clock) as progress:
        for clock.now in range(130):
            progress.set_waiting("etcd: Error" if int(clock.now) % 30 < 15 else "etcd: Starting")
            progress.tick()
    assert out.getvalue().splitlines() == [
        "waiting for etcd: Error (10s)",
        "waiting for etcd: Starting (20s)",
        "waiting for etcd: Error (1m10s)",
        "waiting for etcd: Starting (1m20s)",
    ]


@pytest.mark.parametrize(("kind", "expected"), [("xterm", LiveProgress), ("dumb", Progress)])
def test_only_a_terminal_that_can_move_its_cursor_gets_a_moving_line(monkeypatch, kind, expected):
    monkeypatch.setenv("TERM", kind)
    assert type(Terminal(TerminalScreen(), io.StringIO()).create_progress()) is expected


def test_a_terminal_keeps_the_finished_steps_and_no_colour_where_none_is_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = TerminalScreen()
    with Terminal(screen, io.StringIO(), clock=lambda: 7.0).create_progress() as progress:
        progress.set_waiting("etcd")
        progress.tick()
        progress.finish_step("etcd is ready")
    assert "✓ etcd is ready (0.0s)" in screen.getvalue()
    assert "\x1b[32m" not in screen.getvalue()


def test_a_moving_line_never_wraps(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    screen = TerminalScreen()
    with Terminal(screen, io.StringIO()).create_progress() as progress:
        progress.set_waiting(f"etcd: ImagePullBackOff: {'x' * 100}")
    lines = re.split(r"[\r\n]|\x1b\[[?0-9;]*[A-Za-z]", screen.getvalue())
    assert any("waiting for etcd" in line for line in lines)
    assert all(len(line) <= 40 for line in lines)
    assert not any(line.startswith("x") for line in lines)  # the rest of a line that wrapped


EVIL = "\x1b]0;title\x07\x1b[2Jgone\r\x9b1A"
SHOWN = "\\u001b]0;title\\u0007\\u001b[2Jgone\\u000d\\u009b1A"


@pytest.mark.parametrize("moves", [True, False])
def test_no_text_of_a_server_moves_the_terminal(monkeypatch, moves):
    """SEC-55: results, warnings, steps and what is waited for."""
    monkeypatch.setenv("TERM", "xterm")
    out, err, clock = TerminalScreen() if moves else io.StringIO(), io.StringIO(), TerminalClock()
    terminal = Terminal(out, err, clock=clock)
    terminal.print_result(EVIL)
    terminal.print_warning(EVIL)
    assert (out.getvalue(), err.getvalue()) == (f"{SHOWN}\n", f"{SHOWN}\n")
    with terminal.create_progress() as progress:
        progress.set_waiting(EVIL)
        clock.now = 20.0
        progress.tick()
        progress.finish_step(EVIL)
    assert "\x07" not in out.getvalue()
    assert "\x1b]0" not in out.getvalue()
    assert "\x9b" not in out.getvalue()
    assert f"{SHOWN} (20s)" in out.getvalue()


class TypedText(io.StringIO):
    """The input of a user at a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_question_is_asked_of_a_user_at_a_terminal_alone():
    """T2-12: a script is not held up, and its output has no question."""
    out, err = io.StringIO(), io.StringIO()
    assert Terminal(out, err, answers=TypedText("web\n")).ask("Name? ") == "web"
    assert (out.getvalue(), err.getvalue()) == ("", "Name? ")
    for answers in (None, io.StringIO("web\n")):
        assert Terminal(out, err, answers=answers).ask("Name? ") is None
    assert err.getvalue() == "Name? "
