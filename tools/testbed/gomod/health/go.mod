module virtual-cluster.local/testbed/health

go 1.26.0

require (
	github.com/argoproj/argo-cd/gitops-engine v0.0.0-20260914071520-c9c369efcc5b
	github.com/fluxcd/cli-utils v1.3.0
)
