"""Snapshot file of another tenant's etcd, changed for a new tenant to start from it.

Writes the live keys only: the history of the old tenant stays behind. Must not import anything
outside the standard library and its own folder.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from vcmanager.snapshots import fork_rules, stored_objects
from vcmanager.snapshots.etcd_database import EtcdDatabase
from vcmanager.snapshots.etcd_writer import DatabaseWriter
from vcmanager.snapshots.fork_rules import IPNetwork, RangeMap
from vcmanager.snapshots.stored_objects import WireField

_KEYS = b"key"
_EMPTIED_BUCKETS = frozenset({b"lease", b"alarm", b"members", b"members_removed"})
"""Buckets about the old etcd. Leases belong to Events, which are left out."""
_SERVICE_CIDR = "/registry/servicecidrs/kubernetes"
_NAME, _VALUE, _LEASE = 1, 5, 6
"""Fields of the message `mvccpb.KeyValue`."""
_BYTES = 2


def fork_database(source: Path, target: Path, new_range: IPNetwork) -> dict[str, Any]:
    """Write `target`. Return the numbers of objects that are kept and left out.

    Raises DatabaseError for a broken file, and ForkRefusedError.
    """
    part = target.with_name(f"{target.name}.part")
    with EtcdDatabase(source) as database:
        live = database.read_live_entries()
        ranges = RangeMap(_find_range(database, live, new_range), new_range)
        counts = {"kept": 0, "leftOut": 0}
        try:
            with DatabaseWriter(part) as writer:
                for name in database.list_buckets():
                    entries: Iterable[tuple[bytes, bytes]] = ()
                    if name == _KEYS:
                        entries = _iterate_kept(database, live, ranges, counts)
                    elif name not in _EMPTIED_BUCKETS:
                        entries = database.iterate_bucket(name)
                    writer.add_bucket(name, entries)
                writer.finish()
            part.rename(target)
        finally:
            part.unlink(missing_ok=True)
    return counts


def _iterate_kept(
    database: EtcdDatabase, live: dict[str, bytes], ranges: RangeMap, counts: dict[str, int]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of the new tenant, in the order of their revisions."""
    wanted = {entry: name for name, entry in live.items() if not fork_rules.is_dropped(name)}
    counts["leftOut"] += len(live) - len(wanted)
    for entry, content in database.iterate_bucket(_KEYS):
        name = wanted.get(entry)
        if name is None:
            continue
        fields = list(stored_objects.iterate_fields(content))
        value = next((each.content for each in fields if each.number == _VALUE), b"")
        converted = fork_rules.convert_value(name, value, ranges)
        if converted is None:
            counts["leftOut"] += 1
            continue
        counts["kept"] += 1
        kept = [each for each in fields if each.number not in (_VALUE, _LEASE)]
        kept.append(WireField(_VALUE, _BYTES, converted))
        yield entry, b"".join(stored_objects.build_field(each) for each in kept)


def _find_range(database: EtcdDatabase, live: dict[str, bytes], new_range: IPNetwork) -> IPNetwork:
    """Return the service range of the old tenant."""
    wanted = {live[name]: name for name in (_SERVICE_CIDR, fork_rules.API_SERVICE) if name in live}
    found: dict[str, bytes] = {}
    for entry, content in database.iterate_bucket(_KEYS) if wanted else ():
        if entry in wanted:
            fields = stored_objects.iterate_fields(content)
            found[wanted[entry]] = next((f.content for f in fields if f.number == _VALUE), b"")
    declared = fork_rules.read_range(
        value for name, value in found.items() if name == _SERVICE_CIDR
    )
    if declared is not None:
        return declared
    if fork_rules.API_SERVICE in found:
        return fork_rules.infer_range(found[fork_rules.API_SERVICE], new_range.prefixlen)
    return new_range  # no API server has used this etcd, so there are no Services either
