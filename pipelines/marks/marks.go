// Package marks decides which marks of synthetic media the files of an output get, and changes them.
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

// Stage is the stage whose files get marks. Files that a program writes are never marked.
const Stage = "encode_video"

// Policy decides which marks the files of one output get.
type Policy struct {
	Asked    config.Marks // marks that the job asks for
	Follow   bool         // uses the output's record and ignores Asked
	Computes bool         // the run publishes or signs files, so it needs the key
	Dir      string       // base directory of the job's relative paths
	Model    string       // name of the model
	Engine   *engine.Engine
	Rows     input.Rows
}

// publishes reports whether the job publishes files of encode_video.
func (m *Policy) publishes() bool {
	return m.Engine.Keep[stages.KindVideo] && m.has(Stage)
}

// has reports whether the job has the stage.
func (m *Policy) has(stage string) bool {
	return slices.ContainsFunc(m.Engine.Schedule.Steps, func(s stages.Step) bool { return s.Spec.Name == stage })
}

// decide returns the marks of the output's files. An output with a record has the recorded marks. An output with rows and without
// a record has no marks. A new output gets the marks that the job asks for; fresh is true then. If the job asks for other marks
// than the output has, decide returns an error.
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
		filled, err := m.filled(ctx)
		if err != nil {
			return r, false, err
		}
		if !filled {
			r, _, err = m.recordOf(ctx, m.askedOrDefault())
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
			"`latentbeam mark %s --marks NAMES --certificate FILE --key FILE` signs all files again", url, r.Certificate, own.Certificate, url))
	}
	return r, false, err
}

// recordOf returns the record for the marks asked, and the signer of C2PA manifests; nil: nothing is signed.
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

// signer reads the certificate and the key of the job.
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

// askedOrDefault returns the marks of a new output: those that the job asks for. If it says nothing and has a denoiser, the
// default is both iptc and aigc.
func (m *Policy) askedOrDefault() config.Marks {
	if !m.Asked.Given && m.has("denoise") {
		return config.Marks{IPTC: true, AIGC: true}
	}
	return m.Asked
}

// filled reports whether the output has videos or settled rows.
func (m *Policy) filled(ctx context.Context) (bool, error) {
	if m.Engine.Ledger.Len() > 0 {
		return true, nil
	}
	for _, err := range m.Engine.Store.List(ctx, "videos/", store.Deep) {
		return err == nil, err
	}
	return false, nil
}

// Check returns an error if the job asks for other marks than the files of its output have.
func (m *Policy) Check(ctx context.Context) error {
	if !m.publishes() {
		return nil
	}
	_, _, err := m.decide(ctx)
	return err
}

// Prepare records the marks of a new output before its first row, and makes the engine put the recorded marks on files.
func (m *Policy) Prepare(ctx context.Context) error {
	m.Engine.Marks = nil
	if !m.publishes() {
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
	if from := m.frameSource(); fresh && len(r.Marks) == 0 && !m.Asked.Given && from != "" {
		slog.Log(ctx, source.LevelNotice, "videos get no marks of synthetic media, because it is not known whether a model made their frames; "+
			"if one did, write marks: [iptc, aigc] under encode_video (docs/marking.md)", "frames_of", from)
	}
	if weights := m.Engine.Rules.Weights(); r.Asked().C2PA && r.Models[weights] == "" { // first run with this model
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
	if signer != nil && r.TimeStampAuthority != "" { // test the authority before the first row is computed
		if _, err := timestamp.New(r.TimeStampAuthority).Stamp(ctx, []byte(marking.Name)); err != nil {
			return err
		}
	}
	m.setMarker(r, signer)
	return nil
}

// Unsigned reports whether videos of finished rows have no signature yet, because an earlier run could not sign them.
func (m *Policy) Unsigned(ctx context.Context) (bool, error) {
	if !m.publishes() {
		return false, nil
	}
	r, _, err := marking.Read(ctx, m.Engine.Store)
	if err != nil {
		return false, err
	}
	return r.Unsigned(ctx, m.Engine.Ledger, m.Rows.Mine(ctx))
}

// signerOf returns the signer that a record needs; nil: the record or this run does not sign.
func (m *Policy) signerOf(ctx context.Context, r marking.Record) (*c2pa.Signer, error) {
	if !r.Asked().C2PA || !m.Computes {
		return nil, nil
	}
	_, signer, err := m.recordOf(ctx, m.Asked)
	return signer, err
}

// frameSource names the source that may have generated the frames of a job without denoise: a program or tables of latents. "": neither.
func (m *Policy) frameSource() string {
	if m.Engine.Rules.Input == stages.KindLatents {
		return "tables of latents"
	}
	return stages.FirstProgram(m.Engine.Schedule.Steps)
}

// PrepareWorker makes the engine of a worker put the marks on files that the submitter recorded. If the key is not on this host,
// the submitter signs the files at the end.
func (m *Policy) PrepareWorker(ctx context.Context) error {
	if !m.publishes() {
		return nil
	}
	r, _, err := marking.Read(ctx, m.Engine.Store)
	if err != nil {
		return err
	}
	if r.TimeStampAuthority != "" { // the submitter signs
		m.setMarker(r, nil)
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
		m.setMarker(r, signer)
	}
	return err
}

// Sign signs files that were published without a signature. These are the files of workers, if away, and all files if each
// needs a time stamp of an authority. If the run is stopped, the next run signs the rest.
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
		return fmt.Errorf("sign videos: %w; the unsigned videos are published: run the job again, which signs them", err)
	}
	return nil
}

// setMarker makes the engine put the marks of a record on files.
func (m *Policy) setMarker(r marking.Record, signer *c2pa.Signer) {
	if len(r.Marks) > 0 {
		m.Engine.Marks = m.marker(r, signer)
	}
}

// marker returns a marker for the marks of a record. It writes only parameters into files that are part of the keys, so that
// rows with equal keys have equal files.
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
			written := map[string]string{}
			for p, value := range all {
				if depends(p) && value != "" {
					written[string(p)] = value
				}
			}
			return written
		},
	}
}

// Change changes the marks of an output's files. If to is not given, it resumes an interrupted change, or puts on iptc and
// aigc. It first removes the summaries. If it is interrupted after the last file, the next run then still writes the tables
// again.
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
