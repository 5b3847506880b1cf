// A driver of dynamic resource allocation for devices that do not exist, of one node.
//
// It publishes a ResourceSlice with some devices. For each allocated device of a claim it writes a
// file of the Container Device Interface (CDI), which sets the variable DEVICE_<request> of a
// container to the name of the device. Kubernetes' own helper package serves the kubelet. The
// example driver of Kubernetes, sigs.k8s.io/dra-example-driver, is no Go module that a build can
// fetch, so this stands in for it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
)

const (
	specVersion = "0.6.0"
	class       = "device"
	folderMode  = 0o755
	fileMode    = 0o644
)

type driver struct {
	name   string
	folder string
}

// spec is a file of the CDI, with the fields that this driver needs.
type spec struct {
	Version string      `json:"cdiVersion"`
	Kind    string      `json:"kind"`
	Devices []cdiDevice `json:"devices"`
}

type cdiDevice struct {
	Name  string `json:"name"`
	Edits edits  `json:"containerEdits"`
}

type edits struct {
	Env []string `json:"env"`
}

func (d *driver) kind() string { return d.name + "/" + class }

func (d *driver) file(claim types.UID) string {
	return filepath.Join(d.folder, d.name+"-"+string(claim)+".json")
}

// PrepareResourceClaims writes one file for each claim. A second call writes the same file.
func (d *driver) PrepareResourceClaims(
	_ context.Context, claims []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	written := spec{Version: specVersion, Kind: d.kind()}
	found := []kubeletplugin.Device{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != d.name {
			continue
		}
		request, _, _ := strings.Cut(result.Request, "/")
		name := string(claim.UID) + "-" + result.Device
		variable := "DEVICE_" + strings.ToUpper(strings.ReplaceAll(request, "-", "_"))
		written.Devices = append(written.Devices, cdiDevice{
			Name: name, Edits: edits{Env: []string{variable + "=" + result.Device}},
		})
		found = append(found, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			CDIDeviceIDs: []string{d.kind() + "=" + name},
		})
	}
	body, err := json.Marshal(written)
	if err != nil {
		return nil, err
	}
	// A reader must never see half a file.
	temporary := d.file(claim.UID) + ".new"
	if err := os.WriteFile(temporary, body, fileMode); err != nil {
		return nil, err
	}
	return found, os.Rename(temporary, d.file(claim.UID))
}

// UnprepareResourceClaims removes the files. A missing file is no error.
func (d *driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.file(claim.UID))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		results[claim.UID] = err
	}
	return results, nil
}

// HandleError ends the program after an error that no retry can resolve.
func (d *driver) HandleError(_ context.Context, err error, message string) {
	if errors.Is(err, kubeletplugin.ErrRecoverable) {
		klog.ErrorS(err, message)
		return
	}
	klog.Fatalf("%s: %v", message, err)
}

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the driver's account")
	node := flag.String("node-name", "", "name of the node")
	name := flag.String("driver-name", "", "name of the driver")
	count := flag.Int("devices", 1, "number of devices")
	folder := flag.String("cdi-dir", "/var/run/cdi", "folder of the CDI files")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *kubeconfig, *node, *name, *folder, *count); err != nil {
		klog.Fatal(err)
	}
}

func run(ctx context.Context, kubeconfig, node, name, folder string, count int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data := filepath.Join(kubeletplugin.KubeletPluginsDir, name)
	for _, each := range []string{folder, data, kubeletplugin.KubeletRegistryDir} {
		if err := os.MkdirAll(each, folderMode); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(
		ctx,
		&driver{name: name, folder: folder},
		kubeletplugin.KubeClient(client),
		kubeletplugin.NodeName(node),
		kubeletplugin.DriverName(name),
		kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(kubeletplugin.KubeletRegistryDir),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	devices := []resourceapi.Device{}
	for number := range count {
		devices = append(devices, resourceapi.Device{Name: fmt.Sprintf("device-%d", number)})
	}
	slice := resourceslice.Slice{Devices: devices}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{slice}}
	err = helper.PublishResources(ctx, resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{node: pool},
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
