package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/media/c2pa"
	"latentbeam/internal/media/timestamp"
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
	asked    config.Marks // by the job
	follow   bool         // the output's record holds, whatever the job asks for
	computes bool         // files are published or signed, so a key is needed
	dir      string       // that relative paths of the job are relative to
	model    string       // its name
	engine   *engine.Engine
	rows     rows
}

// marks is what decides on the marks of the job's output; computes says that files are to be published.
func (j *Job) marks(computes bool) *outputMarks {
	return &outputMarks{computes: computes, asked: j.Config.MarksOf(encodeVideo), follow: j.Opts.AsRecorded || j.Opts.Repair || j.Opts.Retry, engine: j.engine,
		dir: j.Opts.Start.Directory(), model: j.host.Model, rows: j.rows}
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
			r, _, err = m.recordOf(ctx, m.wanted())
			return r, true, err
		}
	}
	if m.asked.Given && !m.asked.Equal(r.Asked()) && !m.follow {
		return r, false, fault.Usage(fmt.Errorf("the job asks for the marks %v, and the files of output %s have %v; make them alike: "+
			"`latentbeam mark %s --marks NAMES` changes the files, without encoding, or write marks: %v in the job",
			m.asked, url, r.Asked(), url, r.Asked()))
	}
	if !r.Asked().C2PA || !m.computes {
		return r, false, nil
	}
	own, _, err := m.recordOf(ctx, m.asked)
	switch {
	case err != nil:
		return r, false, err
	case !m.asked.C2PA:
		err = fault.Usage(fmt.Errorf("the files of output %s are signed, and the job names no key: write c2pa with its certificate and key "+
			"into the marks of encode_video", url))
	case own.Certificate != r.Certificate:
		err = fault.Usage(fmt.Errorf("the files of output %s are signed with the certificate of SHA-256 %s, the job names that of %s: "+
			"`latentbeam mark %s --marks NAMES --certificate FILE --key FILE` signs all files anew", url, r.Certificate, own.Certificate, url))
	}
	return r, false, err
}

// recordOf is the record of marks, and what signs them; nil where nothing does.
func (m *outputMarks) recordOf(ctx context.Context, asked config.Marks) (marking.Record, *c2pa.Signer, error) {
	r := marking.RecordOf(asked)
	if !asked.C2PA {
		return r, nil, nil
	}
	signer, err := m.signer(asked)
	if err != nil {
		return r, nil, fault.Usage(fmt.Errorf("encode_video: marks: c2pa: %w", err))
	}
	if a := asked.TimeStampAuthority; a != "" {
		authority := timestamp.New(a)
		signer = signer.WithTimeStamps(func(message []byte) ([]byte, error) { return authority.Stamp(ctx, message) })
	}
	r.Certificate, r.Models = signer.Certificate(), map[string]string{m.engine.Rules.Weights(): m.model}
	return r, signer, nil
}

// signer opens the certificate and the key of the job.
func (m *outputMarks) signer(asked config.Marks) (*c2pa.Signer, error) {
	if asked.Certificate == "" || asked.Key == "" {
		return nil, errors.New("certificate and key are both needed: the paths of two files in PEM")
	}
	certificate, err := os.ReadFile(config.Absolute(m.dir, asked.Certificate))
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	key, err := os.ReadFile(config.Absolute(m.dir, asked.Key))
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return c2pa.NewSigner(certificate, key)
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
	if !m.computes {
		unsigned, err := m.unsigned(ctx)
		if err != nil {
			return err
		}
		m.computes = unsigned
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
	if weights := m.engine.Rules.Weights(); r.Asked().C2PA && r.Models[weights] == "" { // another model than before
		models := maps.Clone(r.Models)
		if models == nil {
			models = map[string]string{}
		}
		models[weights] = m.model
		r.Models = models
		if err := r.Write(ctx, m.engine.Store); err != nil {
			return err
		}
	}
	signer, err := m.signerOf(ctx, r)
	if err != nil {
		return err
	}
	if signer != nil && r.TimeStampAuthority != "" { // what is wrong with it is told before the first row
		if _, err := timestamp.New(r.TimeStampAuthority).Stamp(ctx, []byte(marking.Name)); err != nil {
			return err
		}
	}
	m.use(r, signer)
	return nil
}

// unsigned reports whether videos of done rows wait for their signature, which an earlier run could not give.
func (m *outputMarks) unsigned(ctx context.Context) (bool, error) {
	if !m.concerned() {
		return false, nil
	}
	r, _, err := marking.Read(ctx, m.engine.Store)
	if err != nil {
		return false, err
	}
	return r.Unsigned(ctx, m.engine.Ledger, m.rows.mine(ctx))
}

// signerOf opens what signs as a record says; nil where it does not sign.
func (m *outputMarks) signerOf(ctx context.Context, r marking.Record) (*c2pa.Signer, error) {
	if !r.Asked().C2PA || !m.computes {
		return nil, nil
	}
	_, signer, err := m.recordOf(ctx, m.asked)
	return signer, err
}

// maker is what may have generated the frames of a job without denoise: "" where nothing may.
func (m *outputMarks) maker() string {
	if m.engine.Rules.Input == stages.KindLatents {
		return "tables of latents"
	}
	return stages.FirstProgram(m.engine.Schedule.Steps)
}

// recorded makes the engine of a worker mark files as the submitter has decided. Where the key is not on this host, the submitter signs
// at the end.
func (m *outputMarks) recorded(ctx context.Context) error {
	if !m.concerned() {
		return nil
	}
	r, _, err := marking.Read(ctx, m.engine.Store)
	if err != nil {
		return err
	}
	if r.TimeStampAuthority != "" { // the submitter signs
		m.use(r, nil)
		return nil
	}
	signer, err := m.signerOf(ctx, r)
	if errors.Is(err, fs.ErrNotExist) {
		slog.Info("the key is not on this host: the submitter signs the videos at the end")
		signer, err = nil, nil
	}
	if err == nil && signer != nil && signer.Certificate() != r.Certificate {
		err = fault.Usage(errors.New("the certificate of the job is another one on this host than where it was submitted"))
	}
	if err == nil {
		m.use(r, signer)
	}
	return err
}

// sign signs the files that were published without a signature: by workers, where away, or because a time stamp authority is asked
// for each. A run that is to stop leaves them to the next one.
func (m *outputMarks) sign(ctx context.Context, away bool) error {
	marker, stopped := m.engine.Marks, m.engine.Schedule.Stopped()
	if marker == nil || marker.Signer == nil || marker.SignsAtOnce() && !away {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(stopped, func() { cancel(context.Cause(stopped)) })()
	_, err := marking.Sign(ctx, m.engine.Store, m.engine.Ledger, marker, m.rows.mine(ctx))
	if stopped.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sign videos: %w; those without a signature are published: run the job again, which signs them", err)
	}
	return nil
}

// use makes the engine mark files as a record says.
func (m *outputMarks) use(r marking.Record, signer *c2pa.Signer) {
	if len(r.Marks) > 0 {
		m.engine.Marks = m.marker(r, signer)
	}
}

// marker puts on the marks of a record. What no key depends on does not decide what is in a file.
func (m *outputMarks) marker(r marking.Record, signer *c2pa.Signer) *marking.Marker {
	params := m.engine.Rules.Params()
	depends := func(p stages.Param) bool { return slices.Contains(params, p) }
	return &marking.Marker{Record: r, Signer: signer, Weights: m.engine.Rules.Weights(),
		Composite: func(row *schemas.PromptRow) bool {
			return depends(stages.ParamReference) && row.Reference != "" || depends(stages.ParamMedia) && row.Media != ""
		},
		Parameters: func(row *schemas.PromptRow) map[string]string {
			all := map[stages.Param]string{stages.ParamPrompt: row.Prompt, stages.ParamNegativePrompt: row.NegativePrompt,
				stages.ParamSteps: fmt.Sprint(row.NumInferenceSteps), stages.ParamGuidanceScale: fmt.Sprint(row.Guidance())}
			if row.Seed != nil {
				all[stages.ParamSeed] = fmt.Sprint(*row.Seed)
			}
			told := map[string]string{}
			for p, value := range all {
				if depends(p) && value != "" {
					told[string(p)] = value
				}
			}
			return told
		},
	}
}

// change gives the files of an output other marks. Where they are not given, it goes on with a change that was cut off, or gives iptc
// and aigc. The summaries go first, so that a run that finds the change done writes the tables anew.
func (m *outputMarks) change(ctx context.Context, s store.Store, to config.Marks) (done marking.Changed, err error) {
	was, _, err := marking.Read(ctx, s)
	if err != nil && !to.Given {
		return done, err
	}
	if !to.Given {
		to.Given, to.IPTC, to.AIGC = true, true, true
		if was.Changing {
			given := to
			to = was.Asked()
			to.Certificate, to.Key = given.Certificate, given.Key
		}
	}
	if to.C2PA && to.Certificate == "" && to.Key == "" {
		to.Certificate, to.Key = m.asked.Certificate, m.asked.Key
	}
	r, signer, err := m.recordOf(ctx, to)
	if err != nil {
		return done, err
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
	return marking.Change(ctx, s, l, m.marker(r, signer), m.rows.all(ctx))
}

// Mark gives the files of the output the marks that are asked for, without encoding, and writes tables and pages anew. Where asked is
// not given, it goes on with a change that was cut off, or gives iptc and aigc. The job is open and has no output yet.
func (j *Job) Mark(ctx context.Context, asked config.Marks) (done marking.Changed, err error) {
	j.Record.identify(j.report.Part, j.output.lockName())
	p := &planned{job: j, began: time.Now()}
	err = j.output.attach(ctx, func(s store.Store) error { // before anything is found damaged
		done, err = j.marks(false).change(ctx, s, asked)
		return err
	})
	if err != nil {
		return done, err
	}
	if err := p.unfinish(ctx); err != nil {
		return done, err
	}
	r, err := p.running(ctx)
	if err != nil {
		return done, err
	}
	return done, r.next.tables(ctx, 0)
}
