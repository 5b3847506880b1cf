"""The embedded super cluster: a real Kubernetes on one bare Linux machine, for tests and demo.

Owns everything between an empty machine and a Ready node. It must not know the product: only
`chart` and `product` look at the rest of the repository.
"""
