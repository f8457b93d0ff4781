package t5

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// umt5Dir is a text_encoder/ and a tokenizer/ beside it as diffusers lays them out: UMT5 of this many ids with
// hashed weights, or of another variant, and a trained SentencePiece model of 2500 pieces.
func umt5Dir(t *testing.T, model string, vocab int) (dir string, cfg Config) {
	t.Helper()
	cfg, _ = readVariant(t, model)
	cfg.VocabSize = vocab
	config, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(nntest.Read(t, "../../stages/t5/sentencepiece/testdata/umt5.model.gz")))
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, data := range map[string][]byte{"text_encoder/config.json": config,
		"text_encoder/model.safetensors": nntest.FileBytes(t, nntest.Shapes(t, cfg, Load)),
		"tokenizer/spiece.model":         pieces} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, cfg
}

func openUMT5(t *testing.T, dir string, o stages.Options) *stage {
	t.Helper()
	m, err := stages.OpenComponents(map[string]string{"text_encoder": filepath.Join(dir, "text_encoder")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Spec().New(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*stage)
}

// TestUMT5Stage: a prompt is cleaned as in Wan, its ids are those of UMT5's tokenizer, and the embedding has one row for each
// id. A set of devices gives the same result.
func TestUMT5Stage(t *testing.T) {
	dir, cfg := umt5Dir(t, modelUMT5, 2816) // 16 unused rows after the extra ids
	s := openUMT5(t, dir, nil)
	published := s.Capabilities().Published
	if published == nil || published().MaxSequenceLength != 512 {
		t.Fatal("UMT5 does not say that prompts have 512 tokens")
	}
	row := schemas.PromptRow{Prompt: "  A Cat&amp;nbsp;walks，\n<b>realistic</b> style\u2026", NegativePrompt: "漢字",
		MaxSequenceLength: 512}
	long := schemas.PromptRow{Prompt: strings.Repeat("漢", 600), MaxSequenceLength: 512}
	batch := []*stages.Element{{Row: row}, {Row: long}}
	be := cpu.New(1)
	if err := s.Run(t.Context(), be, batch); err != nil {
		t.Fatal(err)
	}
	want := [][]int32{s.tok.Encode("A Cat walks, <b>realistic</b> style...", 512), s.tok.Encode("漢字", 512),
		s.tok.Encode(long.Prompt, 512)}
	if n := len(want[2]); n != 512 || want[2][511] != 1 || want[2][510] < 4 || want[2][510] > 259 {
		t.Errorf("a long prompt has %d tokens, which end in %v: want 512 of bytes and 1", n, want[2][n-4:])
	}
	cut := map[string]string{readingCut: strconv.Itoa(len(s.tok.Encode(long.Prompt, 0)) - 512)}
	if got := batch[1].Readings; !maps.Equal(got, cut) || batch[0].Readings != nil {
		t.Errorf("the long prompt has the readings %v, want %v; the short one %v", got, cut, batch[0].Readings)
	}
	e := nntest.Loaded(t, be, cfg, Load, nntest.Encode(t, tensorsOf(t, cfg)))
	rows := encode(t, be, e, want)
	if got := texts(batch); !slices.EqualFunc(got, rows, slices.Equal) {
		t.Error("other embeddings than those of the ids")
	}
	if batch[0].Text.Embedding.Shape[0] != len(want[0]) {
		t.Errorf("%v rows for %d tokens", batch[0].Text.Embedding.Shape, len(want[0]))
	}
	for _, grid := range [][2]int{{2, 1}, {1, 3}, {2, 2}} {
		s := openUMT5(t, dir, nil)
		s.Tensor, s.Pipeline = grid[0], grid[1]
		again := []*stages.Element{{Row: row}, {Row: long}}
		if err := s.RunSet(t.Context(), setOf(s.Width(nil)), again); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(texts(again), rows, slices.Equal) {
			t.Errorf("%d by %d devices give other embeddings", grid[0], grid[1])
		}
		if got := again[1].Readings; !maps.Equal(got, cut) {
			t.Errorf("%d by %d devices give the readings %v", grid[0], grid[1], got)
		}
	}
}

// TestCleaningOfVariants: UMT5's prompts are cleaned as in Wan, T5's as in Open-Sora, and mT5's not at all.
func TestCleaningOfVariants(t *testing.T) {
	const prompt = "A  <b>Cat</b>&amp;co"
	for model, want := range map[string]string{"": "a cat co", modelT5: "a cat co", modelMT5: prompt,
		modelUMT5: "A <b>Cat</b>&co"} {
		if got := variants[model].clean(prompt); got != want {
			t.Errorf("%q: %q, want %q", model, got, want)
		}
	}
}

// TestVariantHasItsDigest: two encoders that differ only in their config.json have different digests.
func TestVariantHasItsDigest(t *testing.T) {
	dir, _ := umt5Dir(t, modelMT5, 2816)
	mt5 := openUMT5(t, dir, nil)
	if got := mt5.Capabilities().Published; got == nil || got().MaxSequenceLength != 512 {
		t.Error("mT5 does not say that prompts have 512 tokens")
	}
	if mt5.tok.VocabSize() != 2500 {
		t.Errorf("mT5's tokenizer has %d ids, want those of its file alone", mt5.tok.VocabSize())
	}
	path := filepath.Join(dir, "text_encoder/config.json")
	config := strings.Replace(string(nntest.Read(t, path)), `"mt5"`, `"t5"`, 1)
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	t5 := openUMT5(t, dir, nil)
	if t5.Digest() == mt5.Digest() || t5.Capabilities().Published != nil {
		t.Error("a T5 passes for an mT5")
	}
}
