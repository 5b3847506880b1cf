"""Stand-in for Multus: a CNI plugin that attaches a pod to several networks.

Multus is in no registry that the testbed uses. This program reads the same annotations and
NetworkAttachmentDefinitions, and runs the real plugins (bridge, macvlan, Whereabouts). It is no
part of the product, and nothing in the product knows it. It implements ADD, DEL and VERSION, and of
Multus' features only those that a tenant may use.

The configuration on the node has, besides `type`:

- `kubeconfig`: access to the API server
- `delegate`: the configuration of the default network, a list
- `stateDir`: folder for what was attached
- `vlanBridges`: whether the kernel has no VLANs. Each VLAN of a bridge is then a bridge of its own,
  which a VXLAN of that number connects to the other nodes

Whereabouts reads its kubeconfig from a file of the node. Here the program writes the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

NETWORKS = "k8s.v1.cni.cncf.io/networks"
DEFAULT_NETWORK = "v1.multus-cni.io/default-network"
STATUS = "k8s.v1.cni.cncf.io/network-status"
STAND_IN = "testbed.virtual-cluster.local/stand-in"
"""Annotation of a pod: name of this program, which is not Multus."""
_DEFINITIONS = "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions/{}"
_VERSIONS = ("0.3.1", "0.4.0", "1.0.0", "1.1.0")
_REQUEST_SECONDS = 20
_WRITE_ATTEMPTS = 5
_VXLAN_GROUP, _VXLAN_PORT, _VXLAN_MTU = "239.66.0.1", "4789", 1450
_ERROR_CODE = 100
"""First code of errors that a plugin defines itself."""

Config = dict[str, Any]


class PluginError(Exception):
    """An attachment failed. The message goes to the runtime."""


class Selection(NamedTuple):
    """A network that a pod asks for."""

    namespace: str
    name: str
    interface: str
    ips: tuple[str, ...] = ()
    mac: str = ""


class Attachment(NamedTuple):
    """One interface of a pod."""

    interface: str
    network: Config
    """A list of plugins."""
    name: str
    """Name in the status."""
    is_default: bool
    runtime: Config


class Api:
    """The few requests to the API server."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = cluster["server"]
        authority = b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as pair:  # 0600, and the certificate is loaded at once
            for key in ("client-certificate-data", "client-key-data"):
                pair.write(b64decode(user[key]) + b"\n")
            pair.flush()
            self._context.load_cert_chain(pair.name)

    def get(self, path: str) -> Config:
        """Return an object."""
        return self._request("GET", path)

    def annotate(self, namespace: str, name: str, uid: str, annotations: Config) -> None:
        """Write annotations of a pod by its status, as Multus does."""
        body = {"metadata": {"annotations": annotations, **({"uid": uid} if uid else {})}}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        for attempt in range(_WRITE_ATTEMPTS):
            try:
                self._request("PATCH", path, body)
            except PluginError:
                if attempt == _WRITE_ATTEMPTS - 1:
                    raise
                time.sleep(0.2)
            else:
                return

    def _request(self, method: str, path: str, body: Config | None = None) -> Config:
        request = urllib.request.Request(  # noqa: S310 - the server of the kubeconfig
            f"{self._server}{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/merge-patch+json"},
        )
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, context=self._context, timeout=_REQUEST_SECONDS
            ) as answer:
                found: Config = json.load(answer)
                return found
        except urllib.error.URLError as problem:
            raise PluginError(f"{method} {path}: {problem}") from problem


def parse_selections(text: str, namespace: str, first: int = 1) -> list[Selection]:
    """Return the networks of an annotation. Interfaces without a name are numbered net1 and on."""
    if any(character in text for character in '[{"'):
        items = json.loads(text)
    else:
        items = []
        for item in filter(None, (each.strip() for each in text.split(","))):
            place, _, rest = item.rpartition("/")
            name, _, interface = rest.partition("@")
            items.append({"name": name, "namespace": place, "interface": interface})
    return [
        Selection(
            namespace=item.get("namespace") or namespace,
            name=item["name"],
            interface=item.get("interface") or f"net{number}",
            ips=tuple(item.get("ips", ())),
            mac=item.get("mac", ""),
        )
        for number, item in enumerate(items, first)
    ]


def as_list(config: Config) -> Config:
    """Return a configuration as a list of plugins."""
    if "plugins" in config:
        return config
    head: Config = {key: config[key] for key in ("cniVersion", "name") if key in config}
    plugin = {key: value for key, value in config.items() if key not in head}
    return {**head, "plugins": [plugin]}


def _build_attachment(api: Api, selection: Selection, *, is_default: bool) -> Attachment:
    found = api.get(_DEFINITIONS.format(selection.namespace, selection.name))
    text = (found.get("spec") or {}).get("config")
    if not text:
        raise PluginError(f"{selection.namespace}/{selection.name} has no configuration")
    runtime: Config = {}
    if selection.ips:
        runtime["ips"] = list(selection.ips)
    if selection.mac:
        runtime["mac"] = selection.mac
    return Attachment(
        interface=selection.interface,
        network=as_list(json.loads(text)),
        name=f"{selection.namespace}/{selection.name}",
        is_default=is_default,
        runtime=runtime,
    )


def list_attachments(api: Api, pod: Config, config: Config, interface: str) -> Iterator[Attachment]:
    """Yield the interfaces of a pod, the default network first."""
    metadata = pod["metadata"]
    annotations, namespace = metadata.get("annotations") or {}, metadata["namespace"]
    replaced = annotations.get(DEFAULT_NETWORK)
    if replaced:
        (selection,) = parse_selections(replaced, "kube-system")
        asked = selection._replace(interface=interface)
        yield _build_attachment(api, asked, is_default=True)
    else:
        delegate = as_list(config["delegate"])
        runtime = config.get("runtimeConfig") or {}
        yield Attachment(interface, delegate, str(delegate.get("name", "")), True, runtime)
    for asked in parse_selections(annotations.get(NETWORKS, ""), namespace):
        yield _build_attachment(api, asked, is_default=False)


def _run_plugin(
    command: str, network: Config, plugin: Config, attachment: Attachment, previous: Config | None
) -> Config:
    said = {**plugin, "cniVersion": network.get("cniVersion", "1.0.0"), "name": network["name"]}
    capabilities = said.pop("capabilities", None) or {}
    runtime = {key: value for key, value in attachment.runtime.items() if capabilities.get(key)}
    if runtime:
        said["runtimeConfig"] = runtime
    if previous is not None:
        said["prevResult"] = previous
    folders = os.environ["CNI_PATH"].split(":")
    program = next(
        (path for each in folders if (path := Path(each) / plugin["type"]).is_file()), None
    )
    if program is None:
        raise PluginError(f"the plugin {plugin['type']} is in none of {folders}")
    done = subprocess.run(
        [program],
        input=json.dumps(said),
        env={**os.environ, "CNI_COMMAND": command, "CNI_IFNAME": attachment.interface},
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stderr.write(done.stderr)  # Whereabouts reports an address that it cannot release only here
    if done.returncode != 0:
        raise PluginError(f"{plugin['type']} ({attachment.name}): {done.stdout or done.stderr}")
    found: Config = json.loads(done.stdout) if done.stdout.strip() else {}
    return found


def _prepare_network(attachment: Attachment, config: Config) -> Config:
    """Return the list of plugins, with what differs on this node."""
    plugins = []
    for plugin in attachment.network["plugins"]:
        if config.get("vlanBridges"):
            plugin = replace_vlan(plugin)  # noqa: PLW2901
        ipam = plugin.get("ipam") or {}
        if ipam.get("type") == "whereabouts":
            place = {"configuration_path": str(write_whereabouts_file(config))}
            plugin = {**plugin, "ipam": {**ipam, **place}}  # noqa: PLW2901
        plugins.append(plugin)
    return {**attachment.network, "plugins": plugins}


def replace_vlan(plugin: Config) -> Config:
    """Return the configuration of a bridge without its VLAN, on a bridge of that VLAN alone."""
    if plugin["type"] != "bridge" or not plugin.get("vlan"):
        return plugin
    left = {key: plugin[key] for key in plugin if key not in {"vlan", "preserveDefaultVlan"}}
    bridge = f"{plugin['bridge'][:10]}.{plugin['vlan']}"
    return {**left, "bridge": bridge, "mtu": _VXLAN_MTU}


def connect_vlan_bridges(attachment: Attachment, config: Config) -> None:
    """Create the bridges of VLANs, and connect them over the bridge that had the VLANs."""
    for plugin in attachment.network["plugins"]:
        name = str(replace_vlan(plugin).get("bridge"))
        if not config.get("vlanBridges") or name == str(plugin.get("bridge")):
            continue
        number, trunk = str(plugin["vlan"]), plugin["bridge"]
        tunnel = f"vx{number}-{trunk}"[:15]
        with Path(config["stateDir"], "vlan-bridges.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # Two pods at once must not both create them.
            if _has_link(name):
                continue
            group = ["group", _VXLAN_GROUP, "dev", trunk, "dstport", _VXLAN_PORT]
            _ip("link", "add", "name", tunnel, "type", "vxlan", "id", number, *group)
            _ip("link", "add", "name", name, "type", "bridge")
            _ip("link", "set", tunnel, "master", name, "up")
            _ip("link", "set", name, "up")


def _has_link(name: str) -> bool:
    done = subprocess.run(["ip", "link", "show", "dev", name], capture_output=True, check=False)
    return done.returncode == 0


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PluginError(f"ip {' '.join(words)}: {done.stderr}")


def write_whereabouts_file(config: Config) -> Path:
    """Write the file with the access of Whereabouts, which its installation brings elsewhere."""
    file = Path(config["stateDir"]) / "whereabouts.conf"
    text = json.dumps({"kubernetes": {"kubeconfig": config["kubeconfig"]}})
    if not file.is_file() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(text)
        scratch.rename(file)
    return file


def add_attachment(attachment: Attachment, config: Config) -> Config:
    """Attach one interface. Returns the result of its last plugin."""
    connect_vlan_bridges(attachment, config)
    network, result = _prepare_network(attachment, config), None
    for plugin in network["plugins"]:
        result = _run_plugin("ADD", network, plugin, attachment, result)
    return result or {}


def delete_attachment(attachment: Attachment, config: Config, result: Config) -> None:
    """Detach one interface."""
    network = _prepare_network(attachment, config)
    for plugin in reversed(network["plugins"]):
        _run_plugin("DEL", network, plugin, attachment, result or None)


def build_status(attachment: Attachment, result: Config) -> Config:
    """Return the entry of one interface in the status of a pod's networks."""
    own: Config = next(
        (
            each
            for each in result.get("interfaces") or ()
            if each.get("sandbox") and each["name"] == attachment.interface
        ),
        {},
    )
    found: Config = {
        "name": attachment.name,
        "interface": attachment.interface,
        "ips": [each["address"].partition("/")[0] for each in result.get("ips") or ()],
        "mac": own.get("mac", ""),
        "dns": result.get("dns") or {},
    }
    return {**found, **({"default": True} if attachment.is_default else {})}


def _read_pod_arguments() -> Mapping[str, str]:
    pairs = (each.partition("=") for each in os.environ.get("CNI_ARGS", "").split(";"))
    return {key: value for key, _, value in pairs}


def _get_state_file(config: Config) -> Path:
    name = f"{os.environ['CNI_CONTAINERID']}-{os.environ['CNI_IFNAME']}.json"
    return Path(config["stateDir"]) / name


def add(config: Config) -> Config:
    """Attach a pod. Returns the result of the default network. A failure detaches everything."""
    words = _read_pod_arguments()
    namespace, name = words["K8S_POD_NAMESPACE"], words["K8S_POD_NAME"]
    api = Api(Path(config["kubeconfig"]))
    pod = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    state = _get_state_file(config)
    state.parent.mkdir(parents=True, exist_ok=True)
    done: list[tuple[Attachment, Config]] = []
    try:
        for attachment in list_attachments(api, pod, config, os.environ["CNI_IFNAME"]):
            done.append((attachment, {}))  # a failed plugin may have left something
            state.write_text(json.dumps(done))
            done[-1] = (attachment, add_attachment(attachment, config))
            state.write_text(json.dumps(done))
        entries = [build_status(attachment, result) for attachment, result in done]
        status = {STATUS: json.dumps(entries, indent=4), STAND_IN: Path(__file__).stem}
        api.annotate(namespace, name, words.get("K8S_POD_UID", ""), status)
    except Exception:
        delete(config)
        raise
    return done[0][1]


def delete(config: Config) -> None:
    """Detach a pod. A pod that was never attached is no error."""
    state = _get_state_file(config)
    if not state.is_file():
        return
    problems = []
    for fields, result in reversed(json.loads(state.read_text())):
        try:
            delete_attachment(Attachment(*fields), config, result)
        except PluginError as problem:
            problems.append(str(problem))
    if problems:
        raise PluginError("; ".join(problems))
    state.unlink()


def main() -> int:
    """Run one command of the CNI."""
    config = json.load(sys.stdin)
    command = os.environ.get("CNI_COMMAND", "")
    try:
        if command == "ADD":
            json.dump(add(config), sys.stdout)
        elif command == "DEL":
            delete(config)
        elif command == "VERSION":
            json.dump({"cniVersion": _VERSIONS[-1], "supportedVersions": _VERSIONS}, sys.stdout)
    except (PluginError, KeyError, OSError, ValueError) as problem:
        error = {"code": _ERROR_CODE, "msg": f"{Path(__file__).stem}: {problem!r}"}
        json.dump({"cniVersion": config.get("cniVersion", "1.0.0"), **error}, sys.stdout)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
