"""The embedded super cluster: a real Kubernetes on one bare Linux machine, for tests and demo.

Owns all steps between an empty machine and a Ready node. Must not know the product. Only `chart`
and `product` read the rest of the repository.
"""
