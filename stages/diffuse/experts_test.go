package diffuse

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// twoConfig is a plain network whose second denoiser takes over at half of the noise.
var twoConfig = strings.Replace(plainConfig, `"depth": 3`, `"depth": 3, "boundary": 500`, 1)

// weightsOf are hashed weights of a plain network; prefix is put before the hashed names.
func weightsOf(t *testing.T, config, prefix string) []byte {
	t.Helper()
	p := &plain{}
	nntest.Decode(t, []byte(config), p)
	names := weights.ShapesOnly()
	if _, err := p.Load(names); err != nil {
		t.Fatal(err)
	}
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range names.Requested() {
		tensors[name] = nntest.Tensor(nntest.Weight(prefix+name, shape...), shape...)
	}
	var out strings.Builder
	if err := safetensors.Write(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return []byte(out.String())
}

// twoModel is a model with files, by their names.
func twoModel(t *testing.T, files map[string]string) *stages.Model {
	t.Helper()
	fs := fstest.MapFS{}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	m, err := stages.EmbeddedModel("two", fs)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// twoFiles are the files of a model of two denoisers; the second one has the weights of this prefix.
func twoFiles(t *testing.T, config, second string) map[string]string {
	t.Helper()
	return map[string]string{"transformer/config.json": config, "transformer_2/config.json": config,
		"transformer/model.safetensors":   string(weightsOf(t, config, "")),
		"transformer_2/model.safetensors": string(weightsOf(t, config, second))}
}

func twoStage(t *testing.T, files map[string]string, change func(o *plainOptions)) (*stage, error) {
	t.Helper()
	s, err := Spec([]dit.Family{plainFamily()}, nil, nil).New(twoModel(t, files), func(into any) error {
		if change != nil {
			change(into.(*plainOptions))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.(*stage), nil
}

// TestTwoDenoisers: a group of rows loads each denoiser once, and only one of them is on the device at a time. A row has the
// same bytes alone and in a group, and on any set. Two denoisers with the same weights give the bytes of one.
func TestTwoDenoisers(t *testing.T) {
	open := func(second string, change func(o *plainOptions)) *stage {
		t.Helper()
		s, err := twoStage(t, twoFiles(t, twoConfig, second), change)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open("second.", nil)
	be := cpu.New(1)
	group := batchOf(3, 17, 4)
	for _, e := range group {
		e.Row.NumInferenceSteps = 6
	}
	again := func() []*stages.Element {
		b := batchOf(3, 17, 4)
		for _, e := range b {
			e.Row.NumInferenceSteps = 6
		}
		return b
	}
	for n := range 2 {
		group := again()
		if err := s.Run(t.Context(), be, group); err != nil {
			t.Fatal(err)
		}
		if got := s.experts.loads.Load(); got != int64(2*(n+1)) {
			t.Errorf("%d groups load denoisers %d times, want two a group", n+1, got)
		}
		if s.Sharded.Resident(be) || !s.experts.second.Resident(be) {
			t.Error("both denoisers, or the wrong one, are on the device")
		}
	}
	if err := s.Run(t.Context(), be, group); err != nil {
		t.Fatal(err)
	}
	want := digest(t, group)
	one := again()[1:2]
	if err := s.Run(t.Context(), be, one); err != nil {
		t.Fatal(err)
	}
	if digest(t, one) != digest(t, group[1:2]) {
		t.Error("a row alone has other latents than in its group")
	}
	for name, set := range map[string]struct {
		speeds []float64
		change func(o *plainOptions)
	}{
		"2": {[]float64{1, 1}, nil}, "3": {[]float64{1, 0.3, 2}, nil}, "7": {[]float64{1, 1, 1, 1, 1, 1, 1}, nil},
		"tp 2":  {[]float64{1, 1}, func(o *plainOptions) { o.TPSize = 2 }},
		"2 x 2": {[]float64{1, 1, 1, 1}, func(o *plainOptions) { o.TPSize, o.SequenceParallel = 2, 2 }},
	} {
		batch := again()
		err := open("second.", set.change).RunSet(t.Context(), setOf(set.speeds, func() kernels.Backend { return cpu.New(1) }), batch)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if digest(t, batch) != want {
			t.Errorf("a set of %s gives other latents", name)
		}
	}
	same, single := again(), again()
	if err := open("", nil).Run(t.Context(), be, same); err != nil {
		t.Fatal(err)
	}
	if err := plainStage(t, nil).Run(t.Context(), be, single); err != nil {
		t.Fatal(err)
	}
	if digest(t, same) != digest(t, single) || digest(t, same) == want {
		t.Error("two equal denoisers differ from one, or the second one does nothing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx, be, again()); err == nil {
		t.Error("a cancelled run ended well")
	}
}

// TestTwoDenoisersAreRefused if they do not belong together, or if nothing says at which step the second takes over.
func TestTwoDenoisersAreRefused(t *testing.T) {
	other := strings.Replace(twoConfig, `"hidden_size": 8`, `"hidden_size": 12`, 1)
	for want, change := range map[string]func(f map[string]string){
		"": func(map[string]string) {},
		"has a boundary_ratio and no second denoiser in transformer_2": func(f map[string]string) {
			delete(f, "transformer_2/config.json")
		},
		"no boundary_ratio in model_index.json": func(f map[string]string) {
			f["transformer/config.json"], f["transformer_2/config.json"] = plainConfig, plainConfig
		},
		"belong to different models": func(f map[string]string) { f["transformer_2/config.json"] = other },
		"load transformer_2":         func(f map[string]string) { f["transformer_2/model.safetensors"] = string(weightsOf(t, other, "")) },
	} {
		files := twoFiles(t, twoConfig, "")
		change(files)
		_, err := twoStage(t, files, nil)
		nntest.WantError(t, want, err, want)
	}
	_, err := twoStage(t, twoFiles(t, twoConfig, ""), func(o *plainOptions) { o.PPSize = 2 })
	nntest.WantError(t, "pp_size", err, "models with two denoisers cannot be split by blocks")
	second := 3.0
	row := batchOf(1, 17, 4)[0].Row
	row.GuidanceScale2 = &second
	nntest.WantError(t, "one denoiser", plainStage(t, nil).Check(&row), "guidance_scale_2 is 3, but Plain has one denoiser")
}

// TestStepsOfEachDenoiser: a dry run says how many steps of a row each denoiser computes.
func TestStepsOfEachDenoiser(t *testing.T) {
	s, err := twoStage(t, twoFiles(t, twoConfig, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	row := batchOf(1, 17, 4)[0].Row
	row.NumInferenceSteps = 8
	const want = "of 8 steps transformer makes 2, and transformer_2 makes 6, those below timestep 500"
	if got := s.Capabilities().Remark(&row); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := plainStage(t, nil).Capabilities().Remark(&row); got != "" {
		t.Errorf("of one denoiser: %q", got)
	}
}

// TestGroup: the size of a group follows from the time for loading, and from the row's own parameters.
func TestGroup(t *testing.T) {
	s, err := twoStage(t, twoFiles(t, twoConfig, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	size := func(steps int) int {
		row := batchOf(1, 17, 4)[0].Row
		row.NumInferenceSteps = steps
		return s.Capabilities().Group(&row)
	}
	if few, many := size(2), size(schemas.MaxInferenceSteps); few <= many || many < 1 {
		t.Errorf("groups of %d for 2 steps and of %d for many", few, many)
	}
	if plainStage(t, nil).Capabilities().Group != nil {
		t.Error("a model of one denoiser has groups")
	}
	row := batchOf(1, 17, 4)[0].Row
	one, err := s.Need(&row, 1)
	if err != nil {
		t.Fatal(err)
	}
	if many, err := s.Need(&row, 8); err != nil || many != one {
		t.Errorf("8 elements need %d bytes, one %d: they pass one by one; %v", many, one, err)
	}
}
