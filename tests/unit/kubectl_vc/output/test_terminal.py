import io
import re

import pytest

from kubectl_vc.output.terminal import LiveProgress, Progress, Terminal


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_results_and_complaints_go_to_different_streams():
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal(out, err)
    terminal.say("result")
    terminal.say("whole\n")
    terminal.warn("complaint")
    assert out.getvalue() == "result\nwhole\n"
    assert err.getvalue() == "complaint\n"


def test_a_pipe_gets_plain_lines_with_the_time_since_the_beginning():
    out, clock = io.StringIO(), Clock()
    progress = Terminal(out, out, clock=clock).progress()
    assert type(progress) is Progress
    clock.now = 5.0
    with progress:
        clock.now = 9.2
        progress.done("etcd is ready")
    assert out.getvalue() == "etcd is ready (4.2s)\n"


def test_a_pipe_hears_what_is_waited_for_when_it_has_heard_nothing_for_a_while():
    out, clock = io.StringIO(), Clock()
    with Progress(out, clock) as progress:
        progress.waiting("etcd: ContainerCreating")
        for clock.now in (1.0, 9.0):
            progress.tick()
        progress.waiting("waiting for etcd: ImagePullBackOff")
        assert out.getvalue() == ""
        for clock.now in range(10, 50):
            progress.tick()
        clock.now = 50.0
        progress.done("etcd is ready")
        progress.waiting("apiserver")
        for clock.now in (59.0, 60.0, 61.0):
            progress.tick()
    assert out.getvalue().splitlines() == [
        "waiting for etcd: ImagePullBackOff (10s)",
        "still waiting for etcd: ImagePullBackOff (40s)",
        "etcd is ready (50s)",
        "waiting for apiserver (1m00s)",
    ]


@pytest.mark.parametrize(("kind", "expected"), [("xterm", LiveProgress), ("dumb", Progress)])
def test_only_a_terminal_that_can_move_its_cursor_gets_a_moving_line(monkeypatch, kind, expected):
    monkeypatch.setenv("TERM", kind)
    assert type(Terminal(Screen(), io.StringIO()).progress()) is expected


def test_a_terminal_keeps_the_finished_steps_and_no_colour_where_none_is_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    with Terminal(screen, io.StringIO(), clock=lambda: 7.0).progress() as progress:
        progress.waiting("etcd")
        progress.tick()
        progress.done("etcd is ready")
    assert "✓ etcd is ready (0.0s)" in screen.getvalue()
    assert "\x1b[32m" not in screen.getvalue()


def test_a_moving_line_never_wraps(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    screen = Screen()
    with Terminal(screen, io.StringIO()).progress() as progress:
        progress.waiting(f"etcd: ImagePullBackOff: {'x' * 100}")
    lines = re.split(r"[\r\n]|\x1b\[[?0-9;]*[A-Za-z]", screen.getvalue())
    assert any("waiting for etcd" in line for line in lines)
    assert all(len(line) <= 40 for line in lines)
    assert not any(line.startswith("x") for line in lines)  # the rest of a line that wrapped
