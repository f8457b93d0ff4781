package stdit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages"
	"latentbeam/stages/nn"
)

// mappedStage is the stage with hashed weights in a mapped file.
func mappedStage(t testing.TB, cfg Config) *stage {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"config.json": []byte("{}"), "model.safetensors": testFile(t, cfg)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := stages.OpenComponents(map[string]string{"transformer": dir})
	if err != nil {
		t.Fatal(err)
	}
	return stageOf(t, cfg, m)
}

// TestSameBytesStreamed: latents have the same SHA-256 when blocks pass through memory, whichever stay: in a mapped
// file that is read in place, and on a card with room for two of those that pass.
func TestSameBytesStreamed(t *testing.T) {
	for k, cfg := range tinyConfigs() {
		cfg.Depth = 3 + k%2
		c := layoutCase{cfg, 2, 5, 32, 48, 4}
		s := mappedStage(t, cfg)
		one := c.batch()
		if err := s.Run(t.Context(), cpu.New(1), one); err != nil {
			t.Fatal(err)
		}
		want := digest(t, one)
		_, _, parts := s.Bytes(cfg.DType)
		if len(parts) != 1+cfg.Depth {
			t.Fatalf("%v: %d parts of %d blocks", c, len(parts), cfg.Depth)
		}
		for stay := range cfg.Depth - 1 {
			held := parts[0]
			for _, n := range parts[1 : 1+stay+2] {
				held += n
			}
			card := kerneltest.Card(cpu.New(1), held)
			late := kerneltest.Card(cpu.New(1), held)
			for name, dev := range map[string]kernels.Backend{"in place": cpu.New(1), "card": card,
				"late card": kerneltest.Deferred(late)} {
				s := mappedStage(t, cfg)
				s.Stream(stay)
				if name == "in place" && !s.InPlace(cfg.DType) {
					if err := s.Load(dev); !errors.Is(err, nn.ErrCopied) {
						t.Errorf("%v: rounded weights pass through memory: %v", c, err)
					}
					continue
				}
				for range 2 { // the second time what is there is the end of the first
					batch := c.batch()
					if err := s.Run(t.Context(), dev, batch); err != nil {
						t.Fatalf("%v: %d blocks stay, %s: %v", c, stay, name, err)
					}
					if digest(t, batch) != want {
						t.Errorf("%v: %d blocks stay, %s: other bytes", c, stay, name)
					}
				}
			}
			if card.Held != held || late.Held != held || card.Refills == 0 {
				t.Errorf("%v: %d blocks stay: the cards hold %d and %d bytes, want %d; %d weights were exchanged",
					c, stay, card.Held, late.Held, held, card.Refills)
			}
		}
	}
}

// TestStreamedInACut: what cannot be read in place cannot pass through a processor's memory, and the error says
// so.
func TestStreamedInACut(t *testing.T) {
	cfg := tinyConfig()
	s := mappedStage(t, cfg)
	s.Stream(0)
	s.tensor, s.pipeline = 2, 1
	if err := s.LoadShard(cpu.New(1), 1); !errors.Is(err, nn.ErrCopied) {
		t.Errorf("columns that are copied pass through memory: %v", err)
	}
}
