package diffuse

import (
	"encoding/json"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// TestPick: the network is that of the model's own config.json; an unknown one is named, with the families there are.
func TestPick(t *testing.T) {
	spec := Spec([]dit.Family{otherFamily, plainFamily()}, nil, nil)
	if want := "Other (1 to 3), Plain (none published): text to latents; sampler, cache, dtype, precision: int8, cfg_channel, a, b, cond_type, " +
		"sequence_parallel, partition, tp_size, pp_size"; spec.Doc != want {
		t.Errorf("the stage says of itself %q, want %q", spec.Doc, want)
	}
	for config, want := range map[string]string{
		plainConfig: "",
		`{"_class_name": "WanTransformer3DModel"}`: `the architecture is "WanTransformer3DModel"; the denoiser runs ` +
			"Other (1 to 3), Plain (none published)",
		`{"model_type": "PlainModel", "architectures": ["UNet"]}`: `the architecture is "UNet"`,
		`{`: "parse config.json of the denoiser",
	} {
		_, err := spec.New(modelOf(t, config), nil)
		nntest.WantError(t, config, err, want)
	}
}

// TestOptionsOfBoth: one map has the options of the stage and of the family, and unknown keys are errors. The options that
// change a result are in the key, in this order.
func TestOptionsOfBoth(t *testing.T) {
	for text, want := range map[string]string{
		"{cond_type: i2v_head, tp_size: 2, partition: pad}": "",
		"\nno_such_option: 1":                               `denoise:2`,
		"{cond_type: i2v_head, dtype: [1]}":                 "denoise.dtype must be a text",
		"tp_size: 3":                                        "tp_size is 3: the 2 heads",
		"partition: odd":                                    `partition is "odd"`,
		"cfg_channel: 1":                                    "cfg_channel is 1: Plain guides all channels",
	} {
		o, err := config.ParseOptions("denoise", text)
		if err != nil {
			t.Fatal(err)
		}
		var decoded any
		_, err = Spec([]dit.Family{plainFamily()}, nil, nil).New(modelOf(t, plainConfig), func(into any) error {
			decoded = into
			return o.Decode(into)
		})
		nntest.WantError(t, text, err, want)
		if key, _ := json.Marshal(decoded); want == "" && string(key) != `{"cfg_channel":0,"cond_type":"i2v_head"}` {
			t.Errorf("%s: the key has %s", text, key)
		}
	}
}

// TestPlainOnAnySet: the plain network runs in the whole stage, alone and on sets, with the same bytes.
func TestPlainOnAnySet(t *testing.T) {
	for _, guidance := range []float64{1, 4} {
		s := plainStage(t, nil)
		one := batchOf(3, 33, guidance)
		if err := s.Check(&one[0].Row); err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context(), cpu.New(1), one); err != nil {
			t.Fatal(err)
		}
		want := digest(t, one)
		for ranks := 2; ranks <= 3; ranks++ {
			for _, pipeline := range []int{1, ranks} {
				s := plainStage(t, func(o *plainOptions) { o.PPSize = schemas.AutoInt(pipeline) })
				for i, speeds := range [][]float64{sequence.Equal(ranks), {1, 0.3, 2}} {
					many := batchOf(3, 33, guidance)
					set := setOf(speeds[:ranks], func() kernels.Backend {
						if i == 1 {
							return kerneltest.Deferred(cpu.New(2))
						}
						return cpu.New(1)
					})
					if err := s.RunSet(t.Context(), set, many); err != nil {
						t.Fatal(err)
					}
					if digest(t, many) != want {
						t.Errorf("guidance %g: other bytes on %v, %d of them in a pipeline", guidance, speeds[:ranks], pipeline)
					}
				}
			}
		}
		other := batchOf(3, 33, guidance)
		other[1].Text.Embedding = other[0].Text.Embedding
		if err := s.Run(t.Context(), cpu.New(1), other); err != nil {
			t.Fatal(err)
		}
		if digest(t, other) == want {
			t.Error("the text does not count")
		}
	}
}

// fullConfig is a network with attention over all tokens.
var fullConfig = strings.Replace(plainConfig, "{", `{"full": true, `, 1)

// TestFullOnAnySet: a network with attention over all tokens of a video, rotary positions and a mask runs in the whole stage
// on sets that split columns, heads and blocks, with the bytes of one device.
func TestFullOnAnySet(t *testing.T) {
	one := batchOf(3, 33, 4)
	if err := stageOf(t, fullConfig, nil).Run(t.Context(), cpu.New(1), one); err != nil {
		t.Fatal(err)
	}
	want := digest(t, one)
	plainOne := batchOf(3, 33, 4)
	if err := plainStage(t, nil).Run(t.Context(), cpu.New(1), plainOne); err != nil || digest(t, plainOne) == want {
		t.Errorf("attention does nothing, or %v", err)
	}
	for _, g := range [][3]int{{2, 1, 1}, {3, 1, 1}, {5, 1, 1}, {7, 1, 1}, {1, 2, 1}, {3, 2, 1}, {1, 1, 3}, {2, 2, 2}} {
		for _, partition := range []string{"uneven", "pad"} {
			s := stageOf(t, fullConfig, func(o *plainOptions) {
				o.SequenceParallel, o.TPSize, o.PPSize = schemas.AutoInt(g[0]), schemas.AutoInt(g[1]), schemas.AutoInt(g[2])
				o.Partition = partition
			})
			many := batchOf(3, 33, 4)
			set := setOf(sequence.Equal(g[0]*g[1]*g[2]), func() kernels.Backend { return kerneltest.Deferred(cpu.New(1)) })
			if err := s.RunSet(t.Context(), set, many); err != nil {
				t.Fatalf("%v, %s: %v", g, partition, err)
			}
			if digest(t, many) != want {
				t.Errorf("%v, %s: other bytes", g, partition)
			}
		}
	}
	cost, err := stageOf(t, fullConfig, nil).Cost(&one[0].Row)
	if err != nil || !cost.Split.Shape.Full {
		t.Errorf("%+v, %v", cost.Split, err)
	}
}

// TestPlainIsMeasured: memory and cost come from the network's own code.
func TestPlainIsMeasured(t *testing.T) {
	s := plainStage(t, nil)
	row := batchOf(1, 33, 4)[0].Row
	one, err := s.Need(&row, 1)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Need(&row, 2)
	if err != nil || one <= 0 || two <= one {
		t.Errorf("1 and 2 elements need %d and %d bytes, %v", one, two, err)
	}
	cost, err := s.Cost(&row)
	if err != nil {
		t.Fatal(err)
	}
	tokens := float64(2 * 10 * 2 * 3) // branches, frames, patches
	if want := 3 * tokens * 2 * (8*8 + 3*8*8 + 8*8); cost.Work < want || cost.Work > 1.01*want {
		t.Errorf("%g FLOP for 3 steps, want %g and the texts", cost.Work, want)
	}
	if len(cost.Parts) != 4 || cost.Split.Shape.Frames != 10 || cost.Rounds != 3 {
		t.Errorf("%+v", cost)
	}
}

// TestRefused: parameters that a network does not support are refused by name.
func TestRefused(t *testing.T) {
	s := plainStage(t, nil)
	s.Params = nil
	row := batchOf(1, 33, 4)[0].Row
	row.Reference = "a.png"
	nntest.WantError(t, "reference", s.Check(&row), "reference is given, but Plain takes none")
	row.Reference, row.Loop = "", 2
	nntest.WantError(t, "loop", s.Check(&row), "loop is 2: Plain makes videos of one clip")
	row.Loop, row.GuidanceScale = 0, nil
	nntest.WantError(t, "guidance", s.Check(&row), "guidance_scale is not given")
	long := batchOf(2, 33, 4)
	long[0].Text.Embedding = stages.NewArray(6, plainText)
	if err := s.Run(t.Context(), cpu.New(1), long); err != nil {
		t.Fatal(err)
	}
	if long[0].Failed == nil || long[1].Failed != nil {
		t.Errorf("%v, %v", long[0].Failed, long[1].Failed)
	}
}
