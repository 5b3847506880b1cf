"""Connection to one tenant, its sessions with super clusters, and their memory."""
