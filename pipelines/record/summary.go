package record

import (
	"fmt"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/memory"
)

// Summary is the part of summary.json that describes the run.
type Summary struct {
	Computed int64              `json:"computed"`
	Skipped  int64              `json:"skipped"`
	Seconds  float64            `json:"seconds"`
	Phases   Phases             `json:"phases"`
	Workers  int                `json:"workers"`
	Runner   string             `json:"runner"`
	Stages   []engine.StageTime `json:"stages"`
	// Resumed counts the sampling steps that an earlier run had computed for rows of this run.
	Resumed int64 `json:"steps_resumed,omitempty"`

	Memory  []memory.Fact `json:"memory,omitempty"`  // measured memory of batches
	Devices any           `json:"devices,omitempty"` // measurements of GPUs

	Exchanges *cluster.Links `json:"exchanges_between_hosts,omitempty"` // exchanges between GPUs
}

// Phases are the durations of the phases of a run.
type Phases struct {
	Open   time.Duration `json:"open_ns"`   // opening model, input and devices, with digests of weights
	Plan   time.Duration `json:"plan_ns"`   // planning and preparing the run
	Rows   time.Duration `json:"rows_ns"`   // computing the rows
	Tables time.Duration `json:"tables_ns"` // writing tables and gallery after the last row
}

// String formats the phases for people.
func (p Phases) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%v to open model and input, %v to plan, %v for rows, %v for tables", ms(p.Open), ms(p.Plan),
		ms(p.Rows), ms(p.Tables))
}
