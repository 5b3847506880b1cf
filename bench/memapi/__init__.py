"""Many clusters' APIs in one process and in memory: what a syncer is measured against for its own
cost.

It has what a syncer asks for and no more: objects as real servers fill them in, watches, patches,
graceful ends of pods, and a super cluster that binds and runs pods by itself. It authorises and
validates nothing, so no test of the product may use it.
"""
