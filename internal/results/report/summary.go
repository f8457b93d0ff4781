package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"latentbeam/internal/storage/store"
	"latentbeam/stages"
)

// Summary is summary.json. A run writes it last: if its state is "complete", every row of the input
// is settled and every table is complete. It also holds the facts of the run, which tables never contain.
type Summary struct {
	State   string `json:"state"` // Complete, Limited or Incomplete
	Version string `json:"latentbeam_version"`
	Class   string `json:"class"`
	Model   string `json:"model"`
	Weights string `json:"weights_digest"`
	// Terms are the origins and licences of the weights; null: the model is part of this program.
	Terms  []stages.Terms `json:"weights_terms,omitempty"`
	Varies string         `json:"varies,omitempty"` // stages whose results can differ when a row is computed again
	// Unsafe lists the guarantees that the output's store does not give, if output.unsafe_store allowed the job to write there.
	Unsafe []store.Promise `json:"unsafe_store,omitempty"`
	// Input is a digest of the rows, their keys and their outcomes. A later run with the same digest has
	// nothing to do.
	Input  string          `json:"input_sha256"`
	Files  Files           `json:"files"` // files of the report, without the summary
	Totals Totals          `json:"totals"`
	Limit  int             `json:"limit,omitempty"` // maximal rows, from --limit
	Run    any             `json:"run"`             // facts of the run: rows, times, devices
	Config json.RawMessage `json:"config"`          // configuration with all defaults
}

// The states of a summary.
const (
	Complete   = "complete"   // every row of the input is settled
	Limited    = "limited"    // every row within --limit is settled
	Incomplete = "incomplete" // rows are pending
)

// SummaryName returns the name of the summary of the shard or of the whole job.
func (j *Job) SummaryName() string { return j.Part + "summary.json" }

// WriteSummary writes the summary. It sets State, Files and the facts of the job.
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

// ReadSummary reads a summary. It returns fs.ErrNotExist if there is none.
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
