"""Synchronization of tenant objects to super clusters, and of statuses, nodes and events back.

Imports kubeio, tenancy and telemetry only. Start reading at `syncer.rules.registry`, the table of
kinds.
"""
