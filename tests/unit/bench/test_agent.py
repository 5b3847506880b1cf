"""Parsing, counting and output of `bench.agent`, without a cluster."""

import asyncio
import contextlib
import json
import ssl
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from bench import agent
from bench.agents import downloads, execs, open_streams, unknown_clients
from bench.agents.downloads import DownloadError
from bench.agents.endpoints import ApiEntry
from bench.agents.execs import ExecError, WebSocketFrames
from bench.agents.runs import in_ms
from bench.agents.stage import writes
from bench.agents.unknown_clients import ConnectionCounts, ConnectionSource
from tests.support.eventually import eventually
from vnagent.protocol import routes

OUTPUT, ERROR = b"\x01", b"\x03"
WELL = ERROR + b'{"status": "Success"}'


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def door(authority: trustme.CA, tmp_path: Path) -> ApiEntry:
    client = authority.issue_cert("client.invalid")
    authority.cert_pem.write_to_path(tmp_path / "serving-ca.crt")
    client.private_key_pem.write_to_path(tmp_path / "key")
    client.cert_chain_pems[0].write_to_path(tmp_path / "crt")
    return ApiEntry(
        name="agent",
        host="127.0.0.1",
        port=0,
        authority=tmp_path / "serving-ca.crt",
        certificate=tmp_path / "crt",
        key=tmp_path / "key",
        namespace="default",
    )


@contextlib.asynccontextmanager
async def served(authority: trustme.CA, answers):
    """Serve over TLS. Yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            await answers(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def frame(content: bytes, kind: int = 2) -> bytes:
    if len(content) < 126:
        length = bytes([len(content)])
    elif len(content) < 1 << 16:
        length = b"\x7e" + len(content).to_bytes(2)
    else:
        length = b"\x7f" + len(content).to_bytes(8)
    return bytes([0x80 | kind]) + length + content


def test_the_agent_and_the_kubelet_are_asked_the_same(door: ApiEntry):
    """The same holds for the served content of an agent."""
    for method, target in (
        (b"GET", door.logs("web", limitBytes=5, follow="true")),
        (b"GET", door.execs("web", "sh", "-c", "echo a b; cat", input=1, output=1)),
    ):
        route = routes.parse_route(method, target.encode())
        assert (route.tenant_namespace, route.pod, route.container) == ("default", "web", "main")
    assert door.url("/x") == "https://127.0.0.1:0/x"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 70000])
def test_frames_of_every_length_in_pieces_of_any_size(size: int):
    sent = frame(b"x" * size) + frame(b"", kind=8)
    for step in (1, 2, 7, len(sent)) if size < 200 else (1000, len(sent)):
        frames, found = WebSocketFrames(), []
        for start in range(0, len(sent), step):
            found += frames.feed(sent[start : start + step])
        assert found == [(2, b"x" * size), (8, b"")]


def answering(*frames: bytes, status: bytes = b"101 Switching Protocols"):
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"GET /exec/default/web/main?command=echo HTTP/1.1" in head
        assert b"Sec-WebSocket-Protocol: v5.channel.k8s.io" in head
        writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n" + b"".join(frames[:1]))
        await writer.drain()
        for content in frames[1:]:
            await asyncio.sleep(0.01)
            writer.write(content)

    return answers


async def run(authority: trustme.CA, door: ApiEntry, answers) -> execs.ExecTimes:
    async with served(authority, answers) as port:
        return await execs.run(replace(door, port=port), door.context(), door.execs("web", "echo"))


async def test_a_command_is_timed_to_its_first_byte_and_to_its_exit(authority, door):
    said = answering(frame(OUTPUT), frame(OUTPUT + b"hello\n"), frame(WELL), frame(b"", kind=8))
    took = await run(authority, door, said)
    assert 0 < took.switched < took.first < took.exited


async def test_a_command_that_prints_nothing_is_timed_to_its_exit(authority, door):
    """Beside others it has no figure of a first byte either."""
    silent = await run(authority, door, answering(frame(OUTPUT), frame(WELL), frame(b"", kind=8)))
    assert 0 < silent.switched < silent.exited
    assert silent.first is None
    told = execs.ExecTimes(0.01, 0.02, 0.03)
    assert set(in_ms([silent, told])) == set(in_ms([silent.later_than(told)]))
    assert set(in_ms([silent, told])) == {"switched", "exited"}
    assert in_ms([told, told.later_than(told)])["first"]["p99"] == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (answering(b"the pod is not there", status=b"404 Not Found"), "the pod is not there"),
        (answering(frame(ERROR + b'{"status": "Failure", "message": "exit 3"}')), "exit 3"),
        (answering(frame(OUTPUT + b"hello"), frame(b"", kind=8)), "was closed before its status"),
        (answering(frame(OUTPUT + b"hello")), "ended before the command's status"),
    ],
)
async def test_a_command_that_does_not_end_well_is_no_figure(authority, door, answers, words):
    with pytest.raises(ExecError, match=words):
        await run(authority, door, answers)


def test_downloads_are_added_up_and_none_may_fail(door: ApiEntry):
    assert downloads.added_up(door, "/x", [("200 5", ""), ("200 7", "")]) == 12
    for told in (("404 5", ""), ("200 5", "curl: (18) cut"), ("", "curl: (7) no")):
        with pytest.raises(DownloadError, match="/x from the agent"):
            downloads.added_up(door, "/x", [("200 5", ""), told])


@pytest.mark.parametrize("line", [2, 128, 16384])
def test_a_log_has_as_many_bytes_as_asked_in_lines_of_one_length(line: int):
    script = writes(100_000, line)
    found = subprocess.run(["sh", "-c", script], capture_output=True, check=False).stdout
    assert len(found) == 100_000
    assert {len(each) for each in found.split(b"\n")[:-1]} == {line - 1}


def test_strangers_come_from_as_many_addresses_as_asked():
    assert {unknown_clients.source(number, 1) for number in range(100)} == {"127.0.1.1"}
    many = {unknown_clients.source(number, 600) for number in range(2000)}
    assert len(many) == 600
    assert all(address.startswith("127.0.") for address in many)


async def test_a_removed_unknown_client_comes_again(authority, door, tmp_path):
    kinds = unknown_clients.contexts(tmp_path)
    assert [kind is None for kind in kinds] == [True, False, True, False]
    seen = ConnectionCounts()

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("an unknown client was admitted")

    async with served(authority, answers) as port:
        each = [
            ConnectionSource(unknown_clients.source(n, 2), kind) for n, kind in enumerate(kinds)
        ]
        each.sort(key=lambda one: one.context is not None)  # those that say nothing stay
        tasks = []
        for number, one in enumerate(each):
            tasks.append(asyncio.ensure_future(unknown_clients.hold(one, port, seen, 0.01)))
            await eventually(lambda number=number: seen.made > number)
        async with asyncio.timeout(20):
            while seen.closed < 10:
                await asyncio.sleep(0.01)
                seen.look()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert seen.open == 0
    assert seen.most_open >= 2
    assert seen.as_dict()["mean_open"] >= 2


async def asks_for_more(port: int, tenant: ssl.SSLContext) -> None:
    """A tenant over its limit of streams asks again and again, and is counted."""
    seen: Counter[str] = Counter()
    asking = asyncio.ensure_future(open_streams.insist(port, tenant, seen))
    await eventually(lambda: seen["refused_beyond"] >= 2)
    asking.cancel()
    assert not seen["let_in_beyond"]


@pytest.mark.parametrize("status", [b"101 Switching Protocols", b"429 Too Many Requests"])
async def test_a_neighbours_stream_is_open_until_it_ends(authority, door, tmp_path, status):
    """A refused call is no stream."""
    heard: list[bytes] = []
    over = asyncio.Event()

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n")
        await over.wait()

    door.certificate.rename(tmp_path / "client.crt")
    door.key.rename(tmp_path / "client.key")
    tenant = open_streams.context(door.authority, tmp_path)
    async with served(authority, answers) as port:
        if not status.startswith(b"101"):
            with pytest.raises(ConnectionError, match="429"):
                await open_streams.forward(port, tenant)
            await asks_for_more(port, tenant)
            over.set()
            return
        stream = await open_streams.forward(port, tenant)
        await asyncio.sleep(0.05)
        assert not stream.done()
        over.set()
        async with asyncio.timeout(10):
            await stream
    method, target = heard[0].split()[:2]
    assert routes.parse_route(method, target).verb is routes.RouteVerb.PORT_FORWARD


def results(**changed) -> dict:
    """A report whose goals are all kept, but for what is changed."""
    log = {
        "kubelet_mb_s": 100.0,
        "agent_mb_s": 96.0,
        "agent_agent_cpu_s_per_gb": 1.4,
        "agent_kubelet_cpu_s_per_gb": 3.8,
        "kubelet_kubelet_cpu_s_per_gb": 4.0,
    }
    noise = {"load_1min": 0.1, "median_ms": 50.0, "spread": 0.1}
    moments = {name: {"p50": 20.0, "p99": 30.0} for name in ("switched", "first", "exited")}
    later = {name: {"p50": 21.5, "p99": 33.0} for name in moments}
    added = {name: {"p50": 1.6, "p99": 3.0} for name in moments}
    flood = {**moments, "failed": 0, "asked": 9, "others": {}, "agent_cores": 0.1}
    return {
        "cores": 2,
        "python": "Python 3.11",
        "noise": {"before": noise, "after": noise},
        "logs": {name: {"1": [log], "10": [log]} for name in ("long", "short")},
        "exec": {
            "alone": [{"kubelet": moments, "agent": later, "added": added}],
            "in a row": [{"kubelet": moments, "agent": later}],
        },
        "memory": {"a log": {"kib_each": 200.0}},
        "floods": {"from one address": flood},
    } | changed


def missed(found: dict) -> list[str]:
    return [row.title for row in agent.rows(found) if row.verdict == "missed"]


def test_goals_are_kept_and_missed():
    assert missed(results()) == []
    log = results()["logs"]["long"]["1"][0]
    slow, dear = log | {"agent_mb_s": 80.0}, log | {"agent_kubelet_cpu_s_per_gb": 4.0}
    logs = {name: {"1": [slow], "10": [slow]} for name in ("long", "short")}
    assert missed(results(logs=logs)) == [
        "logs, 16384 B lines, 1 at once, agent to kubelet",
        "logs, 128 B lines, 1 at once, agent to kubelet",
    ]
    logs = {"long": {"1": [log]}, "short": {"1": [dear]}}
    assert missed(results(logs=logs)) == ["logs, 128 B lines, 1 at once, added CPU-s/GB"]
    assert missed(results(memory={"a log": {"kib_each": 257.0}})) == ["memory, a log, KiB each"]


def test_a_goal_is_not_kept_when_calls_were_not_answered():
    """However quick the others were."""
    flood = results()["floods"]["from one address"] | {"failed": 1}
    found = results(floods={"from one address": flood})
    assert len(missed(found)) == 1
    assert "1 of 9 commands failed" in agent.table(found)


def test_the_table_reports_what_was_seen_and_what_was_wanted():
    text = agent.table(json.loads(json.dumps(results())))
    assert "a fixed loop took 50 ms, spread 10%" in text
    line = next(each for each in text.splitlines() if "alone, first, p50 later" in each)
    assert line.split()[-3:] == ["1.50", "2", "kept"]
    line = next(each for each in text.splitlines() if "first, p50 of what a pair" in each)
    assert line.split()[-3:] == ["1.60", "2", "kept"]


def test_a_part_is_reported_without_the_others():
    whole = results()
    for part in agent.PARTS:
        one = {key: each for key, each in whole.items() if key not in agent.PARTS or key == part}
        assert {row.title for row in agent.rows(one)} < {row.title for row in agent.rows(whole)}
        assert list(agent.rows(one))
        assert agent.table(one)


def test_a_growth_that_cannot_be_distinguished_from_nothing_is_not_called_nothing():
    """A figure that exists is reported without change."""
    found = {"a log": {"kib_each": 4.9, "resolution_kib": 5.0}}
    text = agent.table(results(memory=found))
    line = next(each for each in text.splitlines() if "memory, a log" in each)
    assert line.split()[-4:] == ["below", "5.00", "256", "kept"]
    found["a log"]["kib_each"] = 5.1
    assert "below" not in agent.table(results(memory=found))


def test_a_round_in_which_the_machine_changed_is_marked():
    """Its figures stay: what they are worth is the reader's to judge."""
    log, command = results()["logs"]["long"]["1"][0], results()["exec"]["alone"][0]
    rounds = [log | {"loop_ms": [30.0, 31.0]}, log | {"loop_ms": [30.0, 60.0]}]
    commands = [command | {"loop_ms": [60.0, 30.0]}, command]
    found = results(exec={"alone": commands}, logs={"long": {"1": rounds}, "short": {"1": [log]}})
    assert [each.partition(":")[0] for each in agent.unsteady(found)] == [
        "exec alone, round 1 of 2",
        "logs, long, 1, round 2 of 2",
    ]
    assert "not steady: exec alone, round 1 of 2: a fixed loop took 60 ms" in agent.table(found)
