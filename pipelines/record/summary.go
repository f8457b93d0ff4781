package record

import (
	"fmt"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/memory"
)

// Summary is what summary.json says of the run itself.
type Summary struct {
	Computed int64              `json:"computed"`
	Skipped  int64              `json:"skipped"`
	Seconds  float64            `json:"seconds"`
	Phases   Phases             `json:"phases"`
	Workers  int                `json:"workers"`
	Runner   string             `json:"runner"`
	Stages   []engine.StageTime `json:"stages"`
	// Resumed are the sampling steps that an earlier run had done of rows of this one.
	Resumed int64 `json:"steps_resumed,omitempty"`

	Memory  []memory.Fact `json:"memory,omitempty"`  // what was learned of it
	Devices any           `json:"devices,omitempty"` // what was seen of GPUs

	Exchanges *cluster.Links `json:"exchanges_between_hosts,omitempty"` // of GPUs
}

// Phases are what the time of a run consists of.
type Phases struct {
	Open   time.Duration `json:"open_ns"`   // model, input and devices, digests of weights included
	Plan   time.Duration `json:"plan_ns"`   // what is to be done, and how
	Rows   time.Duration `json:"rows_ns"`   // from the first row to the last
	Tables time.Duration `json:"tables_ns"` // tables and gallery behind the last row
}

// String lists them.
func (p Phases) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%v to open model and input, %v to plan, %v for rows, %v for tables", ms(p.Open), ms(p.Plan),
		ms(p.Rows), ms(p.Tables))
}
