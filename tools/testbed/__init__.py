"""The embedded super cluster: a real Kubernetes on one bare Linux machine, for tests and demo.

Owns all steps between an empty machine and a Ready node. `cluster` starts one cluster from the
programs and images of `artifacts`, on the Linux of `machine`. Must not know the product. Only
`chart` and `artifacts.product` read the rest of the repository.
"""
