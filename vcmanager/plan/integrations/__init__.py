"""Plans of objects that other projects define: ClusterProfile, and the provider of Cluster API."""
