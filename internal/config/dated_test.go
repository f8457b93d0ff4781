package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestResolveOutput: all shards of a job use the same date, in the time zone of the job.
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
		{path: "out/{prompt}", want: "out/{prompt}"}, // no date: unchanged
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

// TestRepeatedHours: in every zone with summer time, two successive hours have different names. Only the second of two equal hours
// gets an offset in its name.
func TestRepeatedHours(t *testing.T) {
	for zone, want := range map[string][]string{
		"Europe/Berlin":       {"2026-10-25-02+0100"},
		"America/New_York":    {"2026-11-01-01-0500"},
		"Australia/Lord_Howe": {"2026-04-05-01+1030"},
		"Antarctica/Troll":    {"2026-10-25-01+0000", "2026-10-25-02+0000"},
		"Asia/Tokyo":          nil,
		"":                    nil,
	} {
		at, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		seen, odd := map[string]time.Time{}, []string(nil)
		for now := time.Date(2026, 1, 1, 0, 20, 0, 0, time.UTC); now.Year() == 2026; now = now.Add(time.Hour) {
			cfg := &Config{Output: Output{Path: "{date}-{hour}", Timezone: zone}}
			if err := cfg.ResolveOutput(now, func(string) string { return "" }, 1); err != nil {
				t.Fatal(err)
			}
			if other, double := seen[cfg.Output.Path]; double {
				t.Errorf("%s: %s is the name of %v and %v", zone, cfg.Output.Path, other, now)
			}
			if seen[cfg.Output.Path] = now; cfg.Output.Path != now.In(at).Format("2006-01-02-15") {
				odd = append(odd, cfg.Output.Path)
			}
		}
		if !slices.Equal(odd, want) {
			t.Errorf("%s: %q have names of their own, want %q", zone, odd, want)
		}
	}
}
