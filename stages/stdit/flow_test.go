package stdit

import (
	"os"
	"path/filepath"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// mappedStage is the stage with hashed weights in a mapped file.
func mappedStage(t testing.TB, cfg Config) *testedStage {
	t.Helper()
	dir := t.TempDir()
	weights := nntest.FileBytes(t, nntest.Shapes(t, cfg, Load))
	for name, data := range map[string][]byte{"config.json": []byte("{}"), "model.safetensors": weights} {
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

// TestSameBytesStreamed: latents have the same SHA-256 when blocks are streamed, whichever blocks are resident: from a mapped
// file that is read in place, and on a card with room for two streamed blocks.
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
		parts := s.cost(&one[0].Row).Parts
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
				s.loading().Stream(stay)
				for range 2 { // the second time, the last blocks of the first are in memory
					batch := c.batch()
					if err := s.Run(t.Context(), dev, batch); err != nil {
						t.Fatalf("%v: %d blocks stay, %s: %v", c, stay, name, err)
					}
					if digest(t, batch) != want {
						t.Errorf("%v: %d blocks stay, %s: other bytes", c, stay, name)
					}
				}
			}
			if card.WeightBytes != held || late.WeightBytes != held || card.Refills == 0 {
				t.Errorf("%v: %d blocks stay: the cards hold %d and %d bytes, want %d; %d weights were exchanged",
					c, stay, card.WeightBytes, late.WeightBytes, held, card.Refills)
			}
		}
	}
}

// TestSameBytesStreamedOnAnyGrid: the same if heads, columns and blocks are also split, with the ranks in one memory and on
// cards that have room for two streamed blocks.
func TestSameBytesStreamedOnAnyGrid(t *testing.T) {
	grids := []cost.Grid{gridOf(1, 2, 1), gridOf(1, 1, 2), gridOf(1, 2, 2), gridOf(2, 1, 2), gridOf(2, 3, 1), gridOf(1, 3, 2)}
	for k, cfg := range tinyConfigs() {
		cfg.NumHeads, cfg.HiddenSize, cfg.Depth = 4, 48, 5
		c := layoutCase{cfg, 3, 5, 32, 48, 4}
		one := c.batch()
		if err := mappedStage(t, cfg).Run(t.Context(), cpu.New(1), one); err != nil {
			t.Fatal(err)
		}
		want := digest(t, one)
		for i, g := range []cost.Grid{grids[k%len(grids)], grids[(k+3)%len(grids)]} {
			if testing.Short() && i != k/2%2 {
				continue
			}
			c.checkStreamed(t, g, (k+i)%2, want)
		}
	}
}

// checkStreamed compares the case on a grid, of whose runs of blocks so many stay, with a digest.
func (c layoutCase) checkStreamed(t *testing.T, g cost.Grid, stay int, want string) {
	t.Helper()
	var cards []*kerneltest.CardBackend
	shards := func(s *testedStage) [][]int64 { return s.cost(&c.batch()[0].Row).Shards }
	room := func(parts []int64) (n int64) {
		for _, block := range parts[:1+stay+min(2, len(parts)-1-stay)] { // blocks of a kind are equal
			n += block
		}
		return n
	}
	for name, device := range map[string]func(parts []int64) kernels.Backend{
		"one memory": func([]int64) kernels.Backend { return cpu.New(1) },
		"cards": func(parts []int64) kernels.Backend {
			cards = append(cards, kerneltest.Card(cpu.New(1), room(parts)))
			return cards[len(cards)-1]
		},
		"late cards": func(parts []int64) kernels.Backend {
			return kerneltest.Deferred(kerneltest.Card(cpu.New(1), room(parts)))
		},
	} {
		s := mappedStage(t, c.cfg)
		s.onGrid(g)
		if err := s.Hold(cost.Placement{Grid: g, Streamed: true, Stay: stay}); err != nil {
			t.Fatal(err)
		}
		set := setOf(sequence.Equal(g.Ranks()), func() kernels.Backend { return nil })
		for r := range set.Devices {
			_, tensor, pipeline := g.Place(r)
			set.Devices[r] = device(shards(s)[pipeline*g.Tensor+tensor])
		}
		for range 2 {
			batch := c.batch()
			if err := s.RunSet(t.Context(), set, batch); err != nil {
				t.Fatalf("%v over %v, %d blocks stay, %s: %v", c, g, stay, name, err)
			}
			if digest(t, batch) != want {
				t.Errorf("%v over %v, %d blocks stay, %s: other bytes", c, g, stay, name)
			}
		}
	}
	s := mappedStage(t, c.cfg)
	s.onGrid(g)
	for r, card := range cards {
		_, tensor, pipeline := g.Place(r)
		if want := room(shards(s)[pipeline*g.Tensor+tensor]); card.WeightBytes != want || card.Refills == 0 {
			t.Errorf("%v over %v, %d blocks stay: card %d holds %d bytes, want %d; %d weights were exchanged", c, g, stay, r,
				card.WeightBytes, want, card.Refills)
		}
	}
}
