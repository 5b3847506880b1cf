"""TenantRoute to a tenant's API server: directly, or through a forwarder.

Owns the check that the server behind an address is the tenant's. Must not know the user's
kubeconfig. Hazard: a port that answers is not enough. The address of an endpoint may belong to
another machine in the user's network, so the certificate decides.
"""

import asyncio
import contextlib
import dataclasses
import json
import secrets
import ssl
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubectl_vc.connect import contexts
from kubectl_vc.connect.contexts import TenantAccess
from kubectl_vc.connect.forwarder import ForwarderOrder
from kubectl_vc.output.cli_errors import CliError
from kubeio.config.endpoint import Endpoint
from kubeio.http import tls_contexts

DIRECT_SECONDS = 3.0
"""Time limit in seconds for the handshake with the endpoint itself."""
FORWARD_SECONDS = 20.0
"""Time limit in seconds for kubectl port-forward, and then for the handshake through it."""
SERVICE = "apiserver-svc"
"""Service of a tenant's API server in its root namespace."""
_FORWARDER = "kubectl_vc.connect.forwarder"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRoute:
    """A verified way to a tenant's API server."""

    access: TenantAccess
    forwarder: str = ""
    """Identity of the forwarder. Empty for a direct route."""
    process: "subprocess.Popen[bytes] | None" = None

    def finish(self) -> None:
        """Let the forwarder end as soon as no kubeconfig records it. It must be called."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()


async def is_tenant_server(endpoint: Endpoint, *, seconds: float) -> str:
    """Return why an endpoint is not the tenant's API server. Empty if it is.

    The certificate must be signed by the tenant's authority and have the endpoint's name.
    """
    url = urlsplit(endpoint.server)
    host, port = url.hostname or "", url.port or 443
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(
                host,
                port,
                ssl=tls_contexts.create_context(endpoint),
                server_hostname=endpoint.tls_server_name or host,
            )
    except TimeoutError:
        return f"no answer from {host}:{port} in {seconds:.0f} s"
    except ssl.SSLError as problem:
        return f"another server answers at {host}:{port} ({problem.reason or problem})"
    except OSError as problem:
        return f"{host}:{port}: {problem.strerror or problem}"
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1):
            await writer.wait_closed()
    return ""


async def start_forwarder(
    command: tuple[str, ...], root: str, kubeconfig: Path, access: TenantAccess, port: int
) -> TenantRoute:
    """Start a forwarder, and return the route through it. Raises CliError.

    It runs while `kubeconfig` has its identity.
    """
    order = ForwarderOrder(
        identity=secrets.token_hex(8),
        kubeconfig=str(kubeconfig),
        command=(
            *(*command, "--namespace", root, "port-forward"),
            *(f"service/{SERVICE}", "--address=127.0.0.1"),
        ),
        local_port=port,
    )
    process = subprocess.Popen(  # noqa: ASYNC220 - asyncio would kill it at the end of the loop
        [sys.executable, "-m", _FORWARDER, json.dumps(dataclasses.asdict(order))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # it outlives the terminal
    )
    answer = await _read_answer(process)
    if "port" not in answer:
        with process:  # closes its pipes and waits for its end
            process.terminate()
        text = str(answer.get("error") or "the forwarder ended at once").removesuffix(".")
        raise CliError(
            f"kubectl port-forward to {root}/{SERVICE} failed: {text}. It needs the rights to get"
            " services, to list pods and to create pods/portforward in that namespace."
        )
    process.returncode = 0  # left alone from here on, and Popen would warn that it still runs
    return TenantRoute(
        access=contexts.redirect(access, int(str(answer["port"]))),
        forwarder=order.identity,
        process=process,
    )


async def _read_answer(process: "subprocess.Popen[bytes]") -> Mapping[str, Any]:
    """Return what a forwarder reports at its start. Empty if it ends without a report."""
    output = process.stdout
    if output is None:
        return {}
    line = asyncio.create_task(asyncio.to_thread(output.readline))
    done, _ = await asyncio.wait({line}, timeout=FORWARD_SECONDS)
    if not done:
        process.terminate()  # ends the read
        await line
        return {"error": f"it did not start in {FORWARD_SECONDS:.0f} s"}
    output.close()
    try:
        found = json.loads(line.result())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
