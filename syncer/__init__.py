"""Carries tenant objects down into the super cluster, and statuses, nodes and events back up.

Imports kubeio, tenancy and telemetry only. Start reading at `syncer.rules.registry`, the table of
kinds.
"""
