"""Commands in a container of a pod, by WebSocket (`v4.channel.k8s.io`) with the user's own rights.

Must not know the commands. Hazard: only the status of the command's end proves that its output is
complete. A connection that ends without it was cut.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from urllib.parse import quote, urlencode, urlsplit

import aiohttp

from kubectl_vc.output.cli_errors import CliError
from kubeio.config.credentials import Credentials
from kubeio.config.endpoint import Endpoint
from kubeio.http import tls_contexts

_PROTOCOL = "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3
_SILENCE_SECONDS = 60.0
"""Seconds without an answer to a ping after which a connection is dead."""
_MAX_ERROR = 2000


class ExecInterruptedError(CliError):
    """The connection ended before the command. The command can be run again."""


async def run_in_pod(
    endpoint: Endpoint,
    namespace: str,
    pod: str,
    command: Sequence[str],
    *,
    write: Callable[[bytes], None],
    stdin: AsyncIterator[bytes] | None = None,
) -> None:
    """Run a command in the first container, and pass its output to `write`.

    Raises ExecInterruptedError if the connection was cut, and CliError if the command failed.
    """
    shown = f"Pod {namespace}/{pod}"
    url = _build_url(endpoint, namespace, pod, command, has_input=stdin is not None)
    headers = [("Authorization", Credentials(endpoint).get_header())]
    if endpoint.impersonate:
        headers.append(("Impersonate-User", endpoint.impersonate))
        headers += [("Impersonate-Group", group) for group in endpoint.impersonate_groups]
    context = tls_contexts.create_context(endpoint) if endpoint.is_encrypted else None
    try:
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.ws_connect(
                url,
                protocols=(_PROTOCOL,),
                headers=[each for each in headers if each[1]],
                ssl=context if context is not None else True,
                server_hostname=endpoint.tls_server_name or None,
                proxy=endpoint.proxy or None,
                heartbeat=_SILENCE_SECONDS,
                max_msg_size=0,
            ) as socket,
        ):
            status, problem = await _exchange(socket, write, stdin)
    except aiohttp.WSServerHandshakeError as refused:
        raise CliError(
            f"{shown}: exec is refused with HTTP {refused.status}. The verb create of pods/exec in"
            " the root namespace is needed. Ask your platform administrator."
        ) from refused
    except (aiohttp.ClientError, ConnectionError, TimeoutError) as cut:
        raise ExecInterruptedError(f"{shown}: the connection was cut ({cut}).") from cut
    _check_status(shown, status, problem)


async def _exchange(
    socket: aiohttp.ClientWebSocketResponse,
    write: Callable[[bytes], None],
    stdin: AsyncIterator[bytes] | None,
) -> tuple[bytes, str]:
    """Send the input while the output is read. An input that fails ends both."""
    if stdin is None:
        return await _read_output(socket, write)
    sender = asyncio.create_task(_send_input(socket, stdin))
    try:
        found = await _read_output(socket, write)
    finally:
        sender.cancel()
        [failure] = await asyncio.gather(sender, return_exceptions=True)
    if isinstance(failure, OSError) and not found[0]:
        raise failure
    return found


async def _send_input(socket: aiohttp.ClientWebSocketResponse, stdin: AsyncIterator[bytes]) -> None:
    try:
        async for chunk in stdin:
            await socket.send_bytes(bytes([_STDIN]) + chunk)
    except OSError:
        await socket.close()  # ends the read of the output
        raise


async def _read_output(
    socket: aiohttp.ClientWebSocketResponse, write: Callable[[bytes], None]
) -> tuple[bytes, str]:
    """Return the status, empty if the connection was cut, and the output for errors."""
    status, problem = b"", b""
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, content = message.data[0], message.data[1:]
        if channel == _STDOUT and content:
            write(content)
        elif channel == _STDERR:
            problem = (problem + content)[-_MAX_ERROR:]
        elif channel == _STATUS:
            status += content
    return status, problem.decode(errors="replace").strip()


def _check_status(shown: str, status: bytes, problem: str) -> None:
    try:
        found = json.loads(status)
    except ValueError as cut:
        raise ExecInterruptedError(f"{shown}: the connection was cut.") from cut
    if found.get("status") != "Success":
        raise CliError(f"{shown}: {_describe(problem) or found.get('message')}")


def _describe(problem: str) -> str:
    """Return the message of a step that failed, from the last line of its output for errors."""
    last = problem.splitlines()[-1] if problem else ""
    try:
        found = json.loads(last)
    except ValueError:
        return last
    return f"{found.get('message')} ({found.get('reason')})" if isinstance(found, dict) else last


def _build_url(
    endpoint: Endpoint, namespace: str, pod: str, command: Sequence[str], *, has_input: bool
) -> str:
    parts = urlsplit(endpoint.server)
    scheme = "wss" if endpoint.is_encrypted else "ws"
    query = [("command", each) for each in command]
    query += [("stdin", "true" if has_input else "false"), ("stdout", "true"), ("stderr", "true")]
    path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/exec"
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{path}?{urlencode(query)}"
