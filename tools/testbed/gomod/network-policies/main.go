// The NetworkPolicy controller of kube-network-policies, with a kubeconfig and without rules of its
// own. The kernel may lack the nftables statement `queue`, which its own rules need. The testbed
// sends packets to its queue with xt_NFQUEUE (tools/testbed/cluster/node.py).
package main

import (
	"context"
	"flag"
	"os/signal"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the node's account")
	node := flag.String("hostname-override", "", "name of the node")
	queue := flag.Int("nfqueue-id", 100, "number of the queue that the rules name")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		klog.Fatal(err)
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	controller, err := networkpolicy.NewController(
		client,
		shared.Networking().V1().NetworkPolicies(),
		shared.Core().V1().Namespaces(),
		shared.Core().V1().Pods(),
		nil, nil, nil, nil,
		networkpolicy.Config{NodeName: *node, QueueID: *queue, FailOpen: true},
	)
	if err != nil {
		klog.Fatal(err)
	}
	shared.Start(ctx.Done())
	if err := controller.Run(ctx); err != nil {
		klog.Fatal(err)
	}
}
