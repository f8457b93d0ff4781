package lora

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"latentbeam/kernels"
)

// Names returns other names of a model's tensor, such as its name in the original code.
type Names func(tensor string) []string

// prefixes are the prefixes that programs put before the names of modules.
var prefixes = []string{"base_model.model.", "diffusion_model.", "transformer.", "model.", "pipe.dit.", "dit.", "module."}

// flatPrefixes are the prefixes in files of Kohya's scripts, LyCORIS and VideoX-Fun, whose names have _ instead of some or all
// dots.
var flatPrefixes = []string{"lora_unet_", "lycoris_", "lora_transformer_"}

// modules finds the modules of a model by all their names.
type modules struct {
	tensors map[string][]int    // shapes of the model's tensors
	known   map[string]string   // name of a module to its name in the model
	flat    map[string]string   // the same, with _ instead of dots
	twice   map[string]struct{} // flat names that belong to several modules
}

func newModules(tensors map[string][]int, other Names) *modules {
	m := &modules{tensors: tensors, known: map[string]string{}, flat: map[string]string{}, twice: map[string]struct{}{}}
	for _, tensor := range slices.Sorted(maps.Keys(tensors)) {
		own, _ := moduleOf(tensor)
		names := []string{tensor}
		if other != nil {
			names = append(names, other(tensor)...)
		}
		for _, name := range names {
			module, _ := moduleOf(name)
			m.known[module] = own
			f := flatten(module)
			if old, ok := m.flat[f]; ok && old != own {
				m.twice[f] = struct{}{}
			}
			m.flat[f] = own
		}
	}
	return m
}

// moduleOf splits the name of a tensor into module and role.
func moduleOf(tensor string) (module, role string) {
	for _, role := range []string{".weight", ".bias"} {
		if module, ok := strings.CutSuffix(tensor, role); ok {
			return module, role
		}
	}
	return tensor, ""
}

func flatten(name string) string { return strings.ReplaceAll(name, ".", "_") }

// find returns the module of the model for a name in an adapter.
func (m *modules) find(name string) (module string, ok bool) {
	for _, p := range flatPrefixes {
		flat, is := strings.CutPrefix(name, p)
		if !is {
			continue
		}
		flat = flatten(flat)
		if _, several := m.twice[flat]; several {
			return "", false
		}
		module, ok = m.flat[flat]
		return module, ok
	}
	for {
		if module, ok = m.known[name]; ok {
			return module, true
		}
		short := name
		for _, p := range prefixes {
			if rest, has := strings.CutPrefix(name, p); has {
				short = rest
				break
			}
		}
		if short == name {
			return "", false
		}
		name = short
	}
}

// weight returns the weight of a module, or its bias.
func (m *modules) weight(module, role string) (tensor string, shape []int, ok bool) {
	tensor = module + role
	if shape, ok = m.tensors[tensor]; !ok && role == ".weight" { // a parameter without a module
		tensor = module
		shape, ok = m.tensors[module]
	}
	return tensor, shape, ok
}

// Fitted describes how an adapter was added.
type Fitted struct {
	Layers int // number of layers of the model that it changes
	// Ranks and Alphas are the smallest and largest values of its layers; zeros: no layer has matrices.
	Ranks  [2]int
	Alphas [2]float64
	Left   int // layers that the model does not have, which were ignored
	Digest string
}

// String describes the adapter for people.
func (f Fitted) String() string {
	text := layers(f.Layers)
	if f.Ranks[1] > 0 {
		text += ", rank " + between(float64(f.Ranks[0]), float64(f.Ranks[1])) + ", alpha " + between(f.Alphas[0], f.Alphas[1])
	}
	if f.Left > 0 {
		text += "; left out: " + layers(f.Left) + " that the model does not have"
	}
	return text
}

func layers(n int) string {
	if n == 1 {
		return "1 layer"
	}
	return fmt.Sprintf("%d layers", n)
}

func between(least, most float64) string {
	if least == most {
		return fmt.Sprintf("%g", least)
	}
	return fmt.Sprintf("%g to %g", least, most)
}

// Describe counts the layers of the adapter, independent of a model.
func (a *Adapter) Describe() Fitted {
	f := Fitted{Digest: a.Digest()}
	for name, l := range a.layers {
		f.count(a, l, name)
	}
	return f
}

// count counts a layer.
func (f *Fitted) count(a *Adapter, l *layer, name string) {
	f.Layers++
	if l.down == nil || len(l.down.shape) == 0 || l.down.shape[0] == 0 {
		return
	}
	rank, alpha := l.down.shape[0], a.alpha(l, plainName(name))
	if f.Ranks[1] == 0 {
		f.Ranks, f.Alphas = [2]int{rank, rank}, [2]float64{alpha, alpha}
	}
	f.Ranks = [2]int{min(f.Ranks[0], rank), max(f.Ranks[1], rank)}
	f.Alphas = [2]float64{min(f.Alphas[0], alpha), max(f.Alphas[1], alpha)}
}

// Fit returns what the adapter, multiplied by scale, adds to each of a model's tensors, which are given by name and shape.
// Layers that the model does not have, or whose shapes differ, are listed in one error; with skip, layers that the model does
// not have are ignored and counted. An adapter that changes nothing is an error unless scale is 0.
func (a *Adapter) Fit(tensors map[string][]int, other Names, scale float64, skip bool) (map[string]Delta, Fitted, error) {
	m, found := newModules(tensors, other), Fitted{Digest: a.Digest()}
	out := map[string]Delta{}
	var misfits []string
	for _, name := range a.unknown {
		if skip && !m.hasAbove(name) {
			found.Left++
			continue
		}
		misfits = append(misfits, fmt.Sprintf("unknown     %q", name))
	}
	for _, name := range slices.Sorted(maps.Keys(a.layers)) {
		l := a.layers[name]
		module, ok := m.find(name)
		switch {
		case ok:
			misfits = append(misfits, a.fit(out, m, l, name, module, scale)...)
			found.count(a, l, name)
		case skip:
			found.Left++
		default:
			misfits = append(misfits, fmt.Sprintf("unmatched   %q: the model has no such layer", name))
		}
	}
	if len(misfits) > 0 {
		return nil, found, a.misfit(misfits, len(out))
	}
	if scale != 0 && !a.changes(out) {
		return nil, found, fmt.Errorf("LoRA %s changes nothing (%s): %s; take it out of the list, or give scale: 0 if that is meant",
			printable(a.path), found, a.whyNothing(found))
	}
	return out, found, nil
}

// hasAbove reports whether the model has a module whose name is a prefix of a tensor's name.
func (m *modules) hasAbove(name string) bool {
	for at := strings.LastIndexByte(name, '.'); at > 0; at = strings.LastIndexByte(name[:at], '.') {
		if _, ok := m.find(name[:at]); ok {
			return true
		}
	}
	return false
}

// changes reports whether any addition is not zero.
func (a *Adapter) changes(added map[string]Delta) bool {
	for _, d := range added {
		for _, p := range d {
			if p.factor != 0 && (p.diff.anyNonZero() || p.down.anyNonZero() && p.up.anyNonZero()) {
				return true
			}
		}
	}
	return false
}

// whyNothing explains why an adapter changes nothing.
func (a *Adapter) whyNothing(f Fitted) string {
	switch {
	case f.Layers == 0:
		return "none of its tensors is for this model"
	case f.Ranks[1] > 0 && f.Alphas == [2]float64{}:
		return "its alpha is 0"
	}
	return "all that it adds is zero, as before training"
}

// misfit returns a short error about layers that do not fit.
func (a *Adapter) misfit(misfits []string, fit int) error {
	total, hint := len(misfits), ""
	if slices.ContainsFunc(misfits, func(m string) bool { return strings.HasPrefix(m, "unmatched") }) {
		hint = "\n  fix: give the adapter of this model, or `unmatched: skip` to leave out layers that the model does not have"
	}
	if total > maxListed {
		misfits = append(slices.Clone(misfits[:maxListed-1]), fmt.Sprintf("and %d more", total-maxListed+1))
	}
	return fmt.Errorf("LoRA %s: %d of its layers do not fit the model (%d do):\n  %s%s", printable(a.path), total, fit,
		strings.Join(misfits, "\n  "), hint)
}

// maxListed limits the lines in one error.
const maxListed = 8

// fit adds a layer's additions for a module to out and returns what does not fit.
func (a *Adapter) fit(out map[string]Delta, m *modules, l *layer, name, module string, scale float64) (misfits []string) {
	misfit := func(format string, args ...any) { misfits = append(misfits, fmt.Sprintf(format, args...)) }
	weightName, shape, ok := m.weight(module, ".weight")
	biasName, biasShape, hasBias := m.weight(module, ".bias")
	weight, bias := out[weightName], out[biasName]
	switch {
	case (l.down == nil) != (l.up == nil), l.bias != nil && l.up == nil:
		misfit("half        %q: one of its two matrices is missing", name)
	case l.down == nil:
	case !ok:
		misfit("unmatched   %q: the layer has no weight", name)
	case len(shape) < 2 || len(l.down.shape) < 2 || len(l.up.shape) < 2 ||
		kernels.Elements(l.down.shape[1:]) != kernels.Elements(shape[1:]) ||
		kernels.Elements(l.up.shape) != shape[0]*l.down.shape[0] || l.up.shape[0] != shape[0] || l.down.shape[0] == 0:
		misfit("wrong shape %q: %v and %v, the weight has %v", name, l.down.shape, l.up.shape, shape)
	default:
		f := a.factor(l, plainName(name)) * scale
		weight = append(weight, addition{factor: float32(f), down: l.down, up: l.up, rank: l.down.shape[0],
			columns: kernels.Elements(shape[1:])})
		if l.bias != nil && (!hasBias || kernels.Elements(l.bias.shape) != kernels.Elements(biasShape)) {
			misfit("wrong shape %q: it has a bias of %v, the layer has %v", name, l.bias.shape, biasShape)
		} else if l.bias != nil {
			bias = append(bias, addition{factor: float32(f), diff: l.bias, columns: 1})
		}
	}
	for _, d := range []struct {
		of      *tensor
		to      *Delta
		shape   []int
		columns bool
	}{{l.diff, &weight, shape, true}, {l.biasDelta, &bias, biasShape, false}} {
		switch {
		case d.of == nil:
		case d.shape == nil || kernels.Elements(d.of.shape) != kernels.Elements(d.shape):
			misfit("wrong shape %q: %v, the model has %v", d.of.name, d.of.shape, d.shape)
		default:
			columns := 1
			if d.columns && len(d.shape) > 1 {
				columns = kernels.Elements(d.shape[1:])
			}
			*d.to = append(*d.to, addition{factor: float32(scale), diff: d.of, columns: columns})
		}
	}
	if weight != nil {
		out[weightName] = weight
	}
	if bias != nil {
		out[biasName] = bias
	}
	return misfits
}

// plainName returns a module's name without the prefixes of programs.
func plainName(name string) string {
	for _, p := range prefixes {
		name = strings.TrimPrefix(name, p)
	}
	return name
}

// printable escapes control characters in a path, which could control the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}
