r"""Connections of unknown clients to one TLS port, each replaced when it is closed.

    python -m bench.agents.unknown_clients --port 10550 --folder FILES --count 2000 \
        --sources 63 --seconds 60

Two in four send nothing, one has no certificate, and one has a certificate of an unknown CA. Each
stays until the server closes it. They come from `--sources` addresses of loopback, so the port must
be on this machine. Ends when its standard input does, at the latest after `--seconds`, and prints
the results as JSON. `FILES` has `serving-ca.crt`.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import secrets
import ssl
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import uvloop

from vcmanager.pki.authority import CertificateSubject, make_authority, make_leaf

HOST = "127.0.0.1"
PAUSE_SECONDS = 2.0
"""Before a connection that was closed is made again: a bound on the rate of an unknown client."""
_LOOK_SECONDS = 0.1
_HAND_SECONDS = 30.0


@dataclass
class ConnectionCounts:
    """Results of the connections."""

    made: int = 0
    closed: int = 0
    """By the other side."""
    refused: int = 0
    """Which never came to stand, or whose handshake did not."""
    open: int = 0
    most_open: int = 0
    sum_open: int = 0
    looks: int = 0

    def look(self) -> None:
        """Note how many are open."""
        self.looks += 1
        self.sum_open += self.open
        self.most_open = max(self.most_open, self.open)

    def as_dict(self) -> dict[str, float]:
        """Return the figures for JSON."""
        return {**asdict(self), "mean_open": self.sum_open / max(self.looks, 1)}


def source(number: int, sources: int) -> str:
    """Return the address of an unknown client."""
    place = number % sources
    return f"127.0.{1 + place // 250}.{1 + place % 250}"


def contexts(folder: Path) -> Sequence[ssl.SSLContext | None]:
    """Return the TLS contexts, of which each fourth client has the same. None sends nothing."""
    nobody = ssl.create_default_context(cafile=str(folder / "serving-ca.crt"))
    forged = ssl.create_default_context(cafile=str(folder / "serving-ca.crt"))
    now = datetime.now(UTC)
    unknown = make_authority("vn-agent-client", now=now)
    subject = CertificateSubject(common_name="stranger", usages=frozenset({"client"}))
    leaf = make_leaf(unknown, subject, lifetime=timedelta(days=1), now=now)
    pair = folder / "stranger.pem"
    pair.touch(mode=0o600)
    pair.write_bytes(leaf.key + leaf.certificate)
    forged.load_cert_chain(pair)
    return [None, nobody, None, forged]


@dataclass(frozen=True, slots=True)
class ConnectionSource:
    """Source address and TLS context of a connection. A context of None sends nothing."""

    address: str
    context: ssl.SSLContext | None


async def hold(client: ConnectionSource, port: int, seen: ConnectionCounts, pause: float) -> None:
    """Hold one connection for ever, as far as the other side lets us."""
    await asyncio.sleep(pause * secrets.randbelow(1000) / 1000)  # not all in one moment
    context = client.context
    while True:
        try:
            reader, writer = await asyncio.open_connection(
                HOST,
                port,
                local_addr=(client.address, 0),
                ssl=context,
                server_hostname=HOST if context else None,
                ssl_handshake_timeout=_HAND_SECONDS if context else None,
            )
        except (OSError, TimeoutError):
            seen.refused += 1
        else:
            seen.made += 1
            seen.open += 1
            try:
                with contextlib.suppress(OSError):
                    while await reader.read(4096):
                        pass
                seen.closed += 1
            finally:
                seen.open -= 1
                writer.transport.abort()
        await asyncio.sleep(pause)


async def held(
    port: int, everyone: Sequence[ConnectionSource], *, seconds: float, pause: float
) -> ConnectionCounts:
    """Hold a connection for each address, until the standard input ends or time is up."""
    seen = ConnectionCounts()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    loop.set_exception_handler(lambda _loop, _told: None)  # connections that are cut are no news
    tasks = [loop.create_task(hold(each, port, seen, pause)) for each in everyone]
    try:
        async with asyncio.timeout(seconds):
            while not ended.is_set():
                await asyncio.sleep(_LOOK_SECONDS)
                seen.look()
    except TimeoutError:
        pass
    finally:
        loop.remove_reader(sys.stdin.fileno())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return seen


def main() -> int:
    """Hold the connections and print their results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--sources", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS)
    asked = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kinds = contexts(asked.folder)
    everyone = [
        ConnectionSource(source(number, asked.sources), kinds[number % len(kinds)])
        for number in range(asked.count)
    ]
    seen = uvloop.run(held(asked.port, everyone, seconds=asked.seconds, pause=asked.pause))
    print(json.dumps(seen.as_dict()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
