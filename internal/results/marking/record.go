// Package marking records which marks of synthetic media the files of an output have. The marks are decided once, before the output's
// first row, and written to marks.json. Shards, workers and later runs read this file. Package internal/media/marks implements
// the marks themselves.
package marking

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/media/c2pa"
	"latentbeam/internal/media/marks"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// Name is the name of the record in the output.
const Name = "marks.json"

// Record lists the marks of an output's files.
type Record struct {
	Marks    []string `json:"marks"`
	Producer string   `json:"producer,omitempty"` // producer in aigc marks
	// Certificate and Prompt are for c2pa: the SHA-256 of the signing certificate, and whether manifests contain prompts and parameters.
	Certificate string `json:"certificate_sha256,omitempty"`
	Prompt      bool   `json:"prompt,omitempty"`
	// TimeStampAuthority is, for c2pa, the address of the authority that time-stamps the signatures; "": no time stamps.
	TimeStampAuthority string `json:"time_stamp_authority,omitempty"`
	// Models are, for c2pa, the names of models by the digests of their weights. A model retains its first name, so that equal keys
	// give equal bytes.
	Models map[string]string `json:"models,omitempty"`
	// Changing says that `latentbeam mark` has started to change all files to these marks and has not finished.
	Changing bool `json:"changing,omitempty"`
	// SHA256 is the first half of the digest of the other fields. It detects damage.
	SHA256 string `json:"sha256"`
}

// RecordOf returns the record of the marks that a job asks for.
func RecordOf(m config.Marks) Record {
	names := m.Names()
	if names == nil {
		names = []string{}
	}
	return Record{Marks: names, Producer: m.Producer, Prompt: m.Prompt, TimeStampAuthority: m.TimeStampAuthority}
}

// Asked returns the marks in the form in which a job asks for them.
func (r Record) Asked() config.Marks {
	m := config.Marks{Given: true}
	if len(r.Marks) > 0 {
		m = config.ParseMarks(strings.Join(r.Marks, ","))
	}
	m.Producer, m.Prompt, m.TimeStampAuthority = r.Producer, r.Prompt, r.TimeStampAuthority
	return m
}

// ID returns the text by which records of rows identify these marks: the names, and a digest of everything that is equal in all files.
// It is "" without marks.
func (r Record) ID() string {
	if len(r.Marks) == 0 {
		return ""
	}
	r.Changing, r.Models = false, nil
	return strings.Join(r.Marks, "+") + ":" + r.digest()[:8]
}

// digest returns the first half of the SHA-256 of all fields except SHA256.
func (r Record) digest() string {
	r.SHA256 = ""
	text, _ := json.Marshal(r) // never fails: plain values
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:sha256.Size/2])
}

// Read reads the record of an output. found is false if it has none; its files then have no marks.
func Read(ctx context.Context, s store.Store) (r Record, found bool, err error) {
	data, err := store.ReadFile(ctx, s, Name)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return r, false, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // a later release may have marks that this one does not know
	err = d.Decode(&r)
	if wrong := r.Asked().Problem(); err == nil && wrong != "" {
		err = errors.New(wrong)
	}
	if err == nil && !bytes.Equal(data, r.encode()) { // checks the digest, the case of keys and everything else
		err = errors.New("its digest does not match")
	}
	if err != nil {
		return r, false, fault.Usage(fmt.Errorf("read %s: %w; a later release may have written it, or it is damaged: then "+
			"`latentbeam mark %s --marks NAMES` writes it again", store.Address(s.URL(), Name), err, s.URL()))
	}
	return r, true, nil
}

// Write writes the record, in place of an earlier one.
func (r Record) Write(ctx context.Context, s store.Store) error {
	return s.Replace(ctx, Name, func(w io.Writer) error {
		_, err := w.Write(r.encode())
		return err
	})
}

// encode returns the contents of marks.json.
func (r Record) encode() []byte {
	r.SHA256 = r.digest()
	text, _ := json.MarshalIndent(r, "", "  ") // never fails: plain values
	return append(text, '\n')
}

// Decide writes the record of an output that has none yet. If several processes call it at the same time, the first one wins, and
// all get its record.
func Decide(ctx context.Context, s store.Store, r Record) (Record, error) {
	err := s.Put(ctx, store.Object{Name: Name, Data: r.encode()})
	if conflicts, other := store.Conflicts(err); err == nil || other != nil || len(conflicts) == 0 {
		return r, err
	}
	r, _, err = Read(ctx, s)
	return r, err
}

// Marker puts the marks of an output on the files of its rows.
type Marker struct {
	Record Record
	// Signer signs the files if the record has c2pa; nil: another process signs them later. If signatures need a time stamp from an
	// authority, the files are signed after they are published, so that no row waits for the network.
	Signer  *c2pa.Signer
	Weights string // digest of the job's weights
	// Parameters returns the parameters of a row for its manifest, if the record has Prompt; nil: no parameters.
	Parameters func(row *schemas.PromptRow) map[string]string
	// Composite reports whether the model got other media as input for a row; nil: never.
	Composite func(row *schemas.PromptRow) bool
}

// ID identifies the marks that Mark puts on files, see Record.ID.
func (m *Marker) ID() string {
	if m.SignsAtOnce() {
		return m.Record.ID()
	}
	return m.Record.unsigned().ID()
}

// SignsAtOnce reports whether Mark signs files. Otherwise Sign signs them after they are published.
func (m *Marker) SignsAtOnce() bool { return m.Signer != nil && m.Record.TimeStampAuthority == "" }

// unsigned returns the record without c2pa.
func (r Record) unsigned() Record {
	r.Marks = slices.DeleteFunc(slices.Clone(r.Marks), func(name string) bool { return name == marks.C2PA })
	r.Certificate, r.Prompt, r.TimeStampAuthority = "", false, ""
	return r
}

// Mark returns a copy of a row's file with the marks. ext is the type of the file (".mp4", ".png", ".jpg").
func (m *Marker) Mark(data []byte, ext string, key schemas.Key, row *schemas.PromptRow) ([]byte, error) {
	if !m.SignsAtOnce() {
		unsigned := *m
		unsigned.Signer = nil
		return unsigned.apply(data, ext, m.subject(key, row))
	}
	return m.apply(data, ext, m.subject(key, row))
}

// subject returns the facts that the marks of a row contain.
func (m *Marker) subject(key schemas.Key, row *schemas.PromptRow) marks.Subject {
	s := marks.Subject{ID: key.String(), Composite: m.Composite != nil && m.Composite(row), Model: m.Record.Models[m.Weights], Weights: m.Weights}
	if m.Parameters != nil && m.Record.Prompt {
		s.Parameters = m.Parameters(row)
	}
	return s
}

// apply returns a copy of data with the marks.
func (m *Marker) apply(data []byte, ext string, s marks.Subject) ([]byte, error) {
	asked := m.Record.Asked()
	return marks.Put(data, ext, marks.Wanted{IPTC: asked.IPTC, AIGC: asked.AIGC, Producer: asked.Producer, Signer: m.Signer}, s)
}
