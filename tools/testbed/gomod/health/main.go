// Judges the health of objects as Flux and Argo CD do, by their own packages.
//
//	health CONFIG_MAP < OBJECTS > VERDICTS
//
// CONFIG_MAP is a file with the ConfigMap argocd-cm in YAML. Its keys
// resource.customizations.health.GROUP_KIND have Lua scripts. OBJECTS has one object in JSON per line.
// VERDICTS has one line for each: the status of kstatus, which Flux and Helm use, and of Argo CD. A
// line that is no object, and a script that fails, end the program with an error.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/yaml"
)

const (
	longestLine = 16 << 20
	prefix      = "resource.customizations.health."
)

type verdict struct {
	Kstatus       string `json:"kstatus"`
	ArgoCD        string `json:"argocd"`
	ArgoCDMessage string `json:"argocdMessage"`
}

// scripts are the health checks of a ConfigMap, by group and kind.
type scripts map[string]string

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "health:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: health CONFIG_MAP")
	}
	known, err := load(os.Args[1])
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	out := bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(lines.Bytes()); err != nil {
			return err
		}
		found, err := judge(object, known)
		if err != nil {
			return err
		}
		if err := answers.Encode(found); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}

func load(path string) (scripts, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var settings corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &settings); err != nil {
		return nil, err
	}
	known := scripts{}
	for key, script := range settings.Data {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			known[name] = script
		}
	}
	return known, nil
}

func judge(object *unstructured.Unstructured, known scripts) (verdict, error) {
	computed, err := status.Compute(object)
	if err != nil {
		return verdict{}, err
	}
	found := verdict{Kstatus: string(computed.Status)}
	answer, err := health.GetResourceHealth(object, known)
	if err != nil {
		return verdict{}, err
	}
	if answer != nil { // Argo CD counts a kind without a check as healthy
		found.ArgoCD, found.ArgoCDMessage = string(answer.Status), answer.Message
	}
	return found, nil
}

// GetResourceHealth runs the script of the object's kind, as Argo CD does.
func (known scripts) GetResourceHealth(object *unstructured.Unstructured) (*health.HealthStatus, error) {
	kind := object.GroupVersionKind()
	script, ok := known[kind.Group+"_"+kind.Kind]
	if !ok {
		return nil, nil
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName:   lua.OpenPackage,
		lua.BaseLibName:   lua.OpenBase,
		lua.TabLibName:    lua.OpenTable,
		lua.StringLibName: lua.OpenString,
	} {
		call := lua.P{Fn: state.NewFunction(open), NRet: 0, Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return nil, err
		}
	}
	// The decoder knows the number type of JSON alone, and no integers.
	text, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, err
	}
	state.SetGlobal("obj", luajson.DecodeValue(state, plain))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	encoded, err := luajson.Encode(state.Get(-1))
	if err != nil {
		return nil, err
	}
	var found health.HealthStatus
	if err := json.Unmarshal(encoded, &found); err != nil {
		return nil, err
	}
	switch found.Status {
	case health.HealthStatusHealthy, health.HealthStatusProgressing, health.HealthStatusDegraded,
		health.HealthStatusSuspended:
		return &found, nil
	}
	return nil, fmt.Errorf("the script of %s returned the status %q", kind.Kind, found.Status)
}
