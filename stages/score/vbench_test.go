package score

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"latentbeam/internal/media/resize"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	towers "latentbeam/stages/clip"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/raft"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// scored is a clip of testdata/make_vbench.py with what VBench's own functions make of it.
type scored struct {
	Kind                   string
	Height, Width, Frames  int
	FPS                    float64
	Prompt, Style          string
	Flickering, Subject    float64
	Background, Aesthetic  float64
	Similarity, Appearance float64
	Dynamic                bool
	Flows                  []float64
	Imaging, Smoothness    float64
	CPUSeconds             map[string]float64 // that VBench took, in full size
	TextFeatures           []float32
	ImageFeatures, DINO    []float32
}

type vbenchGoldens struct {
	clips  []scored
	scales map[string]float64
	flow   struct {
		Shape  []int
		Every  int
		Values []float32
	}
}

func vbenchGolden(t *testing.T) (g vbenchGoldens) {
	t.Helper()
	data := nntest.Golden(t, "../../testdata/golden/vbench.json")
	nntest.Decode(t, data["clips"], &g.clips)
	nntest.Decode(t, data["scales"], &g.scales)
	nntest.Decode(t, data["flow"], &g.flow)
	return g
}

// rgb is frame t of a clip.
func (c scored) rgb(t int) []byte {
	out := make([]byte, c.Height*c.Width*3)
	for i := range out {
		y, x, ch := i/3/c.Width, i/3%c.Width, i%3
		out[i] = byte(c.pixel(t, y, x, ch))
	}
	return out
}

func (c scored) pixel(t, y, x, ch int) int {
	switch c.Kind {
	case "noise":
		v := uint32(t*1000003 + y*4099 + x*3 + ch)
		v ^= v >> 16
		v *= 0x85ebca6b
		v ^= v >> 13
		v *= 0xc2b2ae35
		return int(v ^ v>>16)
	case "flash":
		return t % 2 * 255
	}
	speed := map[string]int{"drift": 2, "fast": 9, "cuts": 1, "blink": 1}[c.Kind]
	sx, sy := x+speed*t, y+speed*t/2
	v := (sx*5 + sy*3*(ch+1) + (sx/16+sy/12)%2*90 + sx*sy/64) & 255
	switch {
	case c.Kind == "cuts" && t/2%2 == 1:
		return (x/8)*(y/6)*(ch+2) + 40*ch + 31*(t/2)
	case c.Kind == "blink":
		return v/8 + t%2*220
	case c.Kind == "fade":
		return v * (8 - min(t, 8)) / 8
	}
	return v
}

// values are the weights of make_vbench.py.
func (g vbenchGoldens) values(prefix, name string, shape ...int) []float32 {
	full := prefix + name
	var out []float32
	switch weight := strings.HasSuffix(name, ".weight"); {
	case name == "logit_scale":
		return []float32{float32(math.Log(100))}
	case strings.HasSuffix(name, "running_var"):
		out = nntest.Hash(full, 0.5, shape...)
		for i := range out {
			out[i]++
		}
	case strings.HasSuffix(name, "in_proj_weight") || weight && len(shape) > 1:
		out = nntest.Hash(full, math.Sqrt(3/float64(kernels.Elements(shape[1:]))), shape...)
	default:
		out = nntest.Hash(full, 0.1, shape...)
		for i := range out {
			if weight {
				out[i]++
			}
		}
	}
	factor := float32(1)
	for end, scale := range g.scales {
		if strings.HasSuffix(name, end) {
			factor = float32(scale)
		}
	}
	if name == "visual.proj" || name == "text_projection" {
		factor = 5
	}
	for i := range out {
		out[i] *= factor
	}
	return out
}

func (g vbenchGoldens) tensors(prefix string, shapes map[string][]int) map[string]safetensors.Tensor {
	out := map[string]safetensors.Tensor{}
	for name, shape := range shapes {
		out[name] = nntest.Tensor(g.values(prefix, name, shape...), shape...)
	}
	return out
}

// originalCLIP are the tensors of CLIP's own code.
func originalCLIP(embed, width, patch, layers, textWidth int) map[string][]int {
	side := 224/patch*(224/patch) + 1
	s := map[string][]int{"visual.class_embedding": {width}, "visual.positional_embedding": {side, width}, "visual.proj": {width, embed},
		"visual.conv1.weight": {width, 3, patch, patch}, "positional_embedding": {77, textWidth}, "text_projection": {textWidth, embed},
		"token_embedding.weight": {49408, textWidth}, "logit_scale": {}}
	norm := func(name string, c int) { s[name+".weight"], s[name+".bias"] = []int{c}, []int{c} }
	norm("visual.ln_pre", width)
	norm("visual.ln_post", width)
	norm("ln_final", textWidth)
	for tower, c := range map[string]int{"visual.transformer": width, "transformer": textWidth} {
		for i := range layers {
			at := fmt.Sprintf("%s.resblocks.%d.", tower, i)
			norm(at+"ln_1", c)
			norm(at+"ln_2", c)
			s[at+"attn.in_proj_weight"], s[at+"attn.in_proj_bias"] = []int{3 * c, c}, []int{3 * c}
			for name, shape := range map[string][]int{"attn.out_proj": {c, c}, "mlp.c_fc": {4 * c, c}, "mlp.c_proj": {c, 4 * c}} {
				s[at+name+".weight"], s[at+name+".bias"] = shape, shape[:1]
			}
		}
	}
	return s
}

// originalDINO are the tensors of DINO's own code.
func originalDINO(c, layers int) map[string][]int {
	s := map[string][]int{"cls_token": {1, 1, c}, "pos_embed": {1, 197, c}, "patch_embed.proj.weight": {c, 3, 16, 16}, "patch_embed.proj.bias": {c},
		"norm.weight": {c}, "norm.bias": {c}}
	for i := range layers {
		at := fmt.Sprintf("blocks.%d.", i)
		for name, shape := range map[string][]int{"norm1": {c}, "norm2": {c}, "attn.qkv": {3 * c, c}, "attn.proj": {c, c}, "mlp.fc1": {4 * c, c},
			"mlp.fc2": {c, 4 * c}} {
			s[at+name+".weight"], s[at+name+".bias"] = shape, shape[:1]
		}
	}
	return s
}

// originalRAFT are the tensors of princeton-vl/RAFT, saved from DataParallel.
func originalRAFT(t *testing.T) map[string][]int {
	t.Helper()
	return nntest.Shapes(t, raft.Config{}, raft.Load)
}

// files writes the weights in the names of their own code and returns where they are.
func (g vbenchGoldens) files(t *testing.T) map[string]string {
	t.Helper()
	dir, out := t.TempDir(), map[string]string{}
	write := func(name string, tensors map[string]safetensors.Tensor) {
		out[name] = filepath.Join(dir, name+".safetensors")
		f, err := os.Create(out[name])
		if err == nil {
			err = safetensors.Write(f, tensors, nil)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	write(clipB32, g.tensors("b32.", originalCLIP(16, 128, 32, 2, 64)))
	write(clipL14, g.tensors("l14.", originalCLIP(24, 64, 56, 2, 64)))
	write(dinoB16, g.tensors("dino.", originalDINO(64, 2)))
	parallel := map[string]safetensors.Tensor{}
	for name, tensor := range g.tensors("raft.", originalRAFT(t)) {
		parallel["module."+name] = tensor
	}
	write(raftThings, parallel)
	write(aestheticHead, map[string]safetensors.Tensor{"weight": nntest.Tensor(nntest.Hash("head.weight", 40, 1, 24), 1, 24),
		"bias": nntest.Tensor([]float32{5}, 1)})
	return out
}

// published are the measures with weights, and temporal_flickering.
var published = []string{flickeringName, subjectName, backgroundName, aestheticName, similarityName, appearanceName, dynamicName}

// read returns what the measures read off a clip.
func (c scored) read(t *testing.T, dev kernels.Backend, all []*open) map[string]string {
	t.Helper()
	return c.readFrames(t, dev, all, c.rgb)
}

func (c scored) readFrames(t *testing.T, dev kernels.Backend, all []*open, frame func(i int) []byte) map[string]string {
	t.Helper()
	row := &schemas.PromptRow{Prompt: c.Prompt, Extra: fmt.Sprintf(`{"style": %q}`, c.Style)}
	got, err := measureClip(t.Context(), dev, all, clip{frames: c.Frames, height: c.Height, width: c.Width, fps: c.FPS, row: row},
		func(rgb []byte, i int) error {
			copy(rgb, frame(i))
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range got {
		maps.Copy(out, m)
	}
	return out
}

// compare fails the test where readings differ from VBench's by more than a ten-thousandth.
func (c scored) compare(t *testing.T, got map[string]string) map[string]float64 {
	t.Helper()
	mean := 0.0
	for _, f := range c.Flows {
		mean += f / float64(len(c.Flows))
	}
	all := map[string]float64{flickeringName: c.Flickering, subjectName: c.Subject, backgroundName: c.Background,
		aestheticName: c.Aesthetic, similarityName: c.Similarity, appearanceName: c.Appearance, flowName: mean}
	for name, want := range all {
		v, err := strconv.ParseFloat(got[name], 64)
		allowed := 1e-4*math.Abs(want) + 1e-6
		if name == aestheticName { // a sum whose parts cancel each other: of its range from 0 to 1
			allowed = max(allowed, 1e-4)
		}
		if name == similarityName { // its frames are rounded to bytes, and halves depend on PyTorch's order of sums: of the range of a cosine
			allowed = 1e-4
		}
		if diff := math.Abs(v - want); err != nil || !(diff <= allowed) {
			t.Errorf("%s: %s is %q (%v), want %v", c.Kind, name, got[name], err, want)
		}
	}
	if moves := map[bool]string{true: "1", false: "0"}[c.Dynamic]; got[dynamicName] != moves {
		t.Errorf("%s: dynamic_degree is %s, want %s", c.Kind, got[dynamicName], moves)
	}
	return all
}

// cpuSeconds is the time of processors that this process has taken, on Linux.
func cpuSeconds() float64 {
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data)) // the name of the program has no space
	user, _ := strconv.ParseFloat(fields[13], 64)
	system, _ := strconv.ParseFloat(fields[14], 64)
	return (user + system) / 100
}

// TestFullSize compares models of the published sizes with VBench's, and their time on one processor: LATENTBEAM_VBENCH names
// a directory made by make_vbench.py, and GOMAXPROCS is 1.
func TestFullSize(t *testing.T) {
	dir := os.Getenv("LATENTBEAM_VBENCH")
	if dir == "" {
		t.Skip("set LATENTBEAM_VBENCH to a directory of weights to run it")
	}
	var clips []scored
	nntest.Decode(t, nntest.Golden(t, filepath.Join(dir, "vbench.json"))["clips"], &clips)
	files := map[string]string{}
	for name := range publishedWeights {
		files[name] = filepath.Join(dir, name+".safetensors")
	}
	all, err := openMeasures(&options{By: append(slices.Clone(published), imagingName, smoothnessName), Weights: files})
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{flickeringName: "Flickering", subjectName: "Subject", backgroundName: "Background", aestheticName: "Aesthetic",
		similarityName: "Similarity", appearanceName: "Appearance", dynamicName: "Dynamic", imagingName: "Imaging", smoothnessName: "Smoothness"}
	dev := cpu.New(0)
	for _, c := range clips {
		var frames [][]byte
		for i := range c.Frames {
			frames = append(frames, c.rgb(i))
		}
		read := func(all []*open) map[string]string {
			return c.readFrames(t, dev, all, func(i int) []byte { return frames[i] })
		}
		read(all) // weights are packed
		began := cpuSeconds()
		got := read(all)
		took, sum := cpuSeconds()-began, 0.0
		c.compare(t, got)
		for name, want := range map[string]float64{imagingName: c.Imaging, smoothnessName: c.Smoothness} {
			if v, err := strconv.ParseFloat(got[name], 64); err != nil || !(math.Abs(v-want) <= 1e-4*want) {
				t.Errorf("%s is %q (%v), want %v", name, got[name], err, want)
			}
		}
		for _, m := range all {
			began := cpuSeconds()
			read([]*open{m})
			one, vbench := cpuSeconds()-began, c.CPUSeconds[theirs[m.Name]]
			sum += vbench
			t.Logf("%s alone: %.2f s, VBench %.2f s: %.2f times", m.Name, one, vbench, vbench/one)
		}
		t.Logf("%v: all together %.2f s of the processors, VBench %.2f s: %.2f times", got, took, sum, sum/took)
	}
}

// TestLikeVBench compares all measures with VBench's own code, and with themselves on other threads.
func TestLikeVBench(t *testing.T) {
	g := vbenchGolden(t)
	all, err := openMeasures(&options{By: published, Weights: g.files(t)})
	if err != nil {
		t.Fatal(err)
	}
	spread := map[string][]float64{}
	dev := cpu.New(2)
	for _, c := range g.clips {
		got := c.read(t, dev, all)
		for name, want := range c.compare(t, got) {
			spread[name] = append(spread[name], want)
		}
		if c.Kind == "drift" && !testing.Short() {
			if again := c.read(t, cpu.New(1), all); !maps.Equal(got, again) {
				t.Errorf("on another number of threads: %v, want %v", again, got)
			}
		}
	}
	ranges := map[string]float64{flickeringName: 1, subjectName: 1, backgroundName: 1, aestheticName: 1, similarityName: 2, appearanceName: 2}
	for name, of := range ranges {
		if wide := slices.Max(spread[name]) - slices.Min(spread[name]); wide < of/3 {
			t.Errorf("%s varies by %g alone", name, wide)
		}
	}
}

// near fails the test unless the largest difference is a ten-thousandth of the largest value.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	diff, largest := nntest.MaxDiff(got, want)
	t.Logf("%s: largest difference %.2g of %.3g", what, diff, largest)
	if !(diff <= 1e-4*largest) || largest == 0 {
		t.Errorf("%s differs by %g of %g", what, diff, largest)
	}
}

// TestFeaturesLikeVBench compares the features of a frame and of a text, before any cosine, and a flow.
func TestFeaturesLikeVBench(t *testing.T) {
	g := vbenchGolden(t)
	o := &options{Weights: g.files(t)}
	dev := cpu.New(2)
	clipB, err := openCLIP(o, clipB32)
	pair := on(t, dev, clipB, err)
	dinoB, err := openDINO(o)
	dino := on(t, dev, dinoB, err)
	things, err := openRAFT(o)
	flow := on(t, dev, things, err)
	for _, c := range g.clips {
		func() {
			defer dev.Scope()()
			rgb := c.rgb(c.Frames - 1)
			k := clip{frames: c.Frames, height: c.Height, width: c.Width}
			to := shorter(c.Height, c.Width, 224)
			read, err := interpolated(k, resize.Bicubic, to, middle(to, 224), byCLIP)
			if err != nil {
				t.Fatal(err)
			}
			f := frame{width: c.Width, height: c.Height, rgb: rgb}
			pixels := make([]float32, 3*224*224)
			read(pixels, f)
			near(t, c.Kind+" CLIP image", nntest.Values(t, dev, pair.Images(dev, pixels)), c.ImageFeatures)
			near(t, c.Kind+" CLIP text", nntest.Values(t, dev, pair.Text(dev, towers.Tokenize(c.Prompt))), c.TextFeatures)
			if read, err = interpolated(k, resize.Bilinear, to, resize.Rect{Width: to.Width, Height: to.Height}, byImageNet); err != nil {
				t.Fatal(err)
			}
			pixels = make([]float32, 3*to.Width*to.Height)
			read(pixels, f)
			class, err := dino.Encode(dev, pixels, to.Height, to.Width)
			if err != nil {
				t.Fatal(err)
			}
			near(t, c.Kind+" DINO", nntest.Values(t, dev, class), c.DINO)
		}()
	}
	c := g.clips[slices.IndexFunc(g.clips, func(c scored) bool { return c.Kind == "drift" })]
	first, err := flow.Prepare(dev, c.rgb(0), c.Height, c.Width)
	if err != nil {
		t.Fatal(err)
	}
	second, err := flow.Prepare(dev, c.rgb(1), c.Height, c.Width)
	if err != nil {
		t.Fatal(err)
	}
	all, err := flow.Flow(context.Background(), dev, first, second, flowIterations)
	if err != nil || len(all) != kernels.Elements(g.flow.Shape) {
		t.Fatal(err, len(all))
	}
	var some []float32
	for i := 0; i < len(all); i += g.flow.Every {
		some = append(some, all[i])
	}
	near(t, "RAFT", some, g.flow.Values)
}

// on brings a model to a device.
func on[C, M any](t *testing.T, dev kernels.Backend, c *weights.Component[C, M], err error) *M {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.On(dev)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestOtherNames: weights with the names of transformers and torchvision give the same features, bit for bit.
func TestOtherNames(t *testing.T) {
	g := vbenchGolden(t)
	files := g.files(t)
	dev := cpu.New(2)
	c := g.clips[slices.IndexFunc(g.clips, func(c scored) bool { return c.Kind == "drift" })]
	c.Frames = 2
	read := func(files map[string]string) map[string]string {
		all, err := openMeasures(&options{By: []string{subjectName, similarityName, appearanceName, dynamicName}, Weights: files})
		if err != nil {
			t.Fatal(err)
		}
		return c.read(t, dev, all)
	}
	want := read(files)
	other := maps.Clone(files)
	rewrite := func(name string, rules ...weights.Rule) {
		f := nntest.Open(t, files[name])
		out := map[string]safetensors.Tensor{}
		for _, n := range f.Names() {
			tensor, _ := f.Tensor(n)
			for _, r := range rules {
				if pattern := regexp.MustCompile("^" + r.Pattern + "$"); pattern.MatchString(n) {
					n = pattern.ReplaceAllString(n, r.To)
					break
				}
			}
			v := nntest.Floats(t, tensor)
			switch {
			case strings.Contains(n, "QKV"): // three of one
				parts := []string{"q_proj", "k_proj", "v_proj"}
				if name == dinoB16 {
					parts = []string{"query", "key", "value"}
				}
				shape := slices.Clone(tensor.Shape)
				shape[0] /= 3
				for i, part := range parts {
					out[strings.Replace(n, "QKV", part, 1)] = nntest.Tensor(v[i*len(v)/3:(i+1)*len(v)/3], shape...)
				}
			case strings.HasSuffix(n, "projection.weight") && name == clipB32: // the other way round
				rows, columns := tensor.Shape[0], tensor.Shape[1]
				turned := make([]float32, len(v))
				for i, x := range v {
					turned[i%columns*rows+i/columns] = x
				}
				out[n] = nntest.Tensor(turned, columns, rows)
			default:
				out[n] = tensor
			}
		}
		other[name] = filepath.Join(t.TempDir(), "model.safetensors")
		file, err := os.Create(other[name])
		if err == nil {
			err = safetensors.Write(file, out, nil)
		}
		if err != nil || file.Close() != nil {
			t.Fatal(err)
		}
	}
	layer := func(prefix, to string) []weights.Rule {
		at, to := prefix+`resblocks\.(\d+)\.`, to+".encoder.layers.$1."
		return weights.Rules(at+`attn\.in_proj_(.*)`, to+"self_attn.QKV.$2", at+`attn\.(.*)`, to+"self_attn.$2", at+`ln_(\d.*)`, to+"layer_norm$2",
			at+`mlp\.c_fc(.*)`, to+"mlp.fc1$2", at+`mlp\.c_proj(.*)`, to+"mlp.fc2$2")
	}
	rewrite(clipB32, slices.Concat(layer(`visual\.transformer\.`, "vision_model"), layer(`transformer\.`, "text_model"), weights.Rules(
		`visual\.class_embedding`, "vision_model.embeddings.class_embedding", `visual\.positional_embedding`, "vision_model.embeddings.position_embedding.weight",
		`visual\.conv1\.weight`, "vision_model.embeddings.patch_embedding.weight", `visual\.ln_pre(.*)`, "vision_model.pre_layrnorm$1",
		`visual\.ln_post(.*)`, "vision_model.post_layernorm$1", `visual\.proj`, "visual_projection.weight", `text_projection`, "text_projection.weight",
		`positional_embedding`, "text_model.embeddings.position_embedding.weight", `token_embedding(.*)`, "text_model.embeddings.token_embedding$1",
		`ln_final(.*)`, "text_model.final_layer_norm$1"))...)
	at, to := `blocks\.(\d+)\.`, "encoder.layer.$1."
	rewrite(dinoB16, weights.Rules(at+`attn\.qkv(.*)`, to+"attention.attention.QKV$2", at+`attn\.proj(.*)`, to+"attention.output.dense$2",
		at+`norm1(.*)`, to+"layernorm_before$2", at+`norm2(.*)`, to+"layernorm_after$2", at+`mlp\.fc1(.*)`, to+"intermediate.dense$2",
		at+`mlp\.fc2(.*)`, to+"output.dense$2", `cls_token`, "embeddings.cls_token", `pos_embed`, "embeddings.position_embeddings",
		`patch_embed\.proj(.*)`, "embeddings.patch_embeddings.projection$1", `norm(.*)`, "layernorm$1")...)
	rewrite(raftThings, weights.Rules(`module\.fnet\.conv1(.*)`, "feature_encoder.convnormrelu.0$1", `module\.fnet\.conv2(.*)`, "feature_encoder.conv$1",
		`module\.cnet\.conv1(.*)`, "context_encoder.convnormrelu.0$1", `module\.cnet\.norm1(.*)`, "context_encoder.convnormrelu.1$1",
		`module\.cnet\.conv2(.*)`, "context_encoder.conv$1",
		`module\.fnet\.(layer\d\.\d)\.conv(\d)(.*)`, "feature_encoder.$1.convnormrelu$2.0$3", `module\.fnet(.*)`, "feature_encoder$1",
		`module\.cnet\.(layer\d\.\d)\.conv(\d)(.*)`, "context_encoder.$1.convnormrelu$2.0$3",
		`module\.cnet\.(layer\d\.\d)\.norm(\d)(.*)`, "context_encoder.$1.convnormrelu$2.1$3", `module\.cnet(.*)`, "context_encoder$1",
		`module\.update_block\.encoder\.convc(\d)(.*)`, "update_block.motion_encoder.convcorr$1.0$2",
		`module\.update_block\.encoder\.convf(\d)(.*)`, "update_block.motion_encoder.convflow$1.0$2",
		`module\.update_block\.encoder\.conv(.*)`, "update_block.motion_encoder.conv.0$1",
		`module\.update_block\.gru\.conv([zrq])(\d)(.*)`, "update_block.recurrent_block.convgru$2.conv$1$3",
		`module\.update_block\.mask\.0(.*)`, "mask_predictor.convrelu.0$1", `module\.update_block\.mask\.2(.*)`, "mask_predictor.conv$1",
		`module\.(.*)`, "$1")...)
	if got := read(other); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestWrongWeights: an error about weights names the weights that are needed, in one line.
func TestWrongWeights(t *testing.T) {
	g := vbenchGolden(t)
	files := g.files(t)
	for name, by := range map[string]string{dinoB16: subjectName, clipB32: backgroundName, clipL14: aestheticName, raftThings: dynamicName,
		aestheticHead: aestheticName} {
		other := maps.Clone(files)
		other[name] = files[map[bool]string{true: clipB32, false: raftThings}[name == raftThings]]
		if name == clipB32 {
			other[name] = files[dinoB16]
		}
		if name == clipL14 {
			other[name] = files[dinoB16]
		}
		_, err := openMeasures(&options{By: []string{by}, Weights: other})
		nntest.WantError(t, name, err, "weights of "+name)
		other[name] = filepath.Join(t.TempDir(), "none.safetensors")
		_, err = openMeasures(&options{By: []string{by}, Weights: other})
		nntest.WantError(t, name, err, "weights of "+name)
	}
	o := &options{By: published, Weights: map[string]string{"clip_b23": "x"}, CutThreshold: 27, BlackLevel: 24}
	_, err := o.stage(scoreName)
	nntest.WantError(t, "an unknown name", err, `weights names "clip_b23"`)
}
