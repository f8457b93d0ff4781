package score

import (
	"math"
	"runtime"
	"testing"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/raft"
)

// TestCostOfNetworks: the work of DINO is that of its layers, the work of RAFT grows with the pairs, weights that several
// measures use count once, and the memory for a clip includes the comparison of RAFT.
func TestCostOfNetworks(t *testing.T) {
	files := vbenchGolden(t).files(t)
	open := func(by ...string) *stage {
		o := options{By: by, Weights: files, CutThreshold: 27, BlackLevel: 24}
		s, err := o.stage(scoreName)
		if err != nil {
			t.Fatal(err)
		}
		return s.(*stage)
	}
	row := &schemas.PromptRow{Height: 256, Width: 256, NumFrames: 32, FPS: 8}
	cost := func(s *stage) (flop, weights float64) {
		c, err := s.cost(row)
		if err != nil {
			t.Fatal(err)
		}
		return c.Work, float64(c.Weights)
	}
	// Of two layers of width 64 over 197 tokens the first has 12 C² a token and attention, of the last only keys and values are of all
	// tokens; 196 patches have 16x16 pixels.
	const c, tokens = 64, 197
	want := 32 * 2.0 * (tokens*12*c*c + 2*tokens*tokens*c + tokens*2*c*c + 196*3*16*16*c)
	if got, _ := cost(open(subjectName)); math.Abs(got/want-1) > 0.01 { // the rest is one token's
		t.Errorf("DINO takes %.4g FLOP, its layers say %.4g", got, want)
	}
	one, _ := cost(open(dynamicName))
	row.NumFrames = 63
	if two, _ := cost(open(dynamicName)); math.Abs(two/one-2) > 1e-9 {
		t.Errorf("62 pairs take %.3g FLOP, 31 %.3g", two, one)
	}
	_, b32 := cost(open(backgroundName))
	if _, both := cost(open(backgroundName, similarityName)); b32 == 0 || both != b32 {
		t.Errorf("the weights of CLIP are %v, for two measures %v", b32, both)
	}
	need, err := open(dynamicName).Need(row, 1)
	volume := int64(32 * 32 * (32*32 + 16*16 + 8*8 + 4*4) * 4)
	if err != nil || need < volume+int64(kernels.Elements([]int{256, 256, 3}))*4 || raft.HostBytes(256, 256) < volume {
		t.Errorf("a clip needs %d bytes, %v, the volume alone has %d", need, err, volume)
	}
	g := readMotion(t)
	files[amtS] = g.file(t)
	row.NumFrames = 9
	four, _ := cost(open(smoothnessName))
	row.NumFrames = 17
	if eight, _ := cost(open(smoothnessName)); four == 0 || math.Abs(eight/four-2) > 1e-9 {
		t.Errorf("eight frames between others take %.3g FLOP, four %.3g", eight, four)
	}
	if need, err := open(smoothnessName).Need(row, 1); err != nil || need < 2*volume {
		t.Errorf("a clip needs %d bytes, %v, the two volumes alone have %d", need, err, 2*volume)
	}
	row.Height, row.Width = 2160, 3840
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, name := range []string{dynamicName, smoothnessName} {
		if need, err := open(name).Need(row, 1); err != nil || need < 1<<30 {
			t.Errorf("%s of 4K needs %d bytes, %v", name, need, err)
		}
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 128<<20 {
		t.Errorf("a plan of 4K takes %d MB itself", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	if n, err := open(motionName).Need(row, 1); n != 0 || err != nil || open(motionName).Capabilities().Cost != nil {
		t.Errorf("motion needs %d bytes, %v", n, err)
	}
}
