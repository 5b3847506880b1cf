"""Run of the phases, up to the first one that is not done."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import wish
from tests.support.vcmanager.phase_runs import new_run
from vcmanager.reconcilers.phase_run import Phase, PhaseDone, PhaseStalled, PhaseWaiting, run_phases
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import RESYNC_SECONDS


class PhaseScript:
    """Phases that record their run, of which one ends as the test says."""

    def __init__(self, outcome):
        self.ran = []
        self.outcome = outcome

    def phases(self):
        return [
            Phase("first", wellknown.READY, self._phase("first", PhaseDone())),
            Phase("second", wellknown.ETCD_READY, self._phase("second", self.outcome)),
            Phase("third", wellknown.READY, self._phase("third", PhaseDone())),
        ]

    def _phase(self, name, outcome):
        async def run(_):
            self.ran.append(name)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return run


def outcome(kind, **fields):
    return kind(**{"condition": wellknown.ETCD_READY, "reason": "R", "message": "m", **fields})


@pytest.mark.parametrize(
    ("ends", "expected", "ran"),
    [
        pytest.param(PhaseDone(), PhaseDone(), 3, id="done"),
        pytest.param(
            outcome(PhaseWaiting, retry_after=2.0),
            outcome(PhaseWaiting, retry_after=2.0),
            2,
            id="waiting",
        ),
        pytest.param(
            PhaseBlocked("R", "m"), outcome(PhaseWaiting, retry_after=10.0), 2, id="helper waits"
        ),
        pytest.param(
            PhaseBlocked("R", "m", retry_after=0.5, condition=wellknown.DNS_READY),
            outcome(PhaseWaiting, retry_after=0.5, condition=wellknown.DNS_READY),
            2,
            id="helper names a condition",
        ),
        pytest.param(
            PhaseBlocked("R", "m", needs_admin=True, retry_after=60.0),
            outcome(PhaseStalled, retry_after=60.0),
            2,
            id="administrator needed",
        ),
        pytest.param(
            errors.Forbidden("quota"),
            PhaseWaiting(
                condition=wellknown.READY, reason="Forbidden", message="quota", retry_after=30.0
            ),
            2,
            id="forbidden",
        ),
    ],
)
async def test_phases_run_until_one_is_not_done(ends, expected, ran):
    script, run = PhaseScript(ends), new_run()
    assert await run_phases(run, script.phases()) == expected
    assert script.ran == ["first", "second", "third"][:ran]
    is_failure = isinstance(ends, errors.Forbidden)
    assert run.status.failing_conditions == ({wellknown.READY} if is_failure else set())


async def test_an_error_of_the_super_cluster_is_no_result():
    script = PhaseScript(errors.Conflict("another writer"))
    with pytest.raises(errors.Conflict):
        await run_phases(new_run(), script.phases())


@pytest.mark.parametrize(
    ("is_new", "seconds", "days_left", "delay"),
    [
        (True, 5000, [], 1.0),
        (False, 5000, [], 5000.0),
        (False, -3, [], 1.0),
        (False, 10 * RESYNC_SECONDS, [], RESYNC_SECONDS),
        (False, 5000, [13], 2400.0),
        (False, 1200, [13], 1200.0),
        (False, 5000, [80], 5000.0),
    ],
)
def test_requeue_delay_follows_the_next_renewal_and_event(is_new, seconds, days_left, delay):
    run = new_run(plan_input=wish(is_new=is_new))
    now = run.context.now()
    run.secrets = SimpleNamespace(
        next_renewal=now + timedelta(seconds=seconds),
        replaced_ends=tuple(now + timedelta(days=days) for days in days_left),
    )
    assert run.get_requeue_delay() == delay
