// Package marks decides which marks of synthetic media the files of an output carry, and changes them.
package marks

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

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/media/c2pa"
	"latentbeam/internal/media/timestamp"
	"latentbeam/internal/results/marking"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/input"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Stage is the stage whose files are marked. What a program gives stays as the program wrote it.
const Stage = "encode_video"

// Policy decides which marks of synthetic media the files of an output carry.
type Policy struct {
	Asked    config.Marks // by the job
	Follow   bool         // the output's record holds, whatever the job asks for
	Computes bool         // files are published or signed, so a key is needed
	Dir      string       // base of the job's relative paths
	Model    string       // its name
	Engine   *engine.Engine
	Rows     input.Rows
}

// concerned says that the job publishes files of encode_video.
func (m *Policy) concerned() bool {
	return m.Engine.Keep[stages.KindVideo] && m.has(Stage)
}

func (m *Policy) has(stage string) bool {
	return slices.ContainsFunc(m.Engine.Schedule.Steps, func(s stages.Step) bool { return s.Spec.Name == stage })
}

// decide says which marks the files carry: as the output's record says; an output that has rows and no record has none; a new one gets
// what the job asks for. fresh is that nothing is recorded yet.
func (m *Policy) decide(ctx context.Context) (r marking.Record, fresh bool, err error) {
	r, recorded, err := marking.Read(ctx, m.Engine.Store)
	if err != nil {
		return r, false, err
	}
	url := m.Engine.Store.URL()
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
	if m.Asked.Given && !m.Asked.Equal(r.Asked()) && !m.Follow {
		return r, false, fault.Usage(fmt.Errorf("the job asks for the marks %v, and the files of output %s have %v; make them alike: "+
			"`latentbeam mark %s --marks NAMES` changes the files, without encoding, or write marks: %v in the job",
			m.Asked, url, r.Asked(), url, r.Asked()))
	}
	if !r.Asked().C2PA || !m.Computes {
		return r, false, nil
	}
	own, _, err := m.recordOf(ctx, m.Asked)
	switch {
	case err != nil:
		return r, false, err
	case !m.Asked.C2PA:
		err = fault.Usage(fmt.Errorf("the files of output %s are signed, and the job names no key: write c2pa with its certificate and key "+
			"into the marks of encode_video", url))
	case own.Certificate != r.Certificate:
		err = fault.Usage(fmt.Errorf("the files of output %s are signed with the certificate of SHA-256 %s, the job names that of %s: "+
			"`latentbeam mark %s --marks NAMES --certificate FILE --key FILE` signs all files anew", url, r.Certificate, own.Certificate, url))
	}
	return r, false, err
}

// recordOf is the record of marks, and what signs them; nil where nothing does.
func (m *Policy) recordOf(ctx context.Context, asked config.Marks) (marking.Record, *c2pa.Signer, error) {
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
	r.Certificate, r.Models = signer.Certificate(), map[string]string{m.Engine.Rules.Weights(): m.Model}
	return r, signer, nil
}

// signer opens the certificate and the key of the job.
func (m *Policy) signer(asked config.Marks) (*c2pa.Signer, error) {
	if asked.Certificate == "" || asked.Key == "" {
		return nil, errors.New("certificate and key are both needed: the paths of two files in PEM")
	}
	certificate, err := os.ReadFile(config.Absolute(m.Dir, asked.Certificate))
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	key, err := os.ReadFile(config.Absolute(m.Dir, asked.Key))
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return c2pa.NewSigner(certificate, key)
}

// wanted are the marks of a new output: what the job says, else both where its denoiser makes the frames.
func (m *Policy) wanted() config.Marks {
	if !m.Asked.Given && m.has("denoise") {
		return config.Marks{IPTC: true, AIGC: true}
	}
	return m.Asked
}

// begun says that the output has videos or settled rows.
func (m *Policy) begun(ctx context.Context) (bool, error) {
	if m.Engine.Ledger.Len() > 0 {
		return true, nil
	}
	for _, err := range m.Engine.Store.List(ctx, "videos/", store.Deep) {
		return err == nil, err
	}
	return false, nil
}

// Check refuses a job that asks for other marks than the files of its output have.
func (m *Policy) Check(ctx context.Context) error {
	if !m.concerned() {
		return nil
	}
	_, _, err := m.decide(ctx)
	return err
}

// Begin records the marks of a new output, before its first row, and makes the engine put on what is recorded.
func (m *Policy) Begin(ctx context.Context) error {
	m.Engine.Marks = nil
	if !m.concerned() {
		return nil
	}
	if !m.Computes {
		unsigned, err := m.Unsigned(ctx)
		if err != nil {
			return err
		}
		m.Computes = unsigned
	}
	r, fresh, err := m.decide(ctx)
	if err != nil {
		return err
	}
	if fresh && len(r.Marks) > 0 {
		if r, err = marking.Decide(ctx, m.Engine.Store, r); err != nil {
			return err
		}
	}
	if maker := m.maker(); fresh && len(r.Marks) == 0 && !m.Asked.Given && maker != "" {
		slog.Log(ctx, source.LevelNotice, "videos get no marks of synthetic media, because it is not known whether a model made their frames; "+
			"where one did, write marks: [iptc, aigc] under encode_video (docs/marking.md)", "frames_of", maker)
	}
	if weights := m.Engine.Rules.Weights(); r.Asked().C2PA && r.Models[weights] == "" { // another model than before
		models := maps.Clone(r.Models)
		if models == nil {
			models = map[string]string{}
		}
		models[weights] = m.Model
		r.Models = models
		if err := r.Write(ctx, m.Engine.Store); err != nil {
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

// Unsigned reports whether videos of done rows wait for their signature, which an earlier run could not give.
func (m *Policy) Unsigned(ctx context.Context) (bool, error) {
	if !m.concerned() {
		return false, nil
	}
	r, _, err := marking.Read(ctx, m.Engine.Store)
	if err != nil {
		return false, err
	}
	return r.Unsigned(ctx, m.Engine.Ledger, m.Rows.Mine(ctx))
}

// signerOf opens what signs as a record says; nil where it does not sign.
func (m *Policy) signerOf(ctx context.Context, r marking.Record) (*c2pa.Signer, error) {
	if !r.Asked().C2PA || !m.Computes {
		return nil, nil
	}
	_, signer, err := m.recordOf(ctx, m.Asked)
	return signer, err
}

// maker is what may have generated the frames of a job without denoise: "" where nothing may.
func (m *Policy) maker() string {
	if m.Engine.Rules.Input == stages.KindLatents {
		return "tables of latents"
	}
	return stages.FirstProgram(m.Engine.Schedule.Steps)
}

// Recorded makes the engine of a worker mark files as the submitter has decided. Where the key is not on this host, the submitter signs
// at the end.
func (m *Policy) Recorded(ctx context.Context) error {
	if !m.concerned() {
		return nil
	}
	r, _, err := marking.Read(ctx, m.Engine.Store)
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

// Sign signs the files that were published without a signature: by workers, where away, or because a time stamp authority is asked
// for each. A run that is to stop leaves them to the next one.
func (m *Policy) Sign(ctx context.Context, away bool) error {
	marker, stopped := m.Engine.Marks, m.Engine.Schedule.Stopped()
	if marker == nil || marker.Signer == nil || marker.SignsAtOnce() && !away {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(stopped, func() { cancel(context.Cause(stopped)) })()
	_, err := marking.Sign(ctx, m.Engine.Store, m.Engine.Ledger, marker, m.Rows.Mine(ctx))
	if stopped.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sign videos: %w; those without a signature are published: run the job again, which signs them", err)
	}
	return nil
}

// use makes the engine mark files as a record says.
func (m *Policy) use(r marking.Record, signer *c2pa.Signer) {
	if len(r.Marks) > 0 {
		m.Engine.Marks = m.marker(r, signer)
	}
}

// marker puts on the marks of a record. What no key depends on does not decide what is in a file.
func (m *Policy) marker(r marking.Record, signer *c2pa.Signer) *marking.Marker {
	params := m.Engine.Rules.Params()
	depends := func(p stages.Param) bool { return slices.Contains(params, p) }
	return &marking.Marker{Record: r, Signer: signer, Weights: m.Engine.Rules.Weights(),
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

// Change gives the files of an output other marks. Where they are not given, it goes on with a change that was cut off, or gives iptc
// and aigc. The summaries go first, so that a run that finds the change done writes the tables anew.
func (m *Policy) Change(ctx context.Context, s store.Store, to config.Marks) (done marking.Changed, err error) {
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
		to.Certificate, to.Key = m.Asked.Certificate, m.Asked.Key
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
	return marking.Change(ctx, s, l, m.marker(r, signer), m.Rows.All(ctx))
}
