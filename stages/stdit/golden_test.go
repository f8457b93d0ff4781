package stdit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

const goldenDir = "../../testdata/golden/"

// Tolerances against the reference in fp32: absolute for one evaluation and the tables, and a share of
// the largest value for a whole sampling run, whose values reach several hundred.
const (
	forwardTolerance = 1e-4
	sampleTolerance  = 1e-4
)

// goldenCase is one case of a golden file: those of the fields that concern STDiT.
type goldenCase struct {
	DType       string          `json:"dtype"`
	Config      json.RawMessage `json:"config"`
	XShape      []int           `json:"x_shape"`
	Timestep    []float32       `json:"timestep"`
	Mask        [][]int         `json:"mask"`
	XMask       json.RawMessage `json:"x_mask"`
	InputPrefix string          `json:"input_prefix"`
	NoisePrefix string          `json:"noise_prefix"`

	TimestepMap      []int   `json:"timestep_map"`
	NumSamplingSteps int     `json:"num_sampling_steps"`
	CFGScale         float32 `json:"cfg_scale"`
	CFGChannels      int     `json:"cfg_channels"`

	OutShape []int     `json:"out_shape"`
	Out      []float32 `json:"out"`
	Spatial  []float32 `json:"spatial"`
	Temporal []float32 `json:"temporal"`
	Note     string    `json:"note"`
}

// defaultModel is the case whose config and mask a case takes when it names none.
const defaultModel = "stdit_v1_0_fp32"

// TestGolden runs every case that this package understands, of the committed file or of the one that
// LATENTBEAM_GOLDEN names.
func TestGolden(t *testing.T) {
	if ran := runGolden(t, nntest.OpenSora(t, goldenDir+"open-sora.json")); ran == 0 {
		t.Error("the file holds no Open-Sora 1.0 case in fp32")
	}
}

// TestGoldenOptions runs the cases with per-row masks, no mask, other prefixes and other step counts.
func TestGoldenOptions(t *testing.T) {
	cases := nntest.Golden(t, goldenDir+"open-sora-more.json")
	if ran := runGolden(t, cases); ran != len(cases) {
		t.Errorf("%d of %d cases ran", ran, len(cases))
	}
}

func runGolden(t *testing.T, cases map[string]json.RawMessage) (ran int) {
	g := goldenFile{cases: cases, base: nntest.Golden(t, goldenDir+"open-sora.json")}
	var skipped []string
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c, check, err := g.resolve(name)
		if check == nil && err == nil {
			skipped = append(skipped, name)
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			if err != nil {
				t.Fatal(err)
			}
			check(t, c)
		})
	}
	if len(skipped) > 0 {
		t.Logf("%d cases of other models, versions or dtypes left out: %s",
			len(skipped), strings.Join(skipped, ", "))
	}
	return ran
}

func checkForward(t *testing.T, c goldenCase) {
	cfg, err := ParseConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	shape := c.XShape
	if shape == nil {
		shape = append([]int{c.OutShape[0], cfg.InChannels}, c.OutShape[2:]...)
	}
	r := newHarness(t, cfg, 2)
	texts := captions(cfg, c.InputPrefix, masks(t, c.Mask, shape[0], cfg.ModelMaxLength))
	got := r.forward(t, nntest.Hash(c.InputPrefix+".x", 1.7, shape...), shape, c.Timestep, texts)
	diff, largest := nntest.MaxDiff(got, c.Out)
	t.Logf("largest difference %.2g of %.3g", diff, largest)
	if diff > forwardTolerance {
		t.Errorf("differs by %g from the reference, want at most %g", diff, forwardTolerance)
	}
}

func checkPositions(t *testing.T, c goldenCase) {
	var hidden, rows, cols int
	var scale float64
	const format = "hidden %d, grid (%d,%d), scale %g"
	if _, err := fmt.Sscanf(c.Note, format, &hidden, &rows, &cols, &scale); err != nil {
		t.Fatalf("note %q: %v", c.Note, err)
	}
	diff, _ := nntest.MaxDiff(nn.SinCos2D(hidden, rows, cols, scale), c.Spatial)
	temporal, _ := nntest.MaxDiff(nn.SinCos1D(hidden, len(c.Temporal)/hidden, 1), c.Temporal)
	if diff > 1e-6 || temporal > 1e-6 {
		t.Errorf("positions differ by %g in space and %g in time", diff, temporal)
	}
}

// masks returns one mask for each of n rows; a shorter list is repeated, none means every token.
func masks(t *testing.T, given [][]int, n, length int) [][]int {
	t.Helper()
	out := make([][]int, n)
	for i := range out {
		if len(given) > 0 {
			out[i] = given[i%len(given)]
		} else {
			out[i] = slices.Repeat([]int{1}, length)
		}
		if len(out[i]) != length {
			t.Fatalf("mask of %d tokens, model_max_length is %d", len(out[i]), length)
		}
	}
	return out
}

// captions returns the hashed text of each row without the tokens that its mask leaves out.
func captions(cfg Config, prefix string, masks [][]int) [][]float32 {
	y := nntest.Hash(prefix+".y", 1, len(masks), cfg.ModelMaxLength, cfg.CaptionChannels)
	out := make([][]float32, len(masks))
	for i, mask := range masks {
		out[i] = pick(y[i*cfg.ModelMaxLength*cfg.CaptionChannels:], cfg.CaptionChannels, mask)
	}
	return out
}

// pick returns the rows of table (len(mask), width) whose mask is set.
func pick(table []float32, width int, mask []int) []float32 {
	var out []float32
	for i, m := range mask {
		if m != 0 {
			out = append(out, table[i*width:][:width]...)
		}
	}
	return out
}

// prefixLength returns the number of tokens of a mask whose set values come first, as the tokenizer's do.
func prefixLength(mask []int) (int, error) {
	n := 0
	for n < len(mask) && mask[n] != 0 {
		n++
	}
	if slices.ContainsFunc(mask[n:], func(m int) bool { return m != 0 }) {
		return 0, fmt.Errorf("mask %v has a gap", mask)
	}
	return n, nil
}
