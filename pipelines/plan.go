package pipelines

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"

	"latentbeam/internal/engine"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/forecast"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Plan is what a run would do.
type Plan struct {
	forecast.Work // the rows that are to be computed

	Rows     int64 // input rows of this run, several videos of one prompt counted singly
	Done     int64 // computed by an earlier run
	Failed   int64 // failed in an earlier run, or not computable as they are
	Unusable int64 // of those, not computable as they are
	Away     int64 // of the unusable, that name a host which does not answer: the next run tries them
	Dropped  int64 // left out by the job's own rules
	Score    int64 // of those done: measures have not looked at them yet
	Blind    int64 // of those done: a measure could not look at them
	Loosened int64 // of the new rows: an earlier guard has left them out, and they are within the limits now
	// Reasons counts the dropped rows by the rule that leaves them out.
	Reasons map[string]int64
	// Clips counts the rows of each shape where the job cuts clips of its media, those that are done included.
	Clips map[schemas.Bucket]int64
	// First are the first of those that are not computable.
	First []report.Failed
	// Stale counts the results in the output that no row of the input asks for any more. Only Peek has it
	// counted, for that takes eight bytes a row, and only for the whole input.
	Stale int64
	// Vanished counts the rows that the finished output has and the input has not any more; 0 for a part of the input.
	Vanished int64
	// Warnings are what a person may not have meant: rows with one id, empty prompts, and prompts or sizes that the
	// built-in model was not trained on.
	Warnings []string
	// Notes say how the input was read, where a person may have meant something else.
	Notes []string
	// Input is a digest of the rows, their keys and outcomes.
	Input string

	undone      int64          // new rows that no earlier run has done
	firstUndone string         // place of the first of them
	firstBlind  string         // which, and why
	unusable    map[string]int // unusable rows by class and stage
	firstBad    string         // why the first of them is unusable
	firstMend   string         // place of the first unusable row that is not away

	changed changed // rows that are done under an earlier meaning
}

// Plan reads the whole input once and compares it with the ledger. Equal rows that are still to be
// computed count once each here; the run computes them once for all.
func (j *Job) Plan(ctx context.Context) (p Plan, err error) {
	if !j.peeking {
		return j.plan(ctx)
	}
	err = j.again(func() error {
		if !j.peeking { // it was read before, and has changed since
			if err := j.peek(ctx); err != nil {
				return err
			}
		}
		p, err = j.plan(ctx)
		return err
	})
	return p, err
}

// PlanAnew is the plan of the job as if it had no output yet. The job only looks at its output.
func (j *Job) PlanAnew(ctx context.Context) (Plan, error) {
	j.detach()
	j.engine.Store, j.engine.Ledger = nil, nil
	return j.plan(ctx)
}

func (j *Job) plan(ctx context.Context) (p Plan, err error) {
	s := survey{job: j, plan: &p, input: j.report.Digest(), names: report.CollectNames(j.report.Names)}
	p.Reasons, p.Clips = map[string]int64{}, map[schemas.Bucket]int64{}
	if j.engine.Ledger != nil {
		s.settled = j.engine.Ledger.Cursor()
		defer s.settled.Close()
	}
	last := j.engine.Schedule.Steps[len(j.engine.Schedule.Steps)-1].Gives
	shows := j.engine.Rules.Input != stages.KindMedia && last != stages.KindText
	s.doubt = forecast.NewDoubts(slices.Contains(j.engine.Rules.Params(), stages.ParamPrompt), shows, j.host.Model == "tiny" && j.draws())
	if j.peeking { // a run writes it into the rows
		s.doubt.CutTokens = j.cutTokens()
	}
	for e, err := range j.all(ctx) {
		if err == nil {
			err = s.see(e)
		}
		if err != nil {
			return p, err
		}
	}
	if p.Unusable > 0 {
		if err := source.NoHostAnswers(); err != nil {
			return p, err
		}
	}
	if err := j.conflict(ctx, s.names); err != nil {
		return p, err
	}
	p.Seal()
	if p.changed, err = j.changedMeanings(ctx, p); err != nil {
		return p, err
	}
	if p.Warnings, err = j.warnings(ctx, p, s.doubt); err != nil {
		return p, err
	}
	p.Notes = append(j.adapterNotes(), j.input.Notes()...)
	if p.Loosened > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d of the new rows were left out by a guard before and are within its limits now", p.Loosened))
	}
	if p.Blind > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d rows that are done lack readings, because a measure could not look at them (%s); `latentbeam "+
			"retry` tries again", p.Blind, p.firstBlind))
	}
	if p.Score > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d rows are done and get readings alone: no video of them is made anew", p.Score))
	}
	p.Input, p.First, p.Vanished = s.input.Sum(), s.unusable.First, j.vanished(ctx, p.Rows)
	if j.peeking && j.Opts.Limit == 0 {
		p.Stale, err = j.stale(ctx, s.asked)
	}
	return p, err
}

// survey makes a plan of the rows that it sees.
type survey struct {
	job      *Job
	plan     *Plan
	settled  *ledger.Cursor // nil: the output has no ledger
	input    *report.Digest
	names    *report.NameCollector
	unusable report.Totals
	doubt    *forecast.Doubts
	asked    []uint64 // first bytes of the keys that the ledger has; for one who only looks
}

// see takes the next row of the input.
func (s *survey) see(e *stages.Element) (err error) {
	p := s.plan
	s.names.Add(e)
	s.doubt.See(e)
	if !s.job.engine.Rules.Mine(e) {
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
			p.unusable, p.firstBad = map[string]int{}, engine.ReasonOf(e)
		}
		p.unusable[engine.FailureOf(e)]++
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
		if s.job.results.Loosened(e.Key) {
			p.Loosened++
		}
		p.never(e, s.job.engine.Earlier)
		s.doubt.New(e)
	case ledger.Done:
		p.Done++
	default:
		p.Failed++
	}
	if s.job.peeking && found != ledger.Absent {
		s.asked = append(s.asked, binary.BigEndian.Uint64(e.Key[:]))
	}
	s.input.Add(e, found)
	return nil
}

// status says what the ledger has of a row.
func (s *survey) status(e *stages.Element) (ledger.Status, error) {
	if s.settled == nil {
		return ledger.Absent, nil
	}
	book := s.job.engine.Book
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
	}
	if len(e.LookFailed) > 0 {
		if s.plan.Blind++; s.plan.Blind == 1 {
			s.plan.firstBlind = e.Given.Source + ": " + e.FirstLookFailure()
		}
	}
	return rec.Status, err
}

// warnings are what a person may not have meant.
func (j *Job) warnings(ctx context.Context, p Plan, doubt *forecast.Doubts) ([]string, error) {
	all, err := doubt.Warnings(j.all(ctx))
	if !j.elsewhere() && j.local.Size() > 0 { // else others compute
		all = append(all, forecast.DoubtfulPrograms(j.Config, j.Opts.Specs, j.engine.Schedule.Pool.Size())...)
	}
	if why := j.otherClass(p); why != "" {
		all = append(all, why+": a run needs --new-class")
	}
	if why := p.changed.String(); why != "" {
		all = append(all, why+": a run needs the line, or --new-meaning")
	}
	all = append(all, j.input.Warnings()...)
	if why := j.unwritten(); why != "" {
		all = append(all, why)
	}
	return all, err
}

// Mend says which rows of the input people have to mend; "": none.
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

// unwritten says which stage gives a text that nobody takes and the output does not get, "" for none.
func (j *Job) unwritten() string {
	for i, s := range j.engine.Schedule.Steps {
		taken := slices.ContainsFunc(j.engine.Schedule.Steps[i+1:], func(o stages.Step) bool { return o.Spec.In == stages.KindText })
		if s.Gives == stages.KindText && !taken && !j.engine.Keep[stages.KindText] {
			write := strings.Join(j.Config.Output.Write, ", ")
			return fmt.Sprintf("%s makes text embeddings that are not written: the output gets [%s]; write: [%[2]s, embeddings] keeps them", s.Name, write)
		}
	}
	return ""
}

// never counts a new row, unless an earlier run has done it.
func (p *Plan) never(e *stages.Element, earlier func(schemas.Key) bool) {
	if earlier != nil && earlier(e.Key) {
		return
	}
	if p.undone++; p.undone == 1 {
		p.firstUndone = path.Base(e.Given.Source)
	}
}

// mends is an error where a plan does more than to mend what earlier runs have done.
func (j *Job) mends(p Plan) error {
	if p.undone == 0 {
		return nil
	}
	out := j.engine.Store.URL()
	return fault.Usage(fmt.Errorf("a repair makes anew what earlier runs have done, and %d of the %d rows of the job have never been done "+
		"under the keys that they have now: the job, or a file that it depends on, has changed, or the job was not run to its end. "+
		"Nothing was computed. `latentbeam explain %s %s` says what has changed; undo that, and repair again. Or run the job "+
		"(`latentbeam run %s`), which computes these rows and mends what it still needs", p.undone, p.Rows, out, p.firstUndone,
		j.Opts.Start.File))
}

// adapterNotes says what each adapter adds to.
func (j *Job) adapterNotes() (notes []string) {
	for _, a := range j.host.Adapters {
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

// cutTokens returns the function of the stage that cuts prompts, nil where none does.
func (j *Job) cutTokens() func(row *schemas.PromptRow) int {
	for _, s := range j.engine.Schedule.Steps {
		if cut := s.Capabilities().CutTokens; cut != nil {
			return cut
		}
	}
	return nil
}

// Remarks are what the stages say of the rows that are to be computed, each once.
func (j *Job) Remarks(p Plan) (all []string) {
	for _, b := range p.Buckets {
		for _, s := range j.engine.Schedule.Steps {
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

// draws reports whether the model makes pictures from prompts in this job.
func (j *Job) draws() bool {
	return slices.ContainsFunc(j.engine.Schedule.Steps, func(s stages.Step) bool { return s.Spec.Name == "denoise" }) &&
		j.engine.Rules.Input == stages.KindPrompt
}

// conflict is an error where two rows have one name; it reads the input again to say which.
func (j *Job) conflict(ctx context.Context, names *report.NameCollector) error {
	if err := names.Unknown(); err != nil {
		return j.Config.Errorf("output.name", "%v", err)
	}
	first, second, found := names.Conflict()
	if !found {
		return nil
	}
	var a *stages.Element
	at := uint64(0)
	for e, err := range j.all(ctx) {
		if err != nil {
			return err
		}
		if at == first {
			a = e
		}
		if at == second && a != nil {
			return j.Config.Errorf("output.name", "%v", report.ConflictError(j.report.Names, a, e))
		}
		at++
	}
	return nil
}

// vanished counts the rows of the report of an earlier run that are more than those of the input.
func (j *Job) vanished(ctx context.Context, rows int64) int64 {
	if j.Opts.Limit > 0 || j.report.Part != "" || j.engine.Store == nil {
		return 0
	}
	s, err := report.ReadSummary(ctx, j.engine.Store, j.report.SummaryName())
	if err != nil || s.State != report.Complete {
		return 0
	}
	return max(0, s.Totals.Rows-rows)
}

// stale counts the keys of this shard in the ledger that are not asked for, by their first eight bytes.
func (j *Job) stale(ctx context.Context, asked []uint64) (n int64, err error) {
	slices.Sort(asked)
	err = j.engine.Ledger.Each(ctx, func(_ ledger.Ref, r ledger.Record) error {
		mine := j.engine.Rules.Mine(&stages.Element{Key: schemas.Key(r.Key)})
		if _, found := slices.BinarySearch(asked, binary.BigEndian.Uint64(r.Key[:])); mine && !found {
			n++
		}
		return nil
	})
	return n, err
}

// upToDate returns the summary of that name where an earlier run left a complete report of exactly these rows, whose
// files are as it wrote them.
func (j *Job) upToDate(ctx context.Context, name string, p Plan) (report.Summary, bool) {
	if p.New > 0 || p.Score > 0 {
		return report.Summary{}, false
	}
	s, err := report.ReadSummary(ctx, j.engine.Store, name)
	whole := s.State == report.Complete || s.State == report.Limited && s.Limit == j.Opts.Limit
	if data, err := store.ReadFile(ctx, j.engine.Store, name); err != nil || !j.report.Output.HasWritten(name, data) {
		return s, false
	}
	same := err == nil && whole && s.Input == p.Input
	if same && report.OldPlaces(s.Files) {
		slog.Info("the tables of an earlier release move to a folder each, as tables/videos/00000.parquet")
		return s, false
	}
	return s, same && j.report.AsWritten(ctx, s.Files, j.look())
}

// drop counts a row that the job's own rules leave out. The rule stands at the end of the message.
func (p *Plan) drop(e *stages.Element) {
	p.Dropped++
	rule := e.Failed.Message[strings.LastIndexByte(e.Failed.Message, '(')+1:]
	p.Reasons[strings.TrimSuffix(rule, ")")]++
}
