"""Many clusters' APIs in one process and in memory.

It has two users. `bench` measures a syncer's own cost against it, over sockets. The machine
of `tests/chaos/memory` breaks the syncer on it, through `tests.support.memapi.direct` and without
any socket. `tests/integration/model` compares it with a real API server by random programs.

It has only the features that a syncer needs. These are objects as real servers fill them in,
watches, pages, patches, preconditions, finalizers and graceful ends of pods. The super cluster
binds and runs pods by itself. It authorises no client, and refuses only the writes that
`validation` names.
"""
