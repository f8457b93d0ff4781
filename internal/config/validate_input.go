package config

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"latentbeam/internal/config/document"
	"latentbeam/schemas"
)

// checkAddress adds a problem if value is an address that is wrong, or whose scheme is not in schemes.
func (v *validator) checkAddress(path, value string, schemes []string) {
	if problem, fix := CheckAddress(value, schemes); problem != "" {
		v.problem(path, fix, "%s: %s", path, problem)
	}
}

// checkBucketAddress adds a problem if value is an address, but not of a bucket.
func (v *validator) checkBucketAddress(path, value string) {
	scheme, rest, found := strings.Cut(value, "://")
	if bucket, _, _ := strings.Cut(rest, "/"); found && strings.Contains(bucket, "@") {
		v.problem(path, "credentials come from the environment", "%s holds an @, as if it had credentials", path)
		return
	}
	if found && !slices.Contains(BucketSchemes, scheme) && !strings.ContainsAny(scheme, "/.") {
		v.problem(path, "give a path, or an address that begins with "+OrList(BucketSchemes), "%s is %q, an address of another kind",
			path, document.Clip(value, document.ValueRunes))
	}
}

func (v *validator) validateModel() {
	m := v.config.Model
	if reflect.ValueOf(m).IsZero() {
		v.missingKey("model", "model: tiny, or the model's directory")
	}
	v.checkAddress("model", m.Path, BucketSchemes)
	v.checkAddress("model.text_encoder", m.TextEncoder, BucketSchemes)
	v.checkAddress("model.transformer", m.Transformer, BucketSchemes)
	v.checkAddress("model.transformer_2", m.Transformer2, BucketSchemes)
	v.checkAddress("model.image_encoder", m.ImageEncoder, BucketSchemes)
	v.checkAddress("model.vae", m.VAE, BucketSchemes)
	if (m.Path == "tiny" || m.Path == "none") && m.TextEncoder+m.Transformer+m.Transformer2+m.ImageEncoder+m.VAE != "" {
		v.problem("model.path", "leave path out, and give a path for each component", "model has path %s and components: only those of a "+
			"model on disk can be replaced", m.Path)
	}
	for i, l := range m.Loras {
		at := fmt.Sprintf("model.loras.%d", i)
		if l.Path == "" {
			v.problem(at, "write - path: FILE.safetensors", "an entry of loras has no path")
		}
		v.checkAddress(at+".path", l.Path, BucketSchemes)
		v.oneOf(at+".expert", l.Expert, []string{"", "both", "high", "low"})
		v.oneOf(at+".unmatched", l.Unmatched, []string{"", "error", "skip"})
		if s := l.Scale; s != nil && !(math.Abs(*s) <= maxLoraScale) {
			v.problem(at+".scale", "give a number such as 0.8", "scale is %g", *s)
		}
	}
}

// maxLoraScale is the largest scale of an adapter, far above useful values.
const maxLoraScale = 1000

func (v *validator) validateInput() {
	in := v.config.Input
	var given []string
	for _, kind := range []string{PromptInput, MediaInput, VideoInput, EmbeddingInput, LatentInput} {
		if v.given("input." + kind) {
			given = append(given, kind)
		}
	}
	switch {
	case !v.given("input"):
		v.missingKey("input", "input: {prompts: prompts.csv}")
	case len(given) == 0 && v.config.root.Lookup("input").Value.Kind == document.MapKind:
		v.problem("input", "name one of prompts, media, videos, embeddings and latents, such as prompts: prompts.csv",
			"input does not say what to start from")
	case len(given) > 1:
		v.problem("input."+given[1], "a job starts from one of them; remove the others",
			"input has %s", strings.Join(given, " and "))
	}
	kind, patterns := in.Source()
	for _, p := range patterns {
		v.checkAddress("input."+kind, p, InputSchemes)
		if _, err := filepath.Match(p, ""); err != nil {
			v.problem("input."+strings.Join(given, ""), "close its bracket, or put \\ before [",
				"%q is not a glob pattern", p)
		}
	}
	v.oneOf("input.format", in.Format, inputFormats)
	v.oneOf("input.txt", in.TXT, []string{"", TXTRaw})
	v.oneOf("input.folders", in.Folders, []string{"", FoldersClip})
	v.oneOf("input.decode_errors", in.DecodeErrors, []string{"", schemas.DecodeErrorsFail, schemas.DecodeErrorsKeep})
	v.oneOf("input.hdr", in.HDR, []string{"", schemas.HDRKeep, schemas.HDRTonemap, schemas.HDRFail})
	if _, ok := in.Comma(); !ok {
		v.problem("input.delimiter", `give one character, such as ";", or tab`, "input.delimiter is %q",
			document.Clip(in.Delimiter, document.ValueRunes))
	}
	v.validateColumns(in.Columns)
	v.validateClips()
	v.validateSelect()
	v.oneOf("output.scores", v.config.Output.Scores, []string{"", ScoresVBench})
}

// validateSelect checks the key select.
func (v *validator) validateSelect() {
	if !v.given("select") {
		return
	}
	s := v.config.Select
	if s.Best < 1 {
		v.problem("select", "give best: 1, or more", "select.best is %d", s.Best)
	}
	if strings.TrimPrefix(s.By, "-") == "" {
		v.problem("select", "name a reading, such as by: text_similarity", "select.by is missing")
	}
	if s.Of == "" {
		v.problem("select", "name what the rows of a group have in common, such as of: prompt", "select.of is missing")
	}
}

// FoldersClip is the value of Input.Folders that makes each folder one clip of frames.
const FoldersClip = "clip"

// TXTRaw is the value of Input.TXT that makes each line a prompt.
const TXTRaw = "raw"

// Comma returns the character between the columns of csv, or 0 if the reader must find it. ok is false if the value is invalid.
func (in Input) Comma() (comma rune, ok bool) {
	switch in.Delimiter {
	case "":
		return 0, true
	case "tab":
		return '\t', true
	}
	all := []rune(in.Delimiter)
	if len(all) != 1 || strings.ContainsRune("\"\r\n\x00\uFFFD", all[0]) {
		return 0, false
	}
	return all[0], true
}

func (v *validator) validateColumns(columns map[string]string) {
	var known []string
	for _, f := range schemas.Fields() {
		known = append(known, f.Name)
	}
	n := v.config.root.Lookup("input")
	if n == nil || n.Value.Lookup("columns") == nil {
		return
	}
	takenBy := map[string]string{}
	for _, p := range n.Value.Lookup("columns").Value.Pairs {
		path, column := "input.columns."+p.Key, columns[p.Key]
		if !slices.Contains(known, p.Key) {
			v.problem(path, suggestName(p.Key, known)+
				" (the key is our field, the value your column: {prompt: my_caption})",
				"%q in input.columns is not a field of prompt rows", p.Key)
		} else if other, taken := takenBy[column]; taken && column != "" {
			v.problem(path, "every field needs a column of its own",
				"column %q is already mapped to %s", column, other)
		}
		takenBy[column] = p.Key
	}
}
