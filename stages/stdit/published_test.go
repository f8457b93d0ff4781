package stdit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/nn/nntest"
)

// stateDict is the list of the tensors of a published model.
type stateDict struct {
	Config   json.RawMessage  `json:"config"`
	Tensors  int              `json:"tensors"`
	Elements int              `json:"elements"`
	Shapes   map[string][]int `json:"shapes"` // * stands for the numbers of the blocks
}

// expand returns every tensor by its name.
func (d stateDict) expand(depth int) map[string][]int {
	out := map[string][]int{}
	for name, shape := range d.Shapes {
		if !strings.Contains(name, "*") {
			out[name] = shape
			continue
		}
		for i := range depth {
			out[strings.Replace(name, "*", fmt.Sprint(i), 1)] = shape
		}
	}
	return out
}

func elements(shapes map[string][]int) (sum int) {
	for _, shape := range shapes {
		n := 1
		for _, d := range shape {
			n *= d
		}
		sum += n
	}
	return sum
}

// TestPublishedTensors compares the tensors that every published model needs with the state dict of the reference. The
// position tables of 1.0 are in its files, but are computed here.
func TestPublishedTensors(t *testing.T) {
	want := map[string][2]int{"stdit_v1_0_16x256x256": {550, 760425632}, "stdit2_v1_1": {707, 768271300},
		"stdit3_v1_2": {973, 1208872772}, "stdit3_v1_2_3b": {973, 3183440372}, "stdit3_v1_3": {977, 1209188492}}
	cases := nntest.Golden(t, goldenDir+"open-sora-tensors.json")
	if got := slices.Sorted(maps.Keys(cases)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("models %v", got)
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			var d stateDict
			nntest.Decode(t, data, &d)
			cfg, err := ParseConfig(d.Config)
			if err != nil {
				t.Fatal(err)
			}
			published, asked := d.expand(cfg.Depth), nntest.Shapes(t, cfg, Load)
			got := [2]int{len(published), elements(published)}
			if got != want[name] || got != [2]int{d.Tensors, d.Elements} {
				t.Errorf("the list has %d tensors of %d elements, want %v", got[0], got[1], want[name])
			}
			delete(published, "pos_embed")
			delete(published, "pos_embed_temporal")
			for name, shape := range published {
				if got, ok := asked[name]; !ok || !slices.Equal(got, shape) {
					t.Errorf("%s is %v in the reference, %v here", name, shape, got)
				}
			}
			for name, shape := range asked {
				if _, ok := published[name]; !ok {
					t.Errorf("%s %v is not in the reference", name, shape)
				}
			}
		})
	}
}

// TestVersions: which architecture a config.json describes.
func TestVersions(t *testing.T) {
	for _, c := range []struct {
		json string
		want Version
	}{
		{`{}`, OpenSora10},
		{`{"architectures":["STDiT"],"model_type":"STDiT"}`, OpenSora10},
		{`{"_class_name":"STDiT2"}`, OpenSora11},
		{`{"model_type":"STDiT2-XL/2"}`, OpenSora11},
		{`{"architectures":["STDiT3"],"in_channels":4,"input_size":[null,null,null]}`, OpenSora12},
		{`{"model_type":"STDiT3","in_channels":16}`, OpenSora13},
		{`{"model_type":"STDiT3","kernel_size":[8,8,-1],"use_spatial_rope":true}`, OpenSora13},
		{`{"model_type":"STDiT3","kernel_size":null}`, OpenSora13},
	} {
		cfg, err := ParseConfig([]byte(c.json))
		if err != nil || cfg.Version != c.want {
			t.Errorf("%s is Open-Sora %s, %v, want %s", c.json, cfg.Version, err, c.want)
		}
		if windows := cfg.KernelSize != nil; windows != (c.want == OpenSora13 && !strings.Contains(c.json, "null}")) {
			t.Errorf("%s has windows %v, spatial rope %v", c.json, cfg.KernelSize, cfg.UseSpatialRope)
		}
	}
	_, err := ParseConfig([]byte(`{"model_type":"MMDiT"}`))
	nntest.WantError(t, "another architecture", err, `the architecture is "MMDiT"`)
}
