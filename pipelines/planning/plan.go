// Package planning plans a run: which rows of the input it computes, what the user should know before, and whether the options allow
// its work.
package planning

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/host"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/source"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/input"
	"latentbeam/pipelines/jobfile"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Plan describes what a run would do.
type Plan struct {
	forecast.Work // rows to compute

	Rows     int64         // input rows of this run; each video of a prompt counts
	Done     int64         // rows computed by earlier runs
	Failed   int64         // rows that failed in earlier runs, and unusable rows
	Unusable int64         // rows that cannot be computed as they are
	Away     int64         // unusable rows that name a host which does not answer; the next run tries them
	Dropped  int64         // rows that rules of the job leave out
	Score    int64         // finished rows for which measures are missing
	Scores   forecast.Work // the rows of Score
	Blind    int64         // finished rows that a measure could not read
	Loosened int64         // new rows that an earlier guard dropped and the current limits allow
	// Reasons counts the dropped rows by rule.
	Reasons map[string]int64
	// Clips counts the rows of each shape, including finished ones, if the job cuts clips from its media.
	Clips map[schemas.Bucket]int64
	// First lists the first unusable rows.
	First []report.Failed
	// Stale counts the results in the output that belong to no row of the input. It is set only if the output is open for
	// reading, because it needs eight bytes of memory per row, and only for the whole input.
	Stale int64
	// Vanished counts the rows of the finished output that the input no longer has; 0 for a part of the input.
	Vanished int64
	// Warnings are about what the user may not have intended: rows with the same id, empty prompts, and prompts or sizes on which
	// the built-in model was not trained.
	Warnings []string
	// Lacks says which parts of the model are missing (Options.PlanOnly); "": none. It is also one of Warnings.
	Lacks string
	// Notes say how the input was read, if the user may have meant something else, and which options are experimental.
	Notes []string
	// Remarks are remarks of the stages about the rows to compute, without duplicates.
	Remarks []string
	// UnusableBy counts the unusable rows by "class/stage". FirstBad says why the first of them is unusable.
	UnusableBy map[string]int
	FirstBad   string
	// Input is a digest of the rows, their keys and outcomes.
	Input string

	undone      int64  // number of new rows that no earlier run has done
	firstUndone string // place of the first of these rows
	firstBlind  string // place of the first row of Blind, and the reason
	firstMend   string // place of the first unusable row that is not in Away

	changed changed // rows that are done with an earlier meaning
}

// Planner makes the plan of a job.
type Planner struct {
	Config   *config.Config
	Specs    []stages.Spec // the catalogue
	Start    jobfile.Start // start of the job
	Limit    int           // number of rows to read from the input; 0: all
	NameAll  bool          // makes Plan.First list all unusable rows
	Engine   *engine.Engine
	Host     *host.Stages
	Input    *input.Input
	Rows     input.Rows
	Report   *report.Job
	Loosened func(schemas.Key) bool // reports whether a row is computed because limits of a guard have become less strict
	Reading  bool                   // the output is open for reading only
	Others   bool                   // other processes compute the rows
	Consent  Consent
	Looked   *atomic.Int64 // number of input rows that Plan has read
}

// Plan reads the whole input once and compares it with the ledger. Each of several equal rows counts in the plan,
// although the run computes only one of them.
func (l *Planner) Plan(ctx context.Context) (p Plan, err error) {
	s := survey{Planner: l, plan: &p, unusable: report.Totals{NameAll: l.NameAll}, input: l.Report.Digest(), names: report.CollectNames(l.Report.Names)}
	p.Reasons, p.Clips = map[string]int64{}, map[schemas.Bucket]int64{}
	if l.Engine.Ledger != nil {
		s.settled = l.Engine.Ledger.Cursor()
		defer s.settled.Close()
	}
	last := l.Engine.Schedule.Steps[len(l.Engine.Schedule.Steps)-1].Gives
	shows := l.Engine.Rules.Input != stages.KindMedia && last != stages.KindText
	captions := slices.ContainsFunc(l.Engine.Schedule.Steps, func(s stages.Step) bool { return s.Gives == stages.KindPrompt })
	s.doubt = forecast.NewDoubts(slices.Contains(l.Engine.Rules.Params(), stages.ParamPrompt) && !captions, shows, l.Host.Model == "tiny" && l.generates())
	if l.Reading { // a run writes the number of cut tokens into the rows instead
		s.doubt.CutTokens = l.cutTokens()
	}
	l.Looked.Store(0)
	for e, err := range l.Rows.All(ctx) {
		if err == nil {
			err = s.add(e)
		}
		l.Looked.Add(1)
		if err != nil {
			return p, err
		}
	}
	if p.Unusable > 0 {
		if err := source.NoHostAnswers(); err != nil {
			return p, err
		}
	}
	if err := l.conflict(ctx, s.names); err != nil {
		return p, err
	}
	p.Seal()
	p.Scores.Seal()
	if p.changed, err = l.meanings().changed(ctx, p); err != nil {
		return p, err
	}
	if p.Warnings, err = l.warnings(ctx, p, s.doubt); err != nil {
		return p, err
	}
	p.Remarks = l.remarks(p)
	p.Notes = slices.Concat(l.adapterNotes(), l.experimental(), l.Input.Notes())
	if lacks := l.Host.Lacks; len(lacks) > 0 {
		p.Lacks = fmt.Sprintf("not here: %s; memory and time are those of the model's configurations, and rows that an output has are not "+
			"recognised", strings.Join(lacks, ", "))
		p.Warnings = append(p.Warnings, p.Lacks)
	}
	if p.Loosened > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d of the new rows were dropped by a guard before and are within its limits now", p.Loosened))
	}
	if p.Blind > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d finished rows lack readings, because a measure could not read their results (%s); `latentbeam "+
			"retry` tries again", p.Blind, p.firstBlind))
	}
	if p.Score > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d finished rows get only readings: their videos are not made again", p.Score))
	}
	p.Input, p.First, p.Vanished = s.input.Sum(), s.unusable.First, l.vanished(ctx, p.Rows)
	if l.Reading && l.Limit == 0 {
		p.Stale, err = l.stale(ctx, s.asked)
	}
	return p, err
}

// meanings returns the meanings that find rows of earlier interpretations.
func (l *Planner) meanings() *meanings {
	return &meanings{config: l.Config, start: l.Start, specs: l.Specs, input: l.Input, rows: l.Rows, ledger: l.Engine.Ledger}
}

// Log logs the warnings and notes of the plan.
func (p *Plan) Log(ctx context.Context) {
	if p.Vanished > 0 {
		slog.Warn("the input has lost rows of the finished output: the tables lose them now, their videos and results stay",
			"lost", p.Vanished, "left", p.Rows)
	}
	for _, w := range p.Warnings {
		slog.Warn(w)
	}
	for _, note := range p.Notes {
		slog.Log(ctx, source.LevelNotice, note)
	}
}

// survey collects a plan row by row.
type survey struct {
	*Planner
	plan     *Plan
	settled  *ledger.Cursor // nil: the output has no ledger
	input    *report.Digest
	names    *report.NameCollector
	unusable report.Totals
	doubt    *forecast.Doubts
	asked    []uint64 // first bytes of the keys that the ledger has, only for Reading
}

// add adds the next row of the input.
func (s *survey) add(e *stages.Element) (err error) {
	p := s.plan
	s.names.Add(e)
	s.doubt.See(e)
	if !s.Engine.Rules.Mine(e) {
		return nil
	}
	p.Rows++
	found := ledger.Failed
	switch {
	case e.Failed.IsDropped():
		p.drop(e)
		s.input.Add(e, found)
		return nil
	case e.Failed != nil:
		if p.Unusable++; p.Unusable == 1 {
			p.UnusableBy, p.FirstBad = map[string]int{}, engine.ReasonOf(e)
		}
		p.UnusableBy[engine.FailureOf(e)]++
		if e.Failed.Class == fault.ClassRetry {
			p.Away++
		} else if p.firstMend == "" {
			p.firstMend = e.Given.Source
		}
		s.unusable.Name(e.Given.Source, e.Failed.Stage, e.Failed.Message)
	default:
		if e.Row.Cut != nil {
			p.Clips[schemas.Bucket{Width: e.Row.Width, Height: e.Row.Height, NumFrames: e.Row.NumFrames}]++
		}
		if found, err = s.status(e); err != nil {
			return err
		}
	}
	switch found {
	case ledger.Absent:
		p.Add(e)
		if s.Loosened(e.Key) {
			p.Loosened++
		}
		p.countUndone(e, s.Engine.Earlier)
		s.doubt.New(e)
	case ledger.Done:
		p.Done++
	default:
		p.Failed++
	}
	if s.Reading && found != ledger.Absent {
		s.asked = append(s.asked, binary.BigEndian.Uint64(e.Key[:]))
	}
	s.input.Add(e, found)
	return nil
}

// status returns the status of a row in the ledger. It also counts missing measures.
func (s *survey) status(e *stages.Element) (ledger.Status, error) {
	if s.settled == nil {
		return ledger.Absent, nil
	}
	book := s.Engine.Book
	if book == nil || !book.Looks() {
		return s.settled.Status(ledger.Key(e.Key))
	}
	rec, err := s.settled.Find(ledger.Key(e.Key))
	if err != nil || rec.Status != ledger.Done {
		return rec.Status, err
	}
	var r schemas.Result
	if err := json.Unmarshal(rec.Row, &r); err != nil {
		return rec.Status, fmt.Errorf("read ledger record %s: %w", e.Key, err)
	}
	lacking, err := book.Recall(e, &r)
	if lacking {
		s.plan.Score++
		s.plan.Scores.Add(e)
	}
	if len(e.LookFailed) > 0 {
		if s.plan.Blind++; s.plan.Blind == 1 {
			s.plan.firstBlind = e.Given.Source + ": " + e.FirstLookFailure()
		}
	}
	return rec.Status, err
}

// warnings returns the warnings about what the user may not have intended.
func (l *Planner) warnings(ctx context.Context, p Plan, doubt *forecast.Doubts) ([]string, error) {
	all, err := doubt.Warnings(l.Rows.All(ctx))
	if !l.Others {
		all = append(all, forecast.DoubtfulPrograms(l.Config, l.Specs, l.Engine.Schedule.Pool.Size())...)
	}
	if why := l.Consent.otherClass(p); why != "" {
		all = append(all, why+": a run needs --new-class")
	}
	if why := p.changed.String(); why != "" {
		all = append(all, why+": a run needs the line, or --new-meaning")
	}
	all = append(all, l.Input.Warnings()...)
	if why := l.unwritten(); why != "" {
		all = append(all, why)
	}
	return all, err
}

// Mend returns a text that says which rows of the input the user has to correct; "": none.
func (p *Plan) Mend() string {
	switch n := p.Unusable - p.Away; {
	case n < 1:
		return ""
	case n == 1:
		return "mend " + p.firstMend
	default:
		return fmt.Sprintf("mend %s and %d more", p.firstMend, n-1)
	}
}

// unwritten returns a warning about a stage whose text embeddings no stage reads and the output does not get; "": none.
func (l *Planner) unwritten() string {
	for i, s := range l.Engine.Schedule.Steps {
		taken := slices.ContainsFunc(l.Engine.Schedule.Steps[i+1:], func(o stages.Step) bool { return o.Spec.In == stages.KindText })
		if s.Gives == stages.KindText && !taken && !l.Engine.Keep[stages.KindText] {
			write := strings.Join(l.Config.Output.Write, ", ")
			return fmt.Sprintf("%s makes text embeddings that are not written: the output gets [%s]; write: [%[2]s, embeddings] keeps them", s.Name, write)
		}
	}
	return ""
}

// countUndone counts a new row as undone, unless an earlier run has done it.
func (p *Plan) countUndone(e *stages.Element, earlier func(schemas.Key) bool) {
	if earlier != nil && earlier(e.Key) {
		return
	}
	if p.undone++; p.undone == 1 {
		p.firstUndone = path.Base(e.Given.Source)
	}
}

// adapterNotes returns a note for each adapter that says which weights it changes.
func (l *Planner) adapterNotes() (notes []string) {
	for _, a := range l.Host.Adapters {
		note := fmt.Sprintf("LoRA %s: %s", a.File, a.Text)
		if a.Scale != 1 {
			note += fmt.Sprintf("; scale %g", a.Scale)
		}
		if a.Expert != "" {
			note += "; expert " + a.Expert
		}
		notes = append(notes, note)
	}
	return notes
}

// experimental returns a note for each option whose approximation has a large or unknown loss.
func (l *Planner) experimental() (notes []string) {
	for _, s := range l.Host.Steps {
		for _, a := range s.Experimental() {
			notes = append(notes, fmt.Sprintf("experimental: %s of %s gives other results than without it: %s; see docs/%s", a.Key(), s.Name, a.Loss(), a.Page))
		}
	}
	return notes
}

// cutTokens returns the function of a stage that counts the tokens cut off a prompt; nil: no stage cuts prompts.
func (l *Planner) cutTokens() func(row *schemas.PromptRow) int {
	for _, s := range l.Engine.Schedule.Steps {
		if cut := s.Capabilities().CutTokens; cut != nil {
			return cut
		}
	}
	return nil
}

// remarks returns the remarks of the stages about the rows to compute, without duplicates.
func (l *Planner) remarks(p Plan) (all []string) {
	for _, b := range p.Buckets {
		for _, s := range l.Engine.Schedule.Steps {
			remark := s.Capabilities().Remark
			if remark == nil {
				continue
			}
			if text := remark(&b.First); text != "" && !slices.Contains(all, s.Name+": "+text) {
				all = append(all, s.Name+": "+text)
			}
		}
	}
	return all
}

// generates reports whether the job generates videos or images from prompts.
func (l *Planner) generates() bool {
	return slices.ContainsFunc(l.Engine.Schedule.Steps, func(s stages.Step) bool { return s.Spec.Name == "denoise" }) &&
		l.Engine.Rules.Input == stages.KindPrompt
}

// conflict returns an error if two rows have the same name. It reads the input again to find these rows.
func (l *Planner) conflict(ctx context.Context, names *report.NameCollector) error {
	if err := names.Unknown(); err != nil {
		return l.Config.Errorf("output.name", "%v", err)
	}
	first, second, found := names.Conflict()
	if !found {
		return nil
	}
	var a *stages.Element
	at := uint64(0)
	for e, err := range l.Rows.All(ctx) {
		if err != nil {
			return err
		}
		if at == first {
			a = e
		}
		if at == second && a != nil {
			return l.Config.Errorf("output.name", "%v", report.ConflictError(l.Report.Names, a, e))
		}
		at++
	}
	return nil
}

// vanished returns by how many rows the report of an earlier run exceeds the input.
func (l *Planner) vanished(ctx context.Context, rows int64) int64 {
	if l.Limit > 0 || l.Report.Part != "" || l.Engine.Store == nil {
		return 0
	}
	s, err := report.ReadSummary(ctx, l.Engine.Store, l.Report.SummaryName())
	if err != nil || s.State != report.Complete {
		return 0
	}
	return max(0, s.Totals.Rows-rows)
}

// stale counts the keys of this shard in the ledger whose first eight bytes are not in asked.
func (l *Planner) stale(ctx context.Context, asked []uint64) (n int64, err error) {
	slices.Sort(asked)
	err = l.Engine.Ledger.Each(ctx, func(_ ledger.Ref, r ledger.Record) error {
		mine := l.Engine.Rules.Mine(&stages.Element{Key: schemas.Key(r.Key)})
		if _, found := slices.BinarySearch(asked, binary.BigEndian.Uint64(r.Key[:])); mine && !found {
			n++
		}
		return nil
	})
	return n, err
}

// drop counts a dropped row by its rule, which is at the end of the message.
func (p *Plan) drop(e *stages.Element) {
	p.Dropped++
	rule := e.Failed.Message[strings.LastIndexByte(e.Failed.Message, '(')+1:]
	p.Reasons[strings.TrimSuffix(rule, ")")]++
}
