// Judges pods as the Pod Security admission of Kubernetes does, by its own package of checks.
//
//	podsecurity < PODS > VERDICTS
//
// PODS has one pod in JSON per line. VERDICTS has one line for each: an object with the failed
// checks of the levels baseline and restricted, newest version. An empty list allows the pod. A line
// that is no pod ends the program with an error.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

const longestLine = 16 << 20

type verdicts struct {
	Baseline   []string `json:"baseline"`
	Restricted []string `json:"restricted"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "podsecurity:", err)
		os.Exit(1)
	}
}

func run() error {
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	out := bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var pod corev1.Pod
		if err := json.Unmarshal(lines.Bytes(), &pod); err != nil {
			return err
		}
		found := verdicts{
			Baseline:   failed(judge, api.LevelBaseline, &pod),
			Restricted: failed(judge, api.LevelRestricted, &pod),
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

func failed(judge policy.Evaluator, level api.Level, pod *corev1.Pod) []string {
	reasons := []string{}
	at := api.LevelVersion{Level: level, Version: api.LatestVersion()}
	for _, result := range judge.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			reasons = append(reasons, result.ForbiddenReason)
		}
	}
	return reasons
}
