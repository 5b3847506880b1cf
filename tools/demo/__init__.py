"""The main job as a transcript: a super cluster, a tenant in it, a pod in the tenant, its logs."""
