"""kubectl as a child process, with the connection flags of this command.

Owns the flags that name the super cluster. Must not know what kubectl is used for.
"""

import os
import shutil
from pathlib import Path

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output.cli_errors import CliError
from kubeio.config import loading

NOT_FOUND_TEXT = (
    "kubectl was not found in PATH. Install kubectl, or start this command as `kubectl vc`."
)


def build_command(access: ConfigFlags, context: str) -> tuple[str, ...]:
    """Return kubectl with the flags that connect it to the super cluster. Raises CliError.

    `context` is the context to use, because the current one may change. Empty: a pod's account.
    """
    program = shutil.which("kubectl")
    if program is None:
        raise CliError(NOT_FOUND_TEXT)
    words = [program]
    if access.kubeconfig:
        words.append(f"--kubeconfig={loading.expand_path(access.kubeconfig).absolute()}")
    if context:
        words.append(f"--context={context}")
    if access.as_user:
        words.append(f"--as={access.as_user}")
    words += [f"--as-group={group}" for group in access.as_groups]
    return tuple(words)


def build_environment(kubeconfig: Path) -> dict[str, str]:
    """Return the environment of a command in a tenant's context."""
    return {**os.environ, "KUBECONFIG": str(kubeconfig)}
