// Evaluates a Prometheus rules file over series from standard input, as a Prometheus server would,
// and prints the alerts that fire at the end as JSON.
//
//	alerts RULES MINUTES < SERIES
//
// SERIES is what promtool's unit tests take: lines `name{label="value"} 1 2 3`, one value a minute.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

const interval = time.Minute

type firing struct {
	Alert       string            `json:"alert"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Value       float64           `json:"value"`
}

func main() {
	// Without it the package refuses label names as scrapes have them.
	model.NameValidationScheme = model.UTF8Validation //nolint:staticcheck // the library reads it
	found, err := run()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

func run() ([]firing, error) {
	if len(os.Args) != 3 {
		return nil, fmt.Errorf("usage: alerts RULES MINUTES < SERIES")
	}
	minutes, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return nil, err
	}
	series, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	suite, err := promqltest.NewLazyLoader("load 1m\n"+string(series), promqltest.LazyLoaderOpts{})
	if err != nil {
		return nil, err
	}
	defer suite.Close()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		Appendable: suite.Storage(),
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
	})
	groups, problems := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, os.Args[1])
	if len(problems) > 0 {
		return nil, problems[0]
	}
	for minute := range minutes + 1 {
		now := time.Unix(0, 0).UTC().Add(time.Duration(minute) * interval)
		var failed error
		suite.WithSamplesTill(now, func(err error) {
			failed = err
			for _, group := range groups {
				group.Eval(suite.Context(), now)
			}
		})
		if failed != nil {
			return nil, failed
		}
	}
	return collect(groups)
}

func collect(groups map[string]*rules.Group) ([]firing, error) {
	found := []firing{}
	for _, group := range groups {
		for _, rule := range group.Rules() {
			if err := rule.LastError(); err != nil {
				return nil, fmt.Errorf("%s: %w", rule.Name(), err)
			}
			alerting, ok := rule.(*rules.AlertingRule)
			if !ok {
				continue
			}
			for _, alert := range alerting.ActiveAlerts() {
				if alert.State == rules.StateFiring {
					found = append(found, firing{
						Alert:       alerting.Name(),
						Labels:      alert.Labels.Map(),
						Annotations: alert.Annotations.Map(),
						Value:       alert.Value,
					})
				}
			}
		}
	}
	return found, nil
}
