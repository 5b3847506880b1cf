"""`kubectl vc certs`: the verbs about the certificates of one tenant.

Owns their flags. Must not know how a verb works. Hazard: as in `kubectl_vc.app`, imports at the top
must stay few. Each further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

from kubectl_vc import flags
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.command import create_terminal, create_verb_group, with_connection_flags
from kubectl_vc.output.printers import OutputFormat

app = create_verb_group("Manage the certificates of a virtual cluster.")


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


@app.command()
@with_connection_flags
async def rotate(
    *,
    access: ConfigFlags,
    name: flags.OptionalNameArgument = "",
    authority: flags.AuthoritiesFlag = None,
    force_drop: flags.ForceDropFlag = None,
    manager_namespace: flags.SecretNamespaceFlag = flags.MANAGER_NAMESPACE,
) -> None:
    """Replace authorities of a virtual cluster, in stages.

    First every program trusts both. Then the new authority issues all certificates. At last the old
    one is dropped. Each stage waits for all pods, and for a minimum time. Without --authority, all
    authorities of the virtual cluster are replaced. The kubeconfig is that of the super cluster.

    --force-drop ends that time for one authority. Clients that still use the old one are refused
    from then on.

    Examples:

      kubectl vc certs rotate web --authority client

      kubectl vc certs rotate web --force-drop client
    """
    from kubectl_vc.verbs import rotate_authorities as verb

    await verb.run_rotate(
        access,
        create_terminal(),
        verb.RotateOptions(
            name=name,
            authorities=tuple(each.value for each in authority or ()),
            force_drop=force_drop.value if force_drop else "",
            manager_namespace=manager_namespace,
        ),
    )
