package cli

import (
	"encoding/json"
	"io"
	"path/filepath"

	"latentbeam/internal/config"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines"
	"latentbeam/pipelines/forecast"
)

// jsonSchema is the version of everything that --json prints (docs/json.md). A field more does not change it.
const jsonSchema = 1

// jobPlan is what run --dry-run --json prints.
type jobPlan struct {
	Schema   int              `json:"schema"`
	Output   string           `json:"output"`
	Rows     int64            `json:"rows"`
	New      int64            `json:"new"`
	Done     int64            `json:"done"`
	Score    int64            `json:"score"` // of those done: they get readings alone
	Failed   int64            `json:"failed"`
	Unusable int64            `json:"unusable"`
	Dropped  int64            `json:"dropped"`
	Stale    int64            `json:"stale"`
	First    []report.Failed  `json:"first_failures"`
	Columns  []string         `json:"columns"`
	Warnings []string         `json:"warnings"`
	Notes    []string         `json:"notes"`
	Seconds  *float64         `json:"seconds"` // predicted for all rows; null where the stages do not say
	Dropping map[string]int64 `json:"dropped_by,omitempty"`
	Text     string           `json:"text"` // what people read without --json
}

// planFacts fills a jobPlan.
func planFacts(output string, job *pipelines.Job, p pipelines.Plan, predicted forecast.Prediction, text string) jobPlan {
	facts := jobPlan{Schema: jsonSchema, Output: absoluteOutput(output), Rows: p.Rows, New: p.New, Done: p.Done, Score: p.Score, Failed: p.Failed,
		Unusable: p.Unusable, Dropped: p.Dropped, Stale: p.Stale, First: p.First, Columns: job.DescribeColumns(), Warnings: p.Warnings,
		Notes: p.Notes, Dropping: p.Reasons, Text: text}
	if predicted.Seconds > 0 {
		facts.Seconds = &predicted.Seconds
	}
	return facts
}

// runEvent is a line of run --json: one when the job is open, one at its end.
type runEvent struct {
	Schema  int            `json:"schema"`
	Event   string         `json:"event"` // opened, ended
	Output  string         `json:"output"`
	Run     string         `json:"run,omitempty"`
	Totals  *report.Totals `json:"totals,omitempty"`
	Done    int64          `json:"computed,omitempty"`
	Skipped int64          `json:"skipped,omitempty"`
	Seconds float64        `json:"seconds,omitempty"`
	Gallery string         `json:"gallery,omitempty"`
	Report  string         `json:"report,omitempty"`
	Stopped bool           `json:"interrupted,omitempty"`
}

// printOpened writes the first line of run --json, from which a caller learns where the output is.
func printOpened(w io.Writer, output, run string) error {
	return json.NewEncoder(w).Encode(runEvent{Schema: jsonSchema, Event: "opened", Output: absoluteOutput(output), Run: run})
}

// printEnded writes the last line of run --json.
func printEnded(w io.Writer, output, run string, r pipelines.Result) error {
	at := absoluteOutput(output)
	e := runEvent{Schema: jsonSchema, Event: "ended", Output: at, Run: run, Totals: &r.Totals, Done: r.Done, Skipped: r.Skipped,
		Seconds: r.Elapsed.Seconds(), Stopped: r.Interrupted}
	if r.Gallery != "" {
		e.Gallery = store.Address(at, r.Gallery)
	}
	if r.Page != "" {
		e.Report = store.Address(at, r.Page)
	}
	return json.NewEncoder(w).Encode(e)
}

// absoluteOutput is the output as any process of this host can open it.
func absoluteOutput(output string) string {
	if config.IsAddress(output) {
		return output
	}
	if abs, err := filepath.Abs(output); err == nil {
		return abs
	}
	return output
}
