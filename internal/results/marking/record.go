// Package marking keeps which marks of synthetic media the files of an output carry. That is decided once for an output, before its
// first row, and recorded in marks.json, which shards, workers and later runs read. The marks themselves are internal/media/marks.
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

// Name is that of the record in the output.
const Name = "marks.json"

// Record says which marks the files of an output carry.
type Record struct {
	Marks    []string `json:"marks"`
	Producer string   `json:"producer,omitempty"` // for aigc
	// For c2pa: the SHA-256 of the certificate of the key that signs, and whether manifests say prompts and parameters.
	Certificate string `json:"certificate_sha256,omitempty"`
	Prompt      bool   `json:"prompt,omitempty"`
	// TimeStampAuthority is, for c2pa, the address of the authority whose time stamps the signatures carry; "": they carry none.
	TimeStampAuthority string `json:"time_stamp_authority,omitempty"`
	// Models are, for c2pa, the names of the models by the digests of their weights. The first name of a model holds, so that equal
	// keys give equal bytes.
	Models map[string]string `json:"models,omitempty"`
	// Changing says that `latentbeam mark` has begun to give all files these marks, and has not ended.
	Changing bool `json:"changing,omitempty"`
	// SHA256 begins the digest of the other fields, by which damage is found.
	SHA256 string `json:"sha256"`
}

// RecordOf is the record of the marks that a job asks for.
func RecordOf(m config.Marks) Record {
	names := m.Names()
	if names == nil {
		names = []string{}
	}
	return Record{Marks: names, Producer: m.Producer, Prompt: m.Prompt, TimeStampAuthority: m.TimeStampAuthority}
}

// Asked is the record as a job would ask for it.
func (r Record) Asked() config.Marks {
	m := config.Marks{Given: true}
	if len(r.Marks) > 0 {
		m = config.ParseMarks(strings.Join(r.Marks, ","))
	}
	m.Producer, m.Prompt, m.TimeStampAuthority = r.Producer, r.Prompt, r.TimeStampAuthority
	return m
}

// ID names the marks in the records of rows: "" for none, else the names and a digest of all that is in the files alike.
func (r Record) ID() string {
	if len(r.Marks) == 0 {
		return ""
	}
	r.Changing, r.Models = false, nil
	return strings.Join(r.Marks, "+") + ":" + r.digest()[:8]
}

// digest is the first half of the SHA-256 of all other fields.
func (r Record) digest() string {
	r.SHA256 = ""
	text, _ := json.Marshal(r) // plain values
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:sha256.Size/2])
}

// Read reads the record of an output; found is false where it has none, and its files carry no marks.
func Read(ctx context.Context, s store.Store) (r Record, found bool, err error) {
	data, err := store.ReadFile(ctx, s, Name)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return r, false, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // a later release may have marks that this one cannot put on
	err = d.Decode(&r)
	if wrong := r.Asked().Wrong(); err == nil && wrong != "" {
		err = errors.New(wrong)
	}
	if err == nil && !bytes.Equal(data, r.encode()) { // the digest, the case of keys and all else
		err = errors.New("it is not what was written")
	}
	if err != nil {
		return r, false, fault.Usage(fmt.Errorf("read %s: %w; a later release may have written it, or it is damaged: then "+
			"`latentbeam mark %s --marks NAMES` writes it anew", store.Address(s.URL(), Name), err, s.URL()))
	}
	return r, true, nil
}

// Write replaces the record.
func (r Record) Write(ctx context.Context, s store.Store) error {
	return s.Replace(ctx, Name, func(w io.Writer) error {
		_, err := w.Write(r.encode())
		return err
	})
}

func (r Record) encode() []byte {
	r.SHA256 = r.digest()
	text, _ := json.MarshalIndent(r, "", "  ") // plain values
	return append(text, '\n')
}

// Decide records the marks of an output that has no record yet. Of several processes that decide at a time one is first, and
// its record holds.
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
	// Signer signs, where the record has c2pa; nil: another process signs later, and the files have the other marks until then. It signs
	// files that are published already, too, where each signature asks a time stamp authority: no row waits for a network then.
	Signer  *c2pa.Signer
	Weights string // digest of those of the job
	// Parameters are what a manifest says of how a row was made, where the record wants that; nil: nothing.
	Parameters func(row *schemas.PromptRow) map[string]string
	// Composite says whether other media were given to the model for a row; nil: never.
	Composite func(row *schemas.PromptRow) bool
}

// ID names the marks that Mark puts on, see Record.ID.
func (m *Marker) ID() string {
	if m.SignsAtOnce() {
		return m.Record.ID()
	}
	return m.Record.unsigned().ID()
}

// SignsAtOnce reports whether Mark signs files, else Sign does it when they are published.
func (m *Marker) SignsAtOnce() bool { return m.Signer != nil && m.Record.TimeStampAuthority == "" }

// unsigned is the record without c2pa.
func (r Record) unsigned() Record {
	r.Marks = slices.DeleteFunc(slices.Clone(r.Marks), func(name string) bool { return name == marks.C2PA })
	r.Certificate, r.Prompt, r.TimeStampAuthority = "", false, ""
	return r
}

// Mark returns a file of the row, of the type ext (".mp4", ".png", ".jpg"), with the marks.
func (m *Marker) Mark(data []byte, ext string, key schemas.Key, row *schemas.PromptRow) ([]byte, error) {
	if !m.SignsAtOnce() {
		unsigned := *m
		unsigned.Signer = nil
		return unsigned.put(data, ext, m.subject(key, row))
	}
	return m.put(data, ext, m.subject(key, row))
}

// subject is what the marks of a row say.
func (m *Marker) subject(key schemas.Key, row *schemas.PromptRow) marks.Subject {
	s := marks.Subject{ID: key.String(), Composite: m.Composite != nil && m.Composite(row), Model: m.Record.Models[m.Weights], Weights: m.Weights}
	if m.Parameters != nil && m.Record.Prompt {
		s.Parameters = m.Parameters(row)
	}
	return s
}

func (m *Marker) put(data []byte, ext string, s marks.Subject) ([]byte, error) {
	asked := m.Record.Asked()
	return marks.Put(data, ext, marks.Wanted{IPTC: asked.IPTC, AIGC: asked.AIGC, Producer: asked.Producer, Signer: m.Signer}, s)
}
