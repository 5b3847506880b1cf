import contextlib
import io

import pytest

from kubectl_vc.client import waiting, watch
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Progress
from tenancy import wellknown

BODY = {"metadata": {"name": "vc", "namespace": "web", "uid": "u"}}
ETCD, READY = wellknown.ETCD_READY, wellknown.READY


def state(*are_true, uid="u", **are_false):
    """Return the VirtualCluster with some conditions. `are_false` has reasons by type."""
    found = [{"type": kind, "status": "True", "reason": f"Is{kind}"} for kind in are_true]
    found += [
        {"type": kind, "status": "False", "reason": reason, "message": f"because of {reason}"}
        for kind, reason in are_false.items()
    ]
    metadata = {**BODY["metadata"], "uid": uid}
    return {"metadata": metadata, "status": {"conditions": found}}


@pytest.fixture
def wait(monkeypatch):
    """Wait while the API server reports these states. Returns the result and the shown lines."""

    async def run(verb, *states, seconds=0.0):
        @contextlib.asynccontextmanager
        async def watch_states(*_):
            async def iterate():
                for each in states:
                    yield each
                if seconds:
                    raise TimeoutError

            yield iterate()

        monkeypatch.setattr(watch, "watch_states", watch_states)
        out = io.StringIO()
        with Progress(out, lambda: 0.0) as progress:
            result = await verb(None, BODY, seconds=seconds, progress=progress)
        return result, [line.split("  ")[0] for line in out.getvalue().splitlines()]

    return run


async def test_ready_cluster_is_returned(wait):
    ready = state(ETCD, wellknown.API_SERVER_READY, wellknown.CONTROLLER_MANAGER_READY, READY)
    result, lines = await wait(waiting.wait_ready, state(), state(ETCD), state(ETCD), ready)
    assert result == ready
    text = "\n".join(lines)
    assert [text.count(f"{name} is ready") for name in ("etcd", "apiserver")] == [1, 1]


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        ([state(), None], "was deleted before it was ready"),
        ([state(), state(READY, uid="another")], "was deleted before it was ready"),
        ([state(wellknown.STALLED)], "cannot be set up: .*IsStalled"),
    ],
    ids=["deleted", "created again", "stalled"],
)
async def test_cluster_that_never_gets_ready(wait, states, problem):
    with pytest.raises(CliError, match=problem):
        await wait(waiting.wait_ready, *states)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (state(**{ETCD: "ImagePullBackOff"}), "etcd: ImagePullBackOff"),
        (state(ETCD), "the remaining components"),
        (BODY, "vc-manager, which has not processed it yet"),
    ],
    ids=["a blocked component", "no blocker", "no conditions"],
)
async def test_time_limit_names_the_blocker(wait, found, problem):
    with pytest.raises(CliError, match=r"is not ready after 5\.0s") as raised:
        await wait(waiting.wait_ready, found, seconds=5.0)
    assert problem in str(raised.value)
    assert "kubectl vc delete vc -n web" in str(raised.value)


@pytest.mark.parametrize("last", [None, state(uid="another")], ids=["deleted", "created again"])
async def test_deleted_cluster_ends_the_wait(wait, last):
    assert (await wait(waiting.wait_deleted, state(), last))[0] is None


async def test_deletion_that_takes_too_long_names_what_remains(wait):
    with pytest.raises(CliError, match=r"is not deleted after 5\.0s: because of Deleting"):
        await wait(waiting.wait_deleted, state(**{READY: "Deleting"}), seconds=5.0)
