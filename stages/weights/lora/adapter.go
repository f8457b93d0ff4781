package lora

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"latentbeam/internal/system"
	"latentbeam/kernels"
	"latentbeam/stages/weights/safetensors"
)

// Adapter is an open file of LoRA tensors.
type Adapter struct {
	path    string
	file    *safetensors.File
	layers  map[string]*layer // by the name of the module in the file
	unknown []string          // tensors of unknown kinds of adapters
	facts   facts
}

// layer is what an adapter adds to one module.
type layer struct {
	down, up, bias  *tensor // A (rank, in...), B (out, rank), and an addition to the module's bias
	alpha           *float64
	diff, biasDelta *tensor // added without a product
}

// tensor is a tensor of an adapter.
type tensor struct {
	name  string
	shape []int
	data  []byte
	dt    kernels.DType
	wide  wide
}

// facts are settings of an adapter besides its tensors.
type facts struct {
	Alpha  *float64           `json:"lora_alpha"`
	Alphas map[string]float64 `json:"alpha_pattern"`
	Stable bool               `json:"use_rslora"` // alpha is divided by the square root of the rank
	DoRA   bool               `json:"use_dora"`
	Kind   string             `json:"peft_type"`
	FanIn  bool               `json:"fan_in_fan_out"`
}

// Open opens the adapter file at path, or the adapter file in a directory. A config of PEFT may be beside it.
func Open(path string) (*Adapter, error) {
	path, err := locate(path)
	if err != nil {
		return nil, fmt.Errorf("open LoRA: %w", err)
	}
	file, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open LoRA: %w", err)
	}
	a, err := read(path, file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open LoRA %s: %w", path, err), file.Close())
	}
	return a, nil
}

// usualNames are the usual names of an adapter in a directory.
var usualNames = []string{"pytorch_lora_weights.safetensors", "adapter_model.safetensors"}

// locate returns the adapter file for a path.
func locate(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, err
	}
	for _, name := range usualNames {
		if file := filepath.Join(path, name); regular(file) {
			return file, nil
		}
	}
	found, err := filepath.Glob(filepath.Join(escape(path), "*.safetensors"))
	switch {
	case err != nil:
		return "", err
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return "", fmt.Errorf("%s holds no safetensors file: %w", path, fs.ErrNotExist)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return "", fmt.Errorf("%s holds several safetensors files, name one: %s", path, strings.Join(found[:min(len(found), 20)], ", "))
}

func regular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// escape returns a glob pattern that matches only path.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// maxConfig limits the size of an adapter_config.json.
const maxConfig = 16 << 20

// metadataKey is the key under which diffusers stores what PEFT stores in adapter_config.json.
const metadataKey = "lora_adapter_metadata"

func read(path string, file *safetensors.File) (*Adapter, error) {
	a := &Adapter{path: path, file: file, layers: map[string]*layer{}}
	if err := a.readFacts(); err != nil {
		return nil, err
	}
	for _, name := range file.Names() {
		t, _ := file.Tensor(name)
		if err := a.add(name, t.Widened()); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// readFacts reads the settings from the header or from the file beside the adapter.
func (a *Adapter) readFacts() error {
	data, where := []byte(a.file.Metadata()[metadataKey]), "the metadata "+metadataKey
	if len(data) == 0 {
		var err error
		where = filepath.Join(filepath.Dir(a.path), "adapter_config.json")
		if data, err = system.ReadRegular(where, maxConfig); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		return a.decode(data, where)
	}
	var packed map[string]json.RawMessage
	if err := json.Unmarshal(data, &packed); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	plain := map[string]json.RawMessage{}
	for key, value := range packed {
		if short, of := strings.CutPrefix(key, "transformer."); of {
			plain[short] = value
		}
	}
	data, err := json.Marshal(plain)
	return errors.Join(err, a.decode(data, where))
}

func (a *Adapter) decode(data []byte, where string) error {
	if err := json.Unmarshal(data, &a.facts); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	switch {
	case a.facts.DoRA:
		return fmt.Errorf("%s says use_dora: adapters with magnitudes (DoRA) cannot be used", where)
	case a.facts.Kind != "" && a.facts.Kind != "LORA":
		return fmt.Errorf("%s says peft_type %s: only LORA can be used", where, a.facts.Kind)
	case a.facts.FanIn:
		return fmt.Errorf("%s says fan_in_fan_out: adapters of transposed weights cannot be used", where)
	}
	return nil
}

// roles maps suffixes of names to the role of the tensor.
var roles = []struct {
	end *regexp.Regexp
	set func(l *layer) **tensor
}{
	{regexp.MustCompile(`\.(lora_A|lora_down|lora\.down)(\.\w+)?\.weight$`), func(l *layer) **tensor { return &l.down }},
	{regexp.MustCompile(`\.(lora_B|lora_up|lora\.up)(\.\w+)?\.weight$`), func(l *layer) **tensor { return &l.up }},
	{regexp.MustCompile(`\.lora_B(\.\w+)?\.bias$`), func(l *layer) **tensor { return &l.bias }},
	{regexp.MustCompile(`\.diff$`), func(l *layer) **tensor { return &l.diff }},
	{regexp.MustCompile(`\.diff_b$`), func(l *layer) **tensor { return &l.biasDelta }},
}

// modulationDelta is the suffix of additions to the modulation of a block, or of the head (lightx2v's distilled adapters).
const (
	modulationDelta = ".diff_m"
	modulation      = ".modulation" // its name in Wan's own code
)

// otherKinds recognises adapters that are not LoRA, by parts of their tensor names.
var otherKinds = []struct {
	mark *regexp.Regexp
	kind string
}{
	{regexp.MustCompile(`\.(dora_scale|lora_magnitude_vector|magnitude)(\.|$)`), "DoRA (LoRA with magnitudes)"},
	{regexp.MustCompile(`\.lokr_(w1|w2|t1|t2)(_|\.|$)`), "LoKr (Kronecker products)"},
	{regexp.MustCompile(`\.hada_(w1|w2|t1|t2)(_|\.|$)`), "LoHa (Hadamard products)"},
	{regexp.MustCompile(`\.oft_(blocks|diag|r|R)(\.|$)`), "OFT (rotations)"},
}

// refuseOther returns an error for a tensor of another kind of adapter.
func refuseOther(name string) error {
	for _, o := range otherKinds {
		if o.mark.MatchString(name) {
			return fmt.Errorf("tensor %q is one of %s, which cannot be added like LoRA: merge it into the model's weights with the program "+
				"that made it, and give those as transformer", name, o.kind)
		}
	}
	return nil
}

// add adds a tensor of the file.
func (a *Adapter) add(name string, t safetensors.Tensor) error {
	if err := refuseOther(name); err != nil {
		return err
	}
	module, isAlpha := strings.CutSuffix(name, ".alpha")
	if block, ok := strings.CutSuffix(name, modulationDelta); ok {
		name = block + modulation + ".diff" // the tensor that it is added to has a name of its own
	}
	for _, r := range roles {
		if at := r.end.FindStringIndex(name); at != nil {
			dt, known := kernels.DTypes[t.DType]
			if !known {
				return fmt.Errorf("tensor %q is %s, want F32, BF16, F16 or fp8", name, t.DType)
			}
			one := &tensor{name: name, shape: t.Shape, data: t.Data, dt: dt}
			if i := one.notFinite(); i >= 0 {
				return fmt.Errorf("tensor %q: element %d is not finite: the file is damaged", name, i)
			}
			place := r.set(a.layer(name[:at[0]]))
			if *place != nil {
				return fmt.Errorf("tensors %q and %q have the same meaning", (*place).name, name)
			}
			*place = one
			return nil
		}
	}
	if !isAlpha {
		a.unknown = append(a.unknown, name)
		return nil
	}
	value, ok := scalar(t)
	if !ok {
		return fmt.Errorf("tensor %q is %s %v, want one finite number", name, t.DType, t.Shape)
	}
	a.layer(module).alpha = &value
	return nil
}

func (a *Adapter) layer(module string) *layer {
	if a.layers[module] == nil {
		a.layers[module] = &layer{}
	}
	return a.layers[module]
}

// scalar returns the number in a tensor with one element.
func scalar(t safetensors.Tensor) (float64, bool) {
	if kernels.Elements(t.Shape) != 1 {
		return 0, false
	}
	var v float64
	switch dt, known := kernels.DTypes[t.DType]; {
	case known:
		v = float64(dt.At(t.Data, 0))
	case t.DType == "F64":
		v = math.Float64frombits(little(t.Data, 8))
	case t.DType == "I64":
		v = float64(int64(little(t.Data, 8)))
	case t.DType == "I32":
		v = float64(int32(little(t.Data, 4)))
	default:
		return 0, false
	}
	return v, v-v == 0
}

func little(data []byte, n int) (v uint64) {
	for i := range n {
		v |= uint64(data[i]) << (8 * i)
	}
	return v
}

// factor returns the factor of B A without the job's scale: alpha / rank. module is the name without prefixes.
func (a *Adapter) factor(l *layer, module string) float64 {
	rank := float64(l.down.shape[0])
	if _, found := a.pattern(module); l.alpha == nil && a.facts.Stable && (found || a.facts.Alpha != nil) {
		return a.alpha(l, module) / math.Sqrt(rank)
	}
	return a.alpha(l, module) / rank
}

// alpha returns the alpha of a layer: its own, the one in adapter_config.json, or its rank.
func (a *Adapter) alpha(l *layer, module string) float64 {
	switch pattern, found := a.pattern(module); {
	case l.alpha != nil:
		return *l.alpha
	case found:
		return a.facts.Alphas[pattern]
	case a.facts.Alpha != nil:
		return *a.facts.Alpha
	}
	return float64(l.down.shape[0])
}

// pattern returns the key of alpha_pattern that matches a module: its name, or the end of its name after a dot.
func (a *Adapter) pattern(module string) (string, bool) {
	for _, p := range slices.Sorted(maps.Keys(a.facts.Alphas)) {
		if module == p || strings.HasSuffix(module, "."+p) {
			return p, true
		}
	}
	return "", false
}

// Digest identifies what the adapter adds by content: its tensors and alphas.
func (a *Adapter) Digest() string {
	facts, _ := json.Marshal(a.facts) // a struct of plain values
	sum := sha256.Sum256(append([]byte(a.file.Digest()), facts...))
	return hex.EncodeToString(sum[:])
}

// Close closes the file.
func (a *Adapter) Close() error { return a.file.Close() }
