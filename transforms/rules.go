package transforms

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"

	"latentbeam/internal/fault"
	"latentbeam/internal/rng"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Rules turn a row as it was read into an element that is ready to be computed: defaults filled in,
// parameters checked by every stage, and the key. They are pure, so that the plan, the run and the
// tables agree on every row.
type Rules struct {
	Defaults schemas.PromptRow // what the job and the model say where the row is silent
	JobSeed  int64             // rows without a seed get one derived from it and the prompt
	Shard    int               // this run takes the keys whose number modulo Shards is Shard
	Shards   int               // 0 and 1: all
	Input    stages.Kind
	Steps    []Step
	Class    string // numeric class of the devices

	prefix []byte // what all keys of the job share, made by Seal
}

// Seal fixes what all keys of the job have in common.
func (r *Rules) Seal() {
	h := sha256.New()
	field(h, "latentbeam", "key/1")
	field(h, "input", string(r.Input))
	field(h, "class", r.Class)
	for _, s := range r.Steps {
		if s.Spec.Passive {
			continue
		}
		field(h, "stage", s.Name)
		field(h, "version", fmt.Sprint(s.Spec.Version))
		field(h, "options", string(s.Options))
		field(h, "weights", s.Digest())
	}
	r.prefix = h.Sum(nil)
}

// Weights names the weights of all stages by content, for the provenance columns.
func (r *Rules) Weights() string {
	h := sha256.New()
	for _, s := range r.Steps {
		if d := s.Digest(); d != "" {
			field(h, s.Name, d)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// Apply fills, checks and keys e. A row that no stage can do comes back failed.
func (r *Rules) Apply(e *stages.Element) {
	e.Given = e.Row
	if e.Failed != nil {
		e.Key = r.badKey(e)
		return
	}
	r.fill(&e.Row)
	for _, s := range r.Steps {
		if err := s.Check(&e.Row); err != nil {
			e.Fail(s.Name, fault.Row(err))
			e.Key = r.badKey(e)
			return
		}
	}
	e.Key = r.key(e)
}

// Mine reports whether the element belongs to this shard. It goes by key, so that equal rows meet.
func (r *Rules) Mine(e *stages.Element) bool {
	return r.Shards <= 1 || binary.BigEndian.Uint64(e.Key[:8])%uint64(r.Shards) == uint64(r.Shard)
}

// fill puts the job's defaults where the row says nothing.
func (r *Rules) fill(row *schemas.PromptRow) {
	*row = row.WithDefaults(r.Defaults)
	if row.Seed == nil {
		seed := rng.SeedFor(r.JobSeed, row.Prompt)
		row.Seed = &seed
	}
}

// key hashes what the job shares, the content the element was read with, and the parameters that some
// stage of the job depends on.
func (r *Rules) key(e *stages.Element) schemas.Key {
	h := sha256.New()
	h.Write(r.prefix)
	if r.Input != stages.KindPrompt {
		h.Write(e.Origin[:])
	}
	used := map[stages.Param]bool{}
	for _, s := range r.Steps {
		if s.Spec.Passive {
			continue
		}
		for _, p := range s.Spec.Params {
			if !used[p] {
				used[p] = true
				field(h, string(p), paramValue(&e.Row, p))
			}
		}
	}
	return schemas.Key(h.Sum(nil))
}

// badKey names a row that cannot be computed by where it stands and what it says, so that the failures
// table can name it and a mended row gets a new key.
func (r *Rules) badKey(e *stages.Element) schemas.Key {
	h := sha256.New()
	h.Write(r.prefix)
	field(h, "source", e.Row.Source)
	field(h, "id", fmt.Sprint(e.Row.ID, "/", e.Row.SampleIndex))
	field(h, "prompt", e.Row.Prompt)
	field(h, "failure", e.Failed.Error())
	return schemas.Key(h.Sum(nil))
}

// paramValue writes a parameter exactly: floats by their bits.
func paramValue(row *schemas.PromptRow, p stages.Param) string {
	switch p {
	case stages.ParamPrompt:
		return row.Prompt
	case stages.ParamNegativePrompt:
		return row.NegativePrompt
	case stages.ParamMaxSequenceLength:
		return fmt.Sprint(row.MaxSequenceLength)
	case stages.ParamSeed:
		return fmt.Sprint(*row.Seed, "/", row.SampleIndex)
	case stages.ParamHeight:
		return fmt.Sprint(row.Height)
	case stages.ParamWidth:
		return fmt.Sprint(row.Width)
	case stages.ParamNumFrames:
		return fmt.Sprint(row.NumFrames)
	case stages.ParamFPS:
		return fmt.Sprintf("%x", math.Float64bits(row.FPS))
	case stages.ParamSteps:
		return fmt.Sprint(row.NumInferenceSteps)
	case stages.ParamGuidanceScale:
		return fmt.Sprintf("%x", math.Float64bits(row.Guidance()))
	}
	panic(fmt.Sprintf("transforms: stage depends on %q, which no prompt row has", p))
}

// field writes a name and a value so that no two lists of fields share a spelling.
func field(h hash.Hash, name, value string) {
	var n [8]byte
	for _, s := range []string{name, value} {
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
}
