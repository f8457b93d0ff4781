package export

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"latentbeam/internal/results/report"
	"latentbeam/internal/table/write"
	"latentbeam/stages"
)

// sheetFile is the name of the file that describes the tensors of an export. Every export has it.
const sheetFile = "statistics.json"

// factSheet holds the facts about an export's tensors that a trainer needs. docs/export.md describes the fields.
type factSheet struct {
	Schema  int         `json:"schema"` // 1
	Format  string      `json:"format"`
	Rows    int64       `json:"rows"`
	NoText  int64       `json:"rows_without_text"`
	Latents latentFacts `json:"latents"`
	Text    *textFacts  `json:"text,omitempty"` // nil: no row has a text
	Model   string      `json:"model"`
	Weights string      `json:"weights_digest"`
	Class   string      `json:"class"`
	Program string      `json:"latentbeam_version"`
	Licence string      `json:"model_licence,omitempty"`
	Rev     string      `json:"model_revision,omitempty"`
}

// latentFacts describes the latents in the export.
type latentFacts struct {
	Space     string       `json:"space"` // raw: latents of the autoencoder; model: (raw - mean) / std; "": table of an earlier release
	DType     string       `json:"dtype"`
	Channels  int64        `json:"channels"`
	Mean      []float64    `json:"mean,omitempty"` // by channel
	Std       []float64    `json:"std,omitempty"`
	Scale     float64      `json:"scale,omitempty"` // for tables of earlier releases: model = raw * scale
	Posterior string       `json:"posterior,omitempty"`
	VAE       string       `json:"vae_digest,omitempty"`
	Shapes    []shapeCount `json:"shapes"`
}

// shapeCount is the number of rows whose latents have a shape.
type shapeCount struct {
	Shape []int64 `json:"shape"` // (C, T, H, W)
	Rows  int64   `json:"rows"`
}

// textFacts describes the text embeddings, which contain only valid tokens.
type textFacts struct {
	DType     string `json:"dtype"`
	Width     int64  `json:"width"`
	MaxTokens int64  `json:"max_tokens"` // tokens of the longest text
	Encoder   string `json:"text_encoder_digest,omitempty"`
}

// add adds a row that is exported in the format.
func (f *factSheet) add(o *out, s *sample, as format) error {
	r := &s.row
	if f.Rows++; f.Rows == 1 {
		v, err := o.statistics(s)
		if err != nil {
			return err
		}
		dtype := stages.Float32
		if s.half {
			dtype = stages.BFloat16
		}
		f.Latents = latentFacts{Space: cmp.Or(as.space, r.LatentSpace), DType: cmp.Or(as.dtype, dtype), Channels: r.VAELatentShape[0],
			Posterior: s.facts["posterior"], VAE: s.facts["vae_digest"]}
		if v != nil {
			f.Latents.Mean, f.Latents.Std = v.Mean, v.Std
		} else if r.LatentSpace != stages.RawSpace {
			f.Latents.Scale = r.LatentScale
		}
		f.Model, f.Weights, f.Class, f.Program = r.Model, r.WeightsDigest, r.Class, r.LatentbeamVersion
		f.Licence, f.Rev = s.facts["model_licence"], s.facts["model_revision"]
	}
	at := slices.IndexFunc(f.Latents.Shapes, func(c shapeCount) bool { return slices.Equal(c.Shape, r.VAELatentShape) })
	if at < 0 {
		at = len(f.Latents.Shapes)
		f.Latents.Shapes = append(f.Latents.Shapes, shapeCount{Shape: slices.Clone(r.VAELatentShape)})
	}
	f.Latents.Shapes[at].Rows++
	switch {
	case s.text == nil:
		f.NoText++
		return nil
	case f.Text == nil:
		f.Text = &textFacts{DType: cmp.Or(as.dtype, stages.Float32), Width: s.len[1], Encoder: s.facts["text_encoder_digest"]}
	}
	f.Text.MaxTokens = max(f.Text.MaxTokens, s.len[0])
	return nil
}

// write writes the file.
func (f *factSheet) write(o *out) error {
	slices.SortFunc(f.Latents.Shapes, func(a, b shapeCount) int { return slices.Compare(a.Shape, b.Shape) })
	return o.file(sheetFile, func(w io.Writer) error {
		text := json.NewEncoder(w)
		text.SetIndent("", "  ")
		return text.Encode(f)
	})
}

// factsOf returns the metadata of a table that describe its tensors, without the prefix "latentbeam.". It leaves out metadata about
// rows and schema.
func factsOf(metadata map[string]string) map[string]string {
	facts := map[string]string{}
	for key, value := range metadata {
		if name, ours := strings.CutPrefix(key, "latentbeam."); ours && name != "rows_sha256" && key != write.MetadataSchema &&
			key != write.MetadataVersion {
			facts[name] = value
		}
	}
	return facts
}

// metadata returns the metadata for the parquet files of an export: the facts of the table, and the statistics of the latents, which
// are in space.
func (o *out) metadata(s *sample, space string) (map[string]string, error) {
	all := map[string]string{}
	for key, value := range s.facts {
		all["latentbeam."+key] = value
	}
	v, err := o.statistics(s)
	if err != nil {
		return nil, err
	}
	if v != nil {
		all["latentbeam."+report.LatentsMean], all["latentbeam."+report.LatentsStd] = list(v.Mean), list(v.Std)
	}
	if space != "" {
		all["latentbeam.latent_space"] = space
	}
	return all, nil
}
