"""Super clusters: clients, caches and conditions of the home cluster and of each target."""
