"""A run of a drill: the stage once, then turn after turn until something is found.

Owns the report. Hazard: what one turn has broken is broken for all that follow, so a run ends with
its first finding.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.oracles import Violation
from tests.chaos.processes import outage
from tests.chaos.processes.clock import ClockOffset, MissingCompilerError
from tests.chaos.processes.drills import DRILLS, ClockDrill, Drill, DrillOptions
from tests.chaos.processes.stage import DrillPlan, DrillStage, running
from tests.chaos.processes.turn import DrillTurn
from tests.support.replicas import GOAL

RULES = ("lost", "duplicate", "orphan", "wrong delete")
"""What must be seen to be none, whatever else is looked at."""
SLOW_SECONDS = 10.0
"""After which it is told what took so long."""
PrintLine = Callable[[str], None]


@dataclass
class DrillReport:
    """The result of a run."""

    name: str
    options: DrillOptions
    tried: int = 0
    faults: int = 0
    """Things that were broken in the turns that were tried."""
    failed: int = 0
    why_skipped: str = ""
    seconds: float = 0.0
    findings: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """What happened besides: by the words for it."""
    hand_overs: list[float] = field(default_factory=list)
    """Seconds each, in the order of the turns."""
    ratios: list[float] = field(default_factory=list)
    """Ratio of the p99 elsewhere with a target away to the lower of before and after, by turn."""

    def __str__(self) -> str:
        """Return it as the program prints it."""
        options, rules = self.options, Counter(each.rule for each in self.findings)
        others = {rule: count for rule, count in rules.items() if rule not in RULES}
        found = ", ".join(f"{rules[rule]} {rule}" for rule in RULES)
        tried = f"{self.name}: {self.faults} faults in {self.tried} turns tried, "
        tried += f"{self.failed} failed, {options.count - self.tried} skipped"
        tried += f" ({self.why_skipped})" if self.why_skipped else ""
        machine = f"{self.seconds:.0f} s on {platform.machine()} with {os.cpu_count()} processors, "
        machine += f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}, "
        lines = [
            tried,
            f"{found}, {sum(others.values())} other findings",
            f"seed {options.seed}, turns {options.first} to {options.first + self.tried - 1}",
            ", ".join(f"{count:,} {words}" for words, count in self.counts.items()),
            f"{machine}load {os.getloadavg()[0]:.1f}",
        ]
        if self.hand_overs:
            middle, low, high = (pick(self.hand_overs) for pick in (statistics.median, min, max))
            lines.insert(
                1,
                f"hand-over {middle:.1f} s (goal {GOAL:.0f}), from kill -9 to the first accepted"
                f" write of the other: median of {len(self.hand_overs)}, {low:.1f} to {high:.1f}",
            )
        if self.ratios:
            middle, low, high = (pick(self.ratios) for pick in (statistics.median, min, max))
            lines.insert(
                1,
                f"p99 elsewhere while a target is away, to the less of before and after:"
                f" {middle:.2f} (goal {outage.GOAL}), median of {len(self.ratios)},"
                f" {low:.2f} to {high:.2f}",
            )
        return "\n".join(lines)


async def run(
    name: str, options: DrillOptions, folder: Path, say: PrintLine = print
) -> DrillReport:
    """Run a drill. Everything that runs keeps its files and logs in `folder`."""
    report = DrillReport(name, options)
    try:
        drill = _drill(name, options, folder)
    except MissingCompilerError as problem:
        report.why_skipped = str(problem)
        return report
    began = time.monotonic()
    async with running(folder, drill.plan) as stage:
        for number in range(options.first, options.first + options.count):
            if options.minutes and time.monotonic() - began > 60 * options.minutes:
                report.why_skipped = "the time was over"
                break
            turn = DrillTurn(stage, options.seed, number, options.seconds)
            await _take(turn, drill, report, say)
            if turn.findings:
                break
        _count(stage, report)
    report.seconds = time.monotonic() - began
    return report


def _drill(name: str, options: DrillOptions, folder: Path) -> Drill:
    if name == "clock":
        clock = ClockOffset(folder)
        found = Drill(DrillPlan(env=clock.env), ClockDrill(clock))
    else:
        found = DRILLS[name]
    return found._replace(plan=found.plan.asked(options.mutant, options.calm_seconds))


async def _take(turn: DrillTurn, drill: Drill, report: DrillReport, say: PrintLine) -> None:
    began = time.monotonic()
    await drill.do(turn)
    over = time.monotonic()
    await turn.settle()
    report.tried += 1
    report.faults += turn.faults
    report.failed += bool(turn.findings)
    report.findings += turn.findings
    if turn.ratio is not None:
        report.ratios.append(turn.ratio)
    if turn.hand_over is not None:
        report.hand_overs.append(turn.hand_over)
    took = f"{over - began:.1f} s, calm after {time.monotonic() - over:.1f} s"
    say(f"{report.name} {turn.number}: {turn.told}: {took}")
    if not turn.findings and time.monotonic() - over > SLOW_SECONDS:
        say(f"  last of all: {turn.stage.last_seen[:1]}")
    for each in turn.findings[:20]:
        say(f"  {each.rule}: {each.text}")


def _count(stage: DrillStage, report: DrillReport) -> None:
    report.counts["deletes judged as they were sent"] = stage.judge.deletes
    report.counts["of objects too short-lived to judge"] = stage.judge.unjudged
    report.counts["starts of the syncer"] = sum(slot.starts for slot in stage.slots)
    report.counts["of them after a lost Lease"] = sum(slot.lost_leases for slot in stage.slots)
    if stage.proxies:
        report.counts["requests"] = sum(proxy.requests for proxy in stage.proxies.values())
        report.counts |= {f"x {kind}": n for kind, n in sorted(stage.script.befallen.items())}
