"""Many clusters' APIs in one process and in memory.

Two have use of it. `bench` measures a syncer's own cost against it, over sockets. The state machine
of `tests/properties` breaks the syncer on it, through `tests.support.memapi.direct` and without any
socket; `tests/integration/model` holds it against a real API server with random programs.

It has what a syncer asks for and no more: objects as real servers fill them in, watches, pages,
patches, preconditions, finalizers, graceful ends of pods, and a super cluster that binds and runs
pods by itself. It authorises nobody, and refuses of what is written no more than `validation` says.
"""
