import pytest

from kubeio import errors
from kubeio.http import retry

TOO_MANY = errors.TooManyRequests("later", status=429, retry_after=3.0)
REFUSED = errors.TooManyRequests("a rule refused", status=429)
AWAY = errors.ServerError("away", status=503, retry_after=2.0)
BROKEN = errors.ServerError("broken", status=500)


@pytest.mark.parametrize(
    ("problem", "for_reads", "for_creates"),
    [
        (errors.Untrusted("a wrong certificate"), False, False),
        (errors.NotSent("no connection"), True, True),
        (TOO_MANY, True, True),
        (REFUSED, False, False),
        (AWAY, True, False),
        (BROKEN, False, False),
        (errors.ServerError("away", status=503), False, False),
        (errors.Timeout("the deadline is over"), False, False),
        (errors.Unavailable("the connection broke"), True, False),
        (errors.Conflict("changed", status=409), False, False),
        (ValueError("a bug"), False, False),
    ],
    ids=str,
)
def test_requests_are_repeated_where_that_does_no_harm(problem, for_reads, for_creates):
    assert retry.is_repeatable(problem, idempotent=True) is for_reads
    assert retry.is_repeatable(problem, idempotent=False) is for_creates


class FakeServer:
    """A server that fails a few times, and the clock of its client."""

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.now = 100.0
        self.slept: list[float] = []
        self.left: list[float] = []

    async def attempt(self, seconds: float) -> str:
        self.left.append(seconds)
        if self.problems:
            raise self.problems.pop(0)
        return "answer"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def call(self, *, idempotent: bool = True, deadline: float = 60.0) -> str:
        return await retry.call_with_retries(
            self.attempt,
            idempotent=idempotent,
            deadline=deadline,
            clock=lambda: self.now,
            sleep=self.sleep,
        )


async def test_server_reports_how_long_the_client_waits():
    server = FakeServer(TOO_MANY, AWAY)
    assert await server.call() == "answer"
    assert server.slept == [3.0, 2.0]
    assert server.left == [60.0, 57.0, 55.0]


async def test_attempts_are_limited():
    server = FakeServer(*[errors.NotSent("no connection")] * 9)
    with pytest.raises(errors.NotSent):
        await server.call()
    assert len(server.left) == retry.ATTEMPTS


async def test_no_attempt_begins_after_the_deadline():
    server = FakeServer(TOO_MANY, TOO_MANY)
    with pytest.raises(errors.TooManyRequests):
        await server.call(deadline=5.0)
    assert server.left == [5.0, 2.0]


async def test_create_without_an_answer_is_tried_once():
    server = FakeServer(errors.Unavailable("the connection broke"))
    with pytest.raises(errors.Unavailable):
        await server.call(idempotent=False)
    assert len(server.left) == 1


async def test_later_failure_that_must_not_be_repeated_ends_the_call():
    server = FakeServer(AWAY, BROKEN)
    with pytest.raises(errors.ServerError, match="broken"):
        await server.call()
    assert len(server.left) == 2
