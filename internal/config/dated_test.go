package config

import (
	"strings"
	"testing"
	"time"
)

// TestResolveOutput: the date is one day for a whole job, in the zone that the job names.
func TestResolveOutput(t *testing.T) {
	now := time.Date(2026, 11, 22, 23, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		path, zone, given string
		shards            int
		want, problem     string
	}{
		{path: "out/x", want: "out/x"},
		{path: "out/{date}", want: "out/2026-11-22"},
		{path: "out/{date}", zone: "Europe/Berlin", want: "out/2026-11-23"},
		{path: "out/{year}/{month}/{day}-{hour}", want: "out/2026/11/22-23"},
		{path: "out/{date}", given: "2026-01-02", shards: 4, want: "out/2026-01-02"},
		{path: "out/{hour}", given: "2026-01-02T23:00:00Z", zone: "Asia/Tokyo", want: "out/08"},
		{path: "s3://b/${TEAM}/{date}", want: "s3://b/red/2026-11-22"},
		{path: "out/{prompt}", want: "out/{prompt}"}, // as it always was
		{path: "out/{date}", shards: 4, problem: "LATENTBEAM_DATE"},
		{path: "out/{date}", given: "yesterday", problem: "yesterday"},
		{path: "out/{hour}", given: "2026-01-02", problem: "{hour}"},
		{path: "out/{date}", zone: "Mars/Base", problem: "Europe/Berlin"},
		{path: "out/${NOBODY}", problem: "${NOBODY}"},
		{path: "out/{Date}", problem: "{date}"},
		{path: "out/{dates}", problem: "{date}"},
		{path: "out/$TEAM", problem: "${TEAM}"},
		{path: "out/$NOBODY", want: "out/$NOBODY"},
	} {
		cfg := &Config{Output: Output{Path: c.path, Timezone: c.zone}}
		err := cfg.ResolveOutput(now, func(name string) string {
			return map[string]string{DateEnv: c.given, "TEAM": "red"}[name]
		}, c.shards)
		switch {
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%+v: %v", c, err)
		case c.problem == "" && (err != nil || cfg.Output.Path != c.want):
			t.Errorf("%+v: %q, %v", c, cfg.Output.Path, err)
		}
	}
}
