"""Storage of a cluster beyond its default StorageClass."""
