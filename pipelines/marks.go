package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/results/marking"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// encodeVideo is the stage whose files are marked. What a program gives stays as the program wrote it.
const encodeVideo = "encode_video"

// outputMarks decides which marks of synthetic media the files of an output carry.
type outputMarks struct {
	asked  config.Marks // by the job
	follow bool         // the output's record holds, whatever the job asks for
	engine *engine.Engine
	rows   func(context.Context) iter.Seq2[*stages.Element, error] // of all shards
}

// marks is what decides on the marks of the job's output.
func (j *Job) marks() *outputMarks {
	return &outputMarks{asked: j.Config.MarksOf(encodeVideo), follow: j.Opts.AsRecorded || j.Opts.Repair || j.Opts.Retry, engine: j.engine,
		rows: j.all}
}

// concerned says that the job publishes files of encode_video.
func (m *outputMarks) concerned() bool {
	return m.engine.Keep[stages.KindVideo] && m.has(encodeVideo)
}

func (m *outputMarks) has(stage string) bool {
	return slices.ContainsFunc(m.engine.Schedule.Steps, func(s stages.Step) bool { return s.Spec.Name == stage })
}

// decide says which marks the files carry: as the output's record says; an output that has rows and no record has none; a new one gets
// what the job asks for. fresh is that nothing is recorded yet.
func (m *outputMarks) decide(ctx context.Context) (r marking.Record, fresh bool, err error) {
	r, recorded, err := marking.Read(ctx, m.engine.Store)
	if err != nil {
		return r, false, err
	}
	url := m.engine.Store.URL()
	if r.Changing {
		return r, false, fault.Usage(fmt.Errorf("output %s: `latentbeam mark` was interrupted there, so some files have other marks than "+
			"their records say; run it again, it goes on: latentbeam mark %s", url, url))
	}
	if !recorded {
		begun, err := m.begun(ctx)
		if err != nil {
			return r, false, err
		}
		if !begun {
			return marking.RecordOf(m.wanted()), true, nil
		}
	}
	if m.asked.Given && !m.asked.Equal(r.Asked()) && !m.follow {
		return r, false, fault.Usage(fmt.Errorf("the job asks for the marks %v, and the files of output %s have %v; make them alike: "+
			"`latentbeam mark %s --marks NAMES` changes the files, without encoding, or write marks: %v in the job",
			m.asked, url, r.Asked(), url, r.Asked()))
	}
	return r, false, nil
}

// wanted are the marks of a new output: what the job says, else both where its denoiser makes the frames.
func (m *outputMarks) wanted() config.Marks {
	if !m.asked.Given && m.has("denoise") {
		return config.Marks{IPTC: true, AIGC: true}
	}
	return m.asked
}

// begun says that the output has videos or settled rows.
func (m *outputMarks) begun(ctx context.Context) (bool, error) {
	if m.engine.Ledger.Len() > 0 {
		return true, nil
	}
	for _, err := range m.engine.Store.List(ctx, "videos/", store.Deep) {
		return err == nil, err
	}
	return false, nil
}

// check refuses a job that asks for other marks than the files of its output have.
func (m *outputMarks) check(ctx context.Context) error {
	if !m.concerned() {
		return nil
	}
	_, _, err := m.decide(ctx)
	return err
}

// begin records the marks of a new output, before its first row, and makes the engine put on what is recorded.
func (m *outputMarks) begin(ctx context.Context) error {
	m.engine.Marks = nil
	if !m.concerned() {
		return nil
	}
	r, fresh, err := m.decide(ctx)
	if err != nil {
		return err
	}
	if fresh && len(r.Marks) > 0 {
		if r, err = marking.Decide(ctx, m.engine.Store, r); err != nil {
			return err
		}
	}
	if maker := m.maker(); fresh && len(r.Marks) == 0 && !m.asked.Given && maker != "" {
		slog.Log(ctx, source.LevelNotice, "videos get no marks of synthetic media, because it is not known whether a model made their frames; "+
			"where one did, write marks: [iptc, aigc] under encode_video (docs/marking.md)", "frames_of", maker)
	}
	m.use(r)
	return nil
}

// maker is what may have generated the frames of a job without denoise: "" where nothing may.
func (m *outputMarks) maker() string {
	if m.engine.Rules.Input == stages.KindLatents {
		return "tables of latents"
	}
	return stages.FirstProgram(m.engine.Schedule.Steps)
}

// recorded makes the engine of a worker mark files as the submitter has decided.
func (m *outputMarks) recorded(ctx context.Context) error {
	if !m.concerned() {
		return nil
	}
	r, _, err := marking.Read(ctx, m.engine.Store)
	if err == nil {
		m.use(r)
	}
	return err
}

// use makes the engine mark files as a record says.
func (m *outputMarks) use(r marking.Record) {
	if len(r.Marks) > 0 {
		m.engine.Marks = m.marker(r)
	}
}

// marker puts on the marks of a record. What no key depends on does not decide what is in a file.
func (m *outputMarks) marker(r marking.Record) *marking.Marker {
	params := m.engine.Rules.Params()
	references, media := slices.Contains(params, stages.ParamReference), slices.Contains(params, stages.ParamMedia)
	return &marking.Marker{Record: r, Composite: func(row *schemas.PromptRow) bool {
		return references && row.Reference != "" || media && row.Media != ""
	}}
}

// change gives the files of an output other marks. Where they are not given, it goes on with a change that was cut off, or gives iptc
// and aigc. The summaries go first, so that a run that finds the change done writes the tables anew.
func (m *outputMarks) change(ctx context.Context, s store.Store, to config.Marks) (done marking.Changed, err error) {
	was, _, err := marking.Read(ctx, s)
	if err != nil && !to.Given {
		return done, err
	}
	if !to.Given {
		to = config.Marks{Given: true, IPTC: true, AIGC: true}
		if was.Changing {
			to = was.Asked()
		}
	}
	l, err := ledger.Open(ctx, s)
	if err != nil {
		return done, err
	}
	defer l.Close()
	names, err := store.Names(ctx, s, "", store.Flat)
	if err != nil {
		return done, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "summary.json") {
			if err := s.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return done, err
			}
		}
	}
	return marking.Change(ctx, s, l, m.marker(marking.RecordOf(to)), m.rows(ctx))
}

// Mark gives the files of the output the marks that are asked for, without encoding, and writes tables and pages anew. Where asked is
// not given, it goes on with a change that was cut off, or gives iptc and aigc. The job is open and has no output yet.
func (j *Job) Mark(ctx context.Context, asked config.Marks) (done marking.Changed, err error) {
	j.identify()
	began := time.Now()
	s, err := j.openOutput(ctx, j.Opts.outputs.write)
	if err != nil {
		return done, err
	}
	if err := j.alone(s); err != nil {
		return done, err
	}
	release, err := j.lock(ctx, s)
	if err != nil {
		return done, err
	}
	j.close = append(j.close, release)
	if done, err = j.marks().change(ctx, s, asked); err != nil { // before anything is found damaged
		return done, err
	}
	if err := j.use(ctx, s, true); err != nil {
		return done, err
	}
	if err := j.begin(ctx); err != nil {
		return done, err
	}
	return done, j.finish(ctx, &Result{}, began, 0)
}
