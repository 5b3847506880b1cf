"""`kubectl vc certs`: the verbs about the certificates of one tenant.

Owns their flags. Must not know how a verb works. Hazard: as in `kubectl_vc.app`, imports at the top
must stay few. Each further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

from kubectl_vc import flags
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.command import create_terminal, create_verb_group, with_connection_flags
from kubectl_vc.output.printers import OutputFormat

app = create_verb_group("List and renew the certificates of a virtual cluster.")


@app.command("list")
@with_connection_flags
async def list_all(
    *,
    access: ConfigFlags,
    name: flags.OptionalNameArgument = "",
    output: flags.OutputFlag = OutputFormat.TABLE,
) -> None:
    """List the certificates of a virtual cluster, with their ends.

    With NAME, the kubeconfig is that of the super cluster. Without NAME, it is the tenant's own.

    Examples:

      kubectl vc certs list web

      kubectl vc certs list --kubeconfig web.kubeconfig
    """
    from kubectl_vc.verbs import certs as verb

    await verb.run_list(access, create_terminal(), name=name, form=output)


@app.command()
@with_connection_flags
async def renew(
    *,
    access: ConfigFlags,
    name: flags.OptionalNameArgument = "",
    wait: flags.WaitFlag = True,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
) -> None:
    """Renew the certificates of a virtual cluster now.

    etcd and the API server do not restart. Authorities are not renewed. Existing kubeconfigs stay
    valid until their own end. A certificate younger than 10 min is renewed once it has that age.

    With NAME, the kubeconfig is that of the super cluster. Without NAME, it is the tenant's own.
    """
    from kubectl_vc.verbs import certs as verb

    await verb.run_renew(access, create_terminal(), name=name, wait=wait, seconds=timeout)
