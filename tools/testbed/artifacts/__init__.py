"""Programs and images, each made once from pinned sources and kept in the cache.

Only `product` reads the rest of the repository. Must not know any cluster.
"""
