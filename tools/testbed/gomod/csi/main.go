// A CSI driver whose volumes are directories of one node, for tests of snapshots.
//
//	csi NAME ROOT PLUGINS REGISTRY NODE
//
// csi-driver-host-path and node-driver-registrar are not served by the Go module proxy. This program
// does the part of both that the tests need. The provisioner and the snapshotter are the real ones.
//
// NAME is the name of the driver, and NODE that of the node. ROOT has the folders `volumes` and
// `snapshots`. PLUGINS and REGISTRY are the kubelet's folders `plugins` and `plugins_registry`. A
// volume is created empty, or as a copy of a snapshot. A snapshot is a copy of a volume's directory.
// Its time and its source are in a file beside it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const version = "1.0.0"

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	name, root, node string
	lock             sync.Mutex
}

// record is the file beside a snapshot.
type record struct {
	Volume string    `json:"volume"`
	Taken  time.Time `json:"taken"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "csi:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 6 {
		return errors.New("usage: csi NAME ROOT PLUGINS REGISTRY NODE")
	}
	name, root, plugins, registry, node := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	for _, each := range []string{"volumes", "snapshots"} {
		if err := os.MkdirAll(filepath.Join(root, each), 0o700); err != nil {
			return err
		}
	}
	own := &driver{name: name, root: root, node: node}
	socket := filepath.Join(plugins, name, "csi.sock")
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, own)
	csi.RegisterControllerServer(server, own)
	csi.RegisterNodeServer(server, own)
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, &registrant{name: name, endpoint: socket})
	failed := make(chan error, 2)
	// The kubelet connects as soon as the second socket exists.
	for _, each := range []struct {
		server *grpc.Server
		path   string
	}{{server, socket}, {registrar, filepath.Join(registry, name+"-reg.sock")}} {
		listener, err := listen(each.path)
		if err != nil {
			return err
		}
		go func() { failed <- each.server.Serve(listener) }()
	}
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	select {
	case err := <-failed:
		return err
	case <-ended.Done():
		registrar.Stop()
		server.Stop()
		return nil
	}
}

func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// registrant answers the kubelet's plugin watcher.
type registrant struct {
	registration.UnimplementedRegistrationServer
	name, endpoint string
}

func (r *registrant) GetInfo(
	context.Context, *registration.InfoRequest,
) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.name, Endpoint: r.endpoint, SupportedVersions: []string{version},
	}, nil
}

func (r *registrant) NotifyRegistrationStatus(
	_ context.Context, found *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !found.PluginRegistered {
		fmt.Fprintln(os.Stderr, "csi: the kubelet refused the driver:", found.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// Identity.

func (d *driver) GetPluginInfo(
	context.Context, *csi.GetPluginInfoRequest,
) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: version}, nil
}

func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{
		Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
		}},
	}}}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// Controller.

func (d *driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	found := &csi.ControllerGetCapabilitiesResponse{}
	for _, each := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
	} {
		found.Capabilities = append(found.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{
				Rpc: &csi.ControllerServiceCapability_RPC{Type: each},
			},
		})
	}
	return found, nil
}

func (d *driver) CreateVolume(
	_ context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	target, err := d.place("volumes", request.GetName())
	if err != nil {
		return nil, err
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	content := request.GetVolumeContentSource()
	if content != nil {
		snapshot := content.GetSnapshot()
		if snapshot == nil {
			return nil, status.Error(codes.InvalidArgument, "the source must be a snapshot")
		}
		source, err := d.place("snapshots", snapshot.GetSnapshotId())
		if err != nil {
			return nil, err
		}
		if err := copyDirectory(source, target); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(target, 0o777); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	} else if err := os.Chmod(target, 0o777); err != nil { // whatever the umask is
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:      request.GetName(),
		CapacityBytes: request.GetCapacityRange().GetRequiredBytes(),
		ContentSource: content,
	}}, nil
}

func (d *driver) DeleteVolume(
	_ context.Context, request *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, d.remove("volumes", request.GetVolumeId())
}

func (d *driver) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: request.GetVolumeCapabilities(),
		},
	}, nil
}

func (d *driver) CreateSnapshot(
	_ context.Context, request *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	source, err := d.place("volumes", request.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	target, err := d.place("snapshots", request.GetName())
	if err != nil {
		return nil, err
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	found := record{Volume: request.GetSourceVolumeId(), Taken: time.Now()}
	text, err := os.ReadFile(target + ".json")
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &found); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		if found.Volume != request.GetSourceVolumeId() {
			return nil, status.Error(codes.AlreadyExists, "the snapshot is of another volume")
		}
	case errors.Is(err, os.ErrNotExist):
		if err := copyDirectory(source, target); err != nil {
			return nil, err
		}
		text, err := json.Marshal(found)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		if err := os.WriteFile(target+".json", text, 0o600); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	default:
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId:     request.GetName(),
		SourceVolumeId: found.Volume,
		CreationTime:   timestamppb.New(found.Taken),
		ReadyToUse:     true,
	}}, nil
}

func (d *driver) DeleteSnapshot(
	_ context.Context, request *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	return &csi.DeleteSnapshotResponse{}, d.remove("snapshots", request.GetSnapshotId())
}

// Node.

func (d *driver) NodeGetInfo(
	context.Context, *csi.NodeGetInfoRequest,
) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (d *driver) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	source, err := d.place("volumes", request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	target := request.GetTargetPath()
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if same(source, target) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return nil, status.Errorf(codes.Internal, "bind mount of %s: %v", request.GetVolumeId(), err)
	}
	if request.GetReadonly() {
		flags := uintptr(syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY)
		if err := syscall.Mount("", target, "", flags, ""); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *driver) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	target := request.GetTargetPath()
	err := syscall.Unmount(target, 0)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	// Only an empty directory is removed, never the content of a volume.
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// place returns the path of a volume or snapshot. A name with a slash would lead out of the folder.
func (d *driver) place(kind, name string) (string, error) {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsRune(name, '/') {
		return "", status.Errorf(codes.InvalidArgument, "%q is no name in %s", name, kind)
	}
	return filepath.Join(d.root, kind, name), nil
}

func (d *driver) remove(kind, name string) error {
	path, err := d.place(kind, name)
	if err != nil {
		return err
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	for _, each := range []string{path, path + ".json"} {
		if err := os.RemoveAll(each); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
	return nil
}

// copyDirectory copies with owners and modes. A half copy of an earlier try is replaced.
func copyDirectory(source, target string) error {
	if _, err := os.Stat(source); err != nil {
		return status.Error(codes.NotFound, err.Error())
	}
	if err := os.RemoveAll(target); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if text, err := exec.Command("cp", "-a", source, target).CombinedOutput(); err != nil {
		return status.Errorf(codes.Internal, "copy: %v: %s", err, text)
	}
	return nil
}

func same(one, other string) bool {
	first, err := os.Stat(one)
	if err != nil {
		return false
	}
	second, err := os.Stat(other)
	return err == nil && os.SameFile(first, second)
}
