package cli

import (
	"encoding/json"
	"io"
	"path/filepath"

	"latentbeam/internal/config"
	"latentbeam/internal/media/marks"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/kernels"
	"latentbeam/pipelines"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/planning"
	"latentbeam/stages/catalog"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/checkpoint"
	"latentbeam/stages/weights/hub"
)

// jsonSchema is the version of everything that --json prints (docs/json.md). An additional field does not change it.
const jsonSchema = 1

// jobPlan is what run --dry-run --json prints.
type jobPlan struct {
	Schema   int              `json:"schema"`
	Output   string           `json:"output"`
	Rows     int64            `json:"rows"`
	New      int64            `json:"new"`
	Done     int64            `json:"done"`
	Score    int64            `json:"score"` // done rows that get readings only
	Failed   int64            `json:"failed"`
	Unusable int64            `json:"unusable"`
	Dropped  int64            `json:"dropped"`
	Stale    int64            `json:"stale"`
	First    []report.Failed  `json:"first_failures"`
	Columns  []string         `json:"columns"`
	Warnings []string         `json:"warnings"`
	Notes    []string         `json:"notes"`
	Seconds  *float64         `json:"seconds"` // predicted for all rows; null if the stages predict nothing
	Dropping map[string]int64 `json:"dropped_by,omitempty"`
	Text     string           `json:"text"` // what people read without --json
}

// planFacts fills a jobPlan.
func planFacts(output string, job *pipelines.Job, p planning.Plan, predicted forecast.Prediction, text string) jobPlan {
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

// printOpened writes the first line of run --json, which says where the output is.
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

// absoluteOutput returns an address that any process of this host can open, whatever its working directory.
func absoluteOutput(output string) string {
	if config.IsAddress(output) {
		return output
	}
	if abs, err := filepath.Abs(output); err == nil {
		return abs
	}
	return output
}

// layoutFacts is what plan --json prints.
type layoutFacts struct {
	Schema  int           `json:"schema"`
	Output  string        `json:"output"`
	Rows    int64         `json:"rows"`
	New     int64         `json:"new"` // rows that a run would compute
	Score   int64         `json:"score"`
	Whole   bool          `json:"whole_job,omitempty"` // every row is done; this plans the whole job again
	Devices []deviceFacts `json:"devices"`
	Shapes  []shapeFacts  `json:"shapes"`
	Seconds *float64      `json:"seconds"` // predicted for all rows; null if the stages predict nothing
	Without []string      `json:"not_counted"`
	Text    string        `json:"text"` // what people read without --json
}

// deviceFacts describe a device that a job is planned for.
type deviceFacts struct {
	Name   string  `json:"name"`
	Memory int64   `json:"memory"`   // bytes that a job can use
	Rate   float64 `json:"flop_s"`   // FLOP/s that a video transformer reaches
	Node   int     `json:"host"`     // number of its host
	Host   float64 `json:"host_b_s"` // bytes a second to and from host memory
}

// shapeFacts describe how rows of one shape would be computed.
type shapeFacts struct {
	Shape   string   `json:"shape"` // WIDTHxHEIGHTxFRAMES
	Steps   int      `json:"steps"`
	Rows    int64    `json:"rows"` // equal rows count once
	Batch   int      `json:"batch"`
	Sets    int      `json:"sets"`    // sets of devices that compute at the same time
	Workers int      `json:"workers"` // workers in a set
	Seconds *float64 `json:"seconds"`
	Fails   string   `json:"fails,omitempty"` // why such rows cannot be computed
}

// addPrediction adds devices and shapes.
func (f *layoutFacts) addPrediction(p forecast.Prediction) {
	f.Without = p.Silent
	for _, d := range p.Devices {
		f.Devices = append(f.Devices, deviceFacts{d.Name, d.Memory, d.Rate, d.Node, d.Host})
	}
	for _, l := range p.Layouts {
		one := shapeFacts{Shape: l.Shape.String(), Steps: l.Shape.NumInferenceSteps, Rows: l.Keys, Batch: l.Batch}
		if l.Fails != nil {
			one.Fails = l.Fails.Error()
		} else {
			seconds := l.Seconds()
			one.Seconds, one.Sets = &seconds, len(l.Best.Sets)
			if one.Sets > 0 {
				one.Workers = len(l.Best.Sets[0].Devices)
			}
		}
		f.Shapes = append(f.Shapes, one)
	}
	if p.Seconds > 0 {
		f.Seconds = &p.Seconds
	}
}

// stageFacts describe a stage that a job can name.
type stageFacts struct {
	Name    string `json:"name"`
	Takes   string `json:"takes"` // kind of rows; "any", or "as told" if the options of the stage decide
	Gives   string `json:"gives"` // kind of rows; "the same" as it takes, or "as told"
	Looks   bool   `json:"looks"` // it only reads results, so it is part of no key
	Version int    `json:"version"`
	Doc     string `json:"doc"`
}

// checkpointFacts describe one file of weights for inspect --json.
type checkpointFacts struct {
	File      string           `json:"file"`
	Format    string           `json:"format"`
	Bytes     int64            `json:"bytes"`
	Elements  int              `json:"elements"`
	Tensors   []tensorFacts    `json:"tensors,omitempty"` // with --tensors
	Types     map[string]int   `json:"types"`             // number of tensors by stored type
	Component string           `json:"component"`         // "": no known model
	Model     string           `json:"model"`
	Guessed   bool             `json:"guessed,omitempty"`        // from the tensors, because there is no config.json
	Original  bool             `json:"original_names,omitempty"` // tensors have the names of the model's original code
	Wanted    int              `json:"wanted,omitempty"`         // tensors that the model has
	Misfits   []weights.Misfit `json:"misfits"`
}

type tensorFacts struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
}

// inspectFacts is what inspect --json prints.
type inspectFacts struct {
	Schema int               `json:"schema"`
	Path   string            `json:"path"`
	Parts  []checkpointFacts `json:"parts,omitempty"`
	Marks  []marks.Found     `json:"marks,omitempty"` // of an mp4, png or jpeg
	Text   string            `json:"text"`            // what people read without --json
}

// addCheckpoint adds a file of weights.
func (f *inspectFacts) addCheckpoint(c *checkpoint.Checkpoint, found catalog.Finding, original, list bool) {
	one := checkpointFacts{File: c.File, Format: c.Format, Bytes: c.Size, Types: map[string]int{}, Component: found.Component,
		Model: found.Name, Guessed: found.Guessed, Original: original, Wanted: found.Wanted, Misfits: found.Misfits}
	for _, t := range c.Tensors {
		one.Types[t.Stored]++
		one.Elements += kernels.Elements(t.Shape)
		if list {
			one.Tensors = append(one.Tensors, tensorFacts{t.Name, t.DType, t.Shape})
		}
	}
	if one.Misfits == nil {
		one.Misfits = []weights.Misfit{}
	}
	f.Parts = append(f.Parts, one)
}

// exportFacts is what export --json prints.
type exportFacts struct {
	Schema int    `json:"schema"`
	Dir    string `json:"dir"`
	Format string `json:"format"`
	Rows   int64  `json:"rows"`
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	NoText int64  `json:"rows_without_text"`
}

// pullFacts is what pull --json prints.
type pullFacts struct {
	Schema  int      `json:"schema"`
	Repo    string   `json:"repo"`
	Commit  string   `json:"commit"`
	Licence string   `json:"licence,omitempty"` // "": the repository states none
	Terms   string   `json:"terms,omitempty"`
	Dir     string   `json:"dir"`
	Files   []string `json:"files"`
	Bytes   int64    `json:"bytes"`
	Fetched int      `json:"fetched"` // number of files that were downloaded; the others were cached
	LeftOut []string `json:"left_out"`
}

// factsOfPull fills a pullFacts.
func factsOfPull(r *hub.Pulled) pullFacts {
	names := func(files []hub.RepoFile) []string {
		all := make([]string, len(files))
		for i, f := range files {
			all[i] = f.Path
		}
		return all
	}
	return pullFacts{jsonSchema, r.Repo.String(), r.Commit, r.Licence, r.Terms, r.Dir, names(r.Files), int64(sizeOf(r.Files)), r.Fetched,
		names(r.LeftOut)}
}
