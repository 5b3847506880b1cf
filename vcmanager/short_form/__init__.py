"""Settings of control planes that only the short form of a ClusterVersion has."""
