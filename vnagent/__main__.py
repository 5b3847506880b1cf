"""Entry point of the node agent: `python -m vnagent`."""

import importlib.metadata
import os
import resource
import sys

import prometheus_client
import uvloop

from telemetry import logs
from vnagent import settings
from vnagent.app import AgentProcess


def main() -> int:
    """Run the agent until SIGTERM or SIGINT."""
    given = settings.parse_settings(sys.argv[1:], os.environ, _read_version())
    logs.configure_logging(given.log_level, is_queued=True)
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # noise
    # A stream needs two sockets. The usual soft limit of 1024 would allow only some hundred
    # streams.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(_run(given))
    return 0


async def _run(given: settings.AgentSettings) -> None:
    await AgentProcess(given).run()


def _read_version() -> str:
    try:
        return f"vn-agent v{importlib.metadata.version('virtual-cluster')}"
    except importlib.metadata.PackageNotFoundError:  # run from a source tree
        return "vn-agent (unreleased)"


if __name__ == "__main__":
    sys.exit(main())
