"""Objects that keep the replicas of control planes available."""
