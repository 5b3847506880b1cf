"""Which events of a pod have work behind them, as most of them have not.

Owns what an event is told apart by: our own echo, also one that is here before its answer, and the
last moments of a pod. Must not write. Hazard: what is left out here is looked at by nobody until
the patrol comes round; so each rule names the event that comes after.
"""

from kubeio.cache.store import Entry
from syncer.controllers import sync_down
from syncer.model.keys import Key
from syncer.rules import registry
from syncer.rules.pods import pod_facts
from syncer.safety.expectations import News, Side
from syncer.tenants.session import Session


def wake(session: Session, side: Side, key: Key, news: News, new: Entry | None) -> None:
    """Queue a pod whose state is news.

    An event of a pod in work may be the echo of the very write that is under way; it waits for the
    end of the work, which the key would have to wait for as well.
    """
    if news is News.FOREIGN and new is not None and session.queue.has_in_hand(key):
        session.expectations.keep(side, key, new)
    else:
        sync_down.wake(registry.BY_NAME[key.kind], key, session)


def is_over(session: Session, key: Key, news: News, new: Entry | None) -> bool:
    """Tell whether an event of a tenant pod has no work behind it, as half of them have not."""
    if news is News.QUIET and new is not None:
        return True
    twin = sync_down.look(registry.BY_NAME[key.kind], key, session).super_x
    if twin is not None or new is None:
        return twin is None
    if session.queue.has_in_hand(key) or session.expectations.is_behind(Side.SUPER, key, None):
        return False  # its twin may be in the making, and nothing else would have it removed
    # With no time left and nothing below, only a finalizer keeps it.
    return new.deleting and pod_facts.grace_of(new.decode()) == 0


def is_as_written(session: Session, key: Key, twin: Entry | None) -> bool:
    """Tell whether a twin that we wrote still has its tenant pod.

    It may have gone while the twin was made, when there was nothing below to look at.
    """
    tenant_x = session.stores["Pod"].get(key.namespace, key.name)
    return tenant_x is not None and session.is_twin(twin, tenant_x.uid)


def is_only_later(session: Session, key: Key, old: Entry | None, new: Entry | None) -> bool:
    """Tell whether a twin that goes with its pod says no more than that it has less time left.

    The last word of a kubelet lets it go; its end comes right behind, and is what counts.
    """
    tenant_x = session.stores["Pod"].get(key.namespace, key.name)
    if tenant_x is None or not tenant_x.deleting or old is None or new is None:
        return False
    if not (old.deleting and new.deleting and old.uid == new.uid):
        return False
    if (old.labels, old.annotations) != (new.labels, new.annotations):
        return False
    before, now = old.decode(), new.decode()
    return pod_facts.grace_of(now) == 0 and all(
        before.get(field) == now.get(field) for field in ("spec", "status")
    )
