package stdit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

const goldenDir = "../../testdata/golden/"

// Tolerances against the reference in fp32, as shares of the largest value. In bf16 see bf16_test.go.
const (
	forwardTolerance = 1e-5
	sampleTolerance  = 1e-4
)

// goldenCase is one case of a golden file: those of the fields that concern the denoisers.
type goldenCase struct {
	DType       string          `json:"dtype"`
	Config      json.RawMessage `json:"config"`
	XShape      []int           `json:"x_shape"`
	Timestep    []float32       `json:"timestep"`
	Mask        [][]int         `json:"mask"`
	XMask       [][]mark        `json:"x_mask"` // (B)(T), 0: a given frame
	InputPrefix string          `json:"input_prefix"`
	NoisePrefix string          `json:"noise_prefix"`

	NumFrames   number `json:"num_frames"`
	Height      number `json:"height"`
	Width       number `json:"width"`
	AspectRatio number `json:"ar"`
	FPS         fps    `json:"fps"`
	MaskIndex   []int  `json:"mask_index"` // frames given to 1.3, of the latents H("<input>.cond", 1.7)

	TimestepMap      []int   `json:"timestep_map"`
	NumSamplingSteps int     `json:"num_sampling_steps"`
	CFGScale         float32 `json:"cfg_scale"`
	CFGChannels      int     `json:"cfg_channels"`

	FrameMasks [][]float32 `json:"frame_masks"` // edit ratio of each frame of each element
	Image      *imageCase  `json:"image"`

	OutShape  []int     `json:"out_shape"`
	Out       []float32 `json:"out"`
	Tolerance float64   `json:"tolerance"` // share of the largest value, where the case states its own
	Spatial   []float32 `json:"spatial"`
	Temporal  []float32 `json:"temporal"`
	Note      string    `json:"note"`

	version Version
}

// fps is one frame rate for all rows, or a list with one for each.
type fps []float64

// UnmarshalJSON takes a number or a list.
func (f *fps) UnmarshalJSON(data []byte) error {
	var one float64
	if json.Unmarshal(data, &one) == nil {
		*f = fps{one}
		return nil
	}
	return json.Unmarshal(data, (*[]float64)(f))
}

// number is one value for the whole batch, written as such or as a list with the same for each row.
type number float64

// UnmarshalJSON takes a number or a list.
func (n *number) UnmarshalJSON(data []byte) error {
	var list fps
	if err := list.UnmarshalJSON(data); err != nil || len(list) == 0 {
		return fmt.Errorf("%s is no number: %w", data, err)
	}
	*n = number(list[0])
	return nil
}

// mark is 0 or false, 1 or true.
type mark bool

// UnmarshalJSON takes a number or a truth value.
func (m *mark) UnmarshalJSON(data []byte) error {
	*m = mark(!slices.Contains([]string{"0", "0.0", "false"}, string(data)))
	return nil
}

func (c goldenCase) conditions() Conditions {
	return Conditions{Height: float64(c.Height), Width: float64(c.Width), NumFrames: float64(c.NumFrames),
		AspectRatio: float64(c.AspectRatio), FPS: c.FPS}
}

// config returns the model of the case: keys missing in its config have the defaults of the reference's class. Some
// of these differ from the published values.
func (c goldenCase) config(t *testing.T) Config {
	t.Helper()
	cfg := DefaultConfig(c.version)
	switch c.version {
	case OpenSora11:
		cfg.InputSqSize, cfg.QKNorm, cfg.ModelMaxLength = 32, false, 120
	case OpenSora13:
		cfg.KernelSize, cfg.UseSpatialRope = nil, false
	}
	nntest.Decode(t, c.Config, &cfg)
	switch c.DType {
	case "bf16":
		cfg.DType = kernels.BF16
	case "fp16":
		cfg.DType = kernels.F16
	}
	if err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// defaultModel is the case whose config and mask a case takes when it names none.
const defaultModel = "stdit_v1_0_fp32"

// TestGolden runs every case that this package supports, from the committed file or from the file that LATENTBEAM_GOLDEN
// names.
func TestGolden(t *testing.T) {
	if ran := runGolden(t, nntest.OpenSora(t, goldenDir+"open-sora.json")); ran == 0 {
		t.Error("the file holds no Open-Sora 1.0 case in fp32")
	}
}

// TestGoldenOptions runs the cases with per-row masks, no mask, other prefixes and other step counts, and those
// of all versions on odd sizes.
func TestGoldenOptions(t *testing.T) {
	for _, name := range []string{"open-sora-more.json", "open-sora-denoisers.json", "open-sora-runs.json"} {
		cases := nntest.Golden(t, goldenDir+name)
		if ran := runGolden(t, cases); ran != len(cases) {
			t.Errorf("%s: %d of %d cases ran", name, ran, len(cases))
		}
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
	cfg := c.config(t)
	got := newHarness(t, cfg, 2).forward(t, c.input(t, cfg))
	diff, largest := nntest.MaxDiff(got, c.Out)
	rms := nntest.RelativeRMS(got, c.Out)
	t.Logf("largest difference %.2g of %.3g, relative RMS %.4g", diff, largest, rms)
	if cfg.DType != kernels.F32 {
		checkBF16(t, c, rms)
	} else if diff > forwardTolerance*largest {
		t.Errorf("differs by %g from the reference, want at most %g", diff, forwardTolerance*largest)
	}
}

// input returns the input of the case's model.
func (c goldenCase) input(t *testing.T, cfg Config) input {
	t.Helper()
	shape := c.XShape
	if shape == nil {
		shape = append([]int{c.OutShape[0], cfg.InChannels}, c.OutShape[2:]...)
	}
	in := input{shape: shape, x: nntest.Hash(c.InputPrefix+".x", 1.7, shape...), timesteps: c.Timestep,
		texts: captions(cfg, c.InputPrefix, masks(t, c.Mask, shape[0], cfg.ModelMaxLength)), cond: c.conditions()}
	for _, row := range c.XMask {
		for _, m := range row {
			in.generated = append(in.generated, bool(m))
		}
	}
	if c.MaskIndex != nil {
		in.frames, in.given = c.MaskIndex, nntest.Hash(c.InputPrefix+".cond", 1.7, shape...)
		in.givenMask = nntest.Hash(c.InputPrefix+".cond_mask", 1, shape...)
	}
	return in
}

func checkPositions(t *testing.T, c goldenCase) {
	var hidden, rows, cols int
	var scale float64
	const format = "hidden %d, grid (%d,%d), scale %g"
	if _, err := fmt.Sscanf(c.Note, format, &hidden, &rows, &cols, &scale); err != nil {
		t.Fatalf("note %q: %v", c.Note, err)
	}
	diff, _ := nntest.MaxDiff(nn.SinCos2D(hidden, cols, nn.Span{Len: rows * cols}, scale), c.Spatial)
	temporal, _ := nntest.MaxDiff(nn.SinCos1D(hidden, nn.Span{Len: len(c.Temporal) / hidden}, 1), c.Temporal)
	if diff > 1e-6 || temporal > 1e-6 {
		t.Errorf("positions differ by %g in space and %g in time", diff, temporal)
	}
}

func checkGridPositions(t *testing.T, c goldenCase) {
	var hidden, side, base int
	var height, width, square float64
	const format = "hidden %d, H=W=%d, scale sqrt(%g*%g)/%g, base_size %d"
	if _, err := fmt.Sscanf(c.Note, format, &hidden, &side, &height, &width, &square, &base); err != nil {
		t.Fatalf("note %q: %v", c.Note, err)
	}
	table := nn.SinCosGrid(kernels.F32, hidden, side, side, nn.Span{Len: side * side}, math.Sqrt(height*width)/square)
	if diff, _ := nntest.MaxDiff(table, c.Spatial); diff > 1e-6 || base != side {
		t.Errorf("positions differ by %g at base size %d", diff, base)
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
