package weights

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
)

// t5 are the tensors of a T5 encoder in a dtype of the given size, wo in one of its own.
func t5(vocab, width, inner, ff, blocks int, size, wo int64) []Tensor {
	out := []Tensor{
		{"shared.weight", int64(vocab) * int64(width) * size},
		{"encoder.embed_tokens.weight", 0}, // tied to shared
	}
	for b := range blocks {
		attention := fmt.Sprintf("encoder.block.%d.layer.0.SelfAttention.", b)
		for _, n := range []string{"q", "k", "v", "o"} {
			out = append(out, Tensor{attention + n + ".weight", int64(width) * int64(inner) * size})
		}
		if b == 0 {
			out = append(out, Tensor{attention + "relative_attention_bias.weight", 32 * 64 * size})
		}
		layer := fmt.Sprintf("encoder.block.%d.layer.", b)
		out = append(out, Tensor{layer + "0.layer_norm.weight", int64(width) * size})
		for _, n := range []string{"wi_0", "wi_1"} {
			out = append(out, Tensor{layer + "1.DenseReluDense." + n + ".weight", int64(width) * int64(ff) * size})
		}
		out = append(out, Tensor{layer + "1.DenseReluDense.wo.weight", int64(width) * int64(ff) * wo},
			Tensor{layer + "1.layer_norm.weight", int64(width) * size})
	}
	return append(out, Tensor{"encoder.final_layer_norm.weight", int64(width) * size})
}

var isBlock = regexp.MustCompile(`^encoder\.block\.\d+$`)

var t5Rules = Rules{
	Whole: func(path string) string {
		if isBlock.MatchString(path) {
			return "T5Block"
		}
		return ""
	},
	Tied: [][]string{{"encoder.embed_tokens.weight", "shared.weight"}},
}

func gpus(sizes ...int64) (out []Store) {
	for i, s := range sizes {
		out = append(out, Store{fmt.Sprint(i), s, true})
	}
	return out
}

const gib = 1 << 30

// The vectors come from accelerate's own functions on modules of these sizes.
func TestPlacementOfAccelerate(t *testing.T) {
	half := 29 * int64(gib) / 2 // 14.5 GiB
	xxl := t5(32128, 4096, 4096, 10240, 24, 2, 2)
	four := gpus(half, half, half, half)
	for _, c := range []struct {
		name     string
		tensors  []Tensor
		total    int64
		stores   []Store
		balanced bool
		budgets  []int64
		used     []int64 // by store
		last     []int   // the last block of each store
	}{
		{"T5-xxl in 16 bit on four", xxl, 9_524_621_312, four, true,
			[]int64{2_863_525_888, 2_863_525_888, 2_863_525_888, 15_569_256_448},
			[]int64{2_192_658_432, 2_701_246_464, 2_701_246_464, 1_929_469_952}, []int{4, 11, 18, 23}},
		{"wo in fp32", t5(32128, 4096, 4096, 10240, 24, 2, 4), 11_537_887_232, four, true,
			[]int64{3_471_699_968, 3_471_699_968, 3_471_699_968, 15_569_256_448}, nil, []int{4, 11, 18, 23}},
		{"mT5-xxl on three", t5(250112, 4096, 4096, 10240, 24, 2, 2), 11_310_346_240, gpus(half, half, half), true,
			[]int64{4_252_485_973, 4_252_485_973, 15_569_256_448}, nil, []int{3, 14, 23}},
		{"two small GPUs and the CPU", xxl, 9_524_621_312, append(gpus(5*gib, 3*gib), Store{"cpu", 3 * gib, false}), true,
			[]int64{5_244_681_216, 3_221_225_472, 3_221_225_472}, nil, []int{10, 18, 23}},
		{"sequential", xxl, 9_524_621_312, four, false, []int64{half, half, half, half}, nil, nil},
	} {
		m, err := Tree(c.tensors)
		if err != nil {
			t.Fatal(err)
		}
		if m.Bytes != c.total {
			t.Errorf("%s: %d bytes, want %d", c.name, m.Bytes, c.total)
		}
		stores := c.stores
		if c.balanced {
			stores = Balanced(m, stores, t5Rules, false)
		}
		for i, want := range c.budgets {
			if stores[i].Bytes != want {
				t.Errorf("%s: store %s may take %d, want %d", c.name, stores[i].Name, stores[i].Bytes, want)
			}
		}
		placed, err := Place(m, stores, t5Rules)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.last == nil {
			if len(placed) != 1 || placed[0] != (Placed{"", "0", c.total}) {
				t.Errorf("%s: %+v, want everything on 0", c.name, placed)
			}
			continue
		}
		used, last := make([]int64, len(stores)), make([]int, len(stores))
		for _, p := range placed {
			i := slices.IndexFunc(stores, func(s Store) bool { return s.Name == p.Store })
			used[i] += p.Bytes
			var block int
			if n, _ := fmt.Sscanf(p.Module, "encoder.block.%d", &block); n == 1 {
				last[i] = max(last[i], block)
			}
			if p.Module == "shared" && p.Store != "0" || p.Module == "encoder.final_layer_norm" && i != len(c.last)-1 {
				t.Errorf("%s: %s is on %s", c.name, p.Module, p.Store)
			}
		}
		if !slices.Equal(last, c.last) || c.used != nil && !slices.Equal(used, c.used) {
			t.Errorf("%s: last blocks %v with %v bytes, want %v with %v", c.name, last, used, c.last, c.used)
		}
	}
}

func TestBalancedKeepsGPUZeroLow(t *testing.T) {
	m, err := Tree(t5(32128, 4096, 4096, 10240, 24, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	got := Balanced(m, gpus(10*gib, 10*gib, 10*gib), t5Rules, true)
	each := m.Bytes/2 + int64(1.25*385_896_448)
	if got[1].Bytes != each || got[2].Bytes != 10*gib || got[0].Bytes != max(0, m.Bytes-each-10*gib) {
		t.Errorf("stores %+v", got)
	}
	// A GPU without memory is skipped, whatever its number.
	got = Balanced(m, gpus(10*gib, 0, 10*gib), t5Rules, true)
	if got[0].Bytes != max(0, m.Bytes-10*gib) || got[1].Bytes != 0 || got[2].Bytes != 10*gib {
		t.Errorf("stores %+v", got)
	}
}

func TestPlaceOnDisk(t *testing.T) {
	m, err := Tree([]Tensor{{"a.weight", 60}, {"b.weight", 50}, {"b.bias", 1}, {"c.d.weight", 10}, {"c.e.weight", 10}})
	if err != nil {
		t.Fatal(err)
	}
	placed, err := Place(m, []Store{{"0", 130, true}, {"cpu", 25, false}}, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	// Beside a of 60 the GPU keeps room for the largest that is left, b of 51; c goes to the next as a whole,
	// which keeps room for one of its parts.
	want := []Placed{{"a", "0", 60}, {"b", "0", 51}, {"c", "cpu", 20}}
	if !slices.Equal(placed, want) {
		t.Errorf("placed %+v, want %+v", placed, want)
	}
}

func TestTreeRefuses(t *testing.T) {
	for name, tensors := range map[string][]Tensor{
		"no name": {{"", 1}}, "negative": {{"a", -1}}, "twice": {{"a.b", 1}, {"a.b", 1}},
		"tensor and module": {{"a", 1}, {"a.b", 1}}, "module and tensor": {{"a.b", 1}, {"a", 1}},
		"empty part": {{"a..b", 1}}, "ends with a dot": {{"a.", 1}},
	} {
		if _, err := Tree(tensors); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// testdata/accelerate.json holds random modules with what accelerate 1.15's get_balanced_memory and
// infer_auto_device_map say of them.
func TestPlacementOfRandomModules(t *testing.T) {
	data, err := os.ReadFile("testdata/accelerate.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Tensors  []Tensor
		Blocks   []string
		Stores   []Store
		Balanced []int64
		Use      bool     // place into the balanced stores
		Where    []string // of each tensor
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		m, err := Tree(c.Tensors)
		if err != nil {
			t.Fatal(err)
		}
		rules := Rules{Whole: func(path string) string {
			if slices.Contains(c.Blocks, path) {
				return "Block"
			}
			return ""
		}}
		stores := Balanced(m, c.Stores, rules, false)
		for j, want := range c.Balanced {
			if stores[j].Bytes != want {
				t.Errorf("case %d: store %s may take %d, want %d", i, stores[j].Name, stores[j].Bytes, want)
			}
		}
		if !c.Use {
			stores = c.Stores
		}
		placed, err := Place(m, stores, rules)
		if err != nil {
			t.Fatal(err)
		}
		for j, want := range c.Where {
			at := slices.IndexFunc(placed, func(p Placed) bool {
				return p.Module == "" || (&Module{Path: p.Module}).in(c.Tensors[j].Name)
			})
			if at < 0 || placed[at].Store != want {
				t.Errorf("case %d: %s is not on %s in %+v", i, c.Tensors[j].Name, want, placed)
			}
		}
	}
}
