package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"latentbeam/internal/storage/store"
	"latentbeam/stages"
)

// Summary is summary.json, written last: where it stands with state "complete", every row of the input
// is settled and every table whole. It is the place of the run facts that tables never hold.
type Summary struct {
	State   string `json:"state"` // Complete, Limited or Incomplete
	Version string `json:"latentbeam_version"`
	Class   string `json:"class"`
	Model   string `json:"model"`
	Weights string `json:"weights_digest"`
	// Terms are where the weights come from and under which licences; null: the model is part of this program.
	Terms  []stages.Terms `json:"weights_terms,omitempty"`
	Varies string         `json:"varies,omitempty"` // stages whose results may be others when a row is computed again
	// Unsafe is what the store of the output does not keep, where output.unsafe_store let the job write there.
	Unsafe []store.Promise `json:"unsafe_store,omitempty"`
	// Input is a digest of the rows, their keys and their outcomes: a later run that finds the same has
	// nothing to do.
	Input  string          `json:"input_sha256"`
	Files  Files           `json:"files"` // of the report, but for this one
	Totals Totals          `json:"totals"`
	Limit  int             `json:"limit,omitempty"` // of rows, as --limit gave it
	Run    any             `json:"run"`             // what this run did and how long it took
	Config json.RawMessage `json:"config"`          // the job as it was resolved
}

// The states of a summary.
const (
	Complete   = "complete"   // every row of the input is settled
	Limited    = "limited"    // those that --limit left are
	Incomplete = "incomplete" // rows are pending
)

// SummaryName names the summary of a shard, or of the whole job.
func (j *Job) SummaryName() string { return j.Part + "summary.json" }

// WriteSummary publishes the summary.
func (j *Job) WriteSummary(ctx context.Context, s Summary) error {
	s.State = Complete
	if s.Limit > 0 {
		s.State = Limited
	}
	if s.Totals.Pending > 0 {
		s.State = Incomplete
	}
	s.Version, s.Class, s.Model, s.Weights, s.Varies = j.Version, j.Class, j.Model, j.Facts.Weights, j.Varies
	var err error
	if s.Files, err = j.place().files(ctx); err != nil {
		return err
	}
	return j.Output.Replace(ctx, j.SummaryName(), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	})
}

// ReadSummary reads a summary; a missing one gives fs.ErrNotExist.
func ReadSummary(ctx context.Context, from store.Store, name string) (Summary, error) {
	var s Summary
	data, err := store.ReadFile(ctx, from, name)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", name, err)
	}
	return s, nil
}
