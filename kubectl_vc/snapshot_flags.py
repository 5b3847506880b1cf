"""Arguments and flags of the verbs about snapshots and restores.

Hazard: as in `kubectl_vc.flags`, imports at the top must stay few.
"""

from typing import Annotated

from kubectl_vc.commandline.declarations import Argument, Option

SnapshotArgument = Annotated[
    str,
    Argument(metavar="NAME", show_default=False, help="Name of the VirtualClusterSnapshot"),
]
OptionalTenantArgument = Annotated[
    str,
    Argument(
        metavar="[NAME]",
        show_default=False,
        help="Name of the VirtualCluster (default: all of the namespace)",
    ),
]
SnapshotNameFlag = Annotated[
    str,
    Option(
        "--snapshot",
        metavar="NAME",
        show_default=False,
        help="Name of the snapshot (default: name of the VirtualCluster and the time)",
    ),
]
ClaimFlag = Annotated[
    str,
    Option(
        "--claim",
        metavar="NAME",
        help="PersistentVolumeClaim in the root namespace: snapshots, or a name with the prefix"
        " snapshots-",
    ),
]
KeepForFlag = Annotated[
    str,
    Option(
        "--keep-for",
        metavar="TIME",
        show_default=False,
        help="Delete the snapshot after this time, such as 168h (default: never)",
    ),
]
SnapshotFileFlag = Annotated[
    str,
    Option(
        "--output", "-o", metavar="FILE", show_default=False, help="File to write the snapshot to"
    ),
]
ForceFileFlag = Annotated[bool, Option("--force", help="Replace existing files")]
TransferImageFlag = Annotated[
    str,
    Option(
        "--image",
        metavar="IMAGE",
        show_default=False,
        help="Image of the pod that reads the volume (default: image of the Deployment vc-manager)",
    ),
]
ImportedFileArgument = Annotated[
    str, Argument(metavar="FILE", show_default=False, help="File that was exported")
]
ForClusterFlag = Annotated[
    str,
    Option("--for", metavar="NAME", show_default=False, help="VirtualCluster of the snapshot"),
]
ImportedNameFlag = Annotated[
    str,
    Option("--snapshot", metavar="NAME", show_default=False, help="Name of the snapshot"),
]
RestoredNameArgument = Annotated[
    str,
    Argument(
        metavar="[NAME]",
        show_default=False,
        help="Name of the VirtualCluster to restore in place",
    ),
]
FromFileFlag = Annotated[
    str,
    Option(
        "--from-file",
        metavar="FILE",
        show_default=False,
        help="With --as-new: file that was exported, instead of --from",
    ),
]
AsFlag = Annotated[
    str,
    Option(
        "--as-new",
        metavar="NEW",
        show_default=False,
        help="Create this VirtualCluster from the snapshot. It is suspended until confirm-start",
    ),
]
FromFlag = Annotated[
    str,
    Option("--from", metavar="NAME", show_default=False, help="VirtualClusterSnapshot to restore"),
]
