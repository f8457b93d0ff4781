package torchpickle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// StateDict is the tensors of a checkpoint by name.
type StateDict struct {
	Key     string // the entry of the file that it comes from, such as "ema"; "" for the whole
	Tensors map[string]*Tensor
	// Skipped lists other content of the file that does not belong to the model.
	Skipped []string
}

// preferred are the entries in which training programs store a state dict, in order of preference for inference. Open-Sora 1.0
// uses "ema", PixArt "state_dict", the autoencoders of Open-Sora-Plan "ema_state_dict" or an entry inside "state_dict".
var preferred = []string{"ema", "ema_state_dict", "state_dict_ema", "state_dict", "state_dict.gen_model", "model", "module"}

// wrappers are prefixes of all names that training wrappers leave behind (DistributedDataParallel, torch.compile).
var wrappers = []string{"module.", "_orig_mod."}

// found is a dict that directly contains tensors.
type found struct {
	path string
	dict *dict
}

// pick returns the state dict in root: root itself or the dict at key. The keys of nested dicts are joined by dots.
func pick(root any, key string) (*StateDict, error) {
	top, err := convertTo[*dict](root, "a dict of tensors")
	if err != nil {
		return nil, fmt.Errorf("the file holds no state dict: %w", err)
	}
	var all []found
	search(&all, map[*dict]bool{}, "", top, 0)
	switch {
	case len(all) == 0:
		return nil, errors.New("the file holds no tensors by name")
	case len(all) > maxDicts:
		return nil, fmt.Errorf("the file holds more than %d dicts with tensors", maxDicts)
	}
	chosen := slices.IndexFunc(all, func(f found) bool { return f.path == key })
	if chosen < 0 && key == "" {
		chosen = choose(all)
	}
	if chosen < 0 {
		var paths []string
		for _, f := range all {
			paths = append(paths, fmt.Sprintf("%q", shorten(f.path)))
		}
		return nil, fmt.Errorf("the file has state dicts at %s: choose one with --key",
			shorten(strings.Join(paths, ", ")))
	}
	d, err := flatten(all[chosen])
	if err != nil {
		return nil, err
	}
	for i, f := range all {
		if i != chosen {
			d.Skipped = append(d.Skipped, fmt.Sprintf("%q (a dict with tensors)", shorten(f.path)))
		}
	}
	return d, nil
}

// search collects the dicts that directly contain a tensor, each once.
func search(all *[]found, seen map[*dict]bool, path string, d *dict, depth int) {
	if seen[d] || depth > maxDepth || len(*all) > maxDicts {
		return
	}
	seen[d] = true
	if slices.ContainsFunc(d.values, func(v any) bool { _, ok := v.(*Tensor); return ok }) {
		*all = append(*all, found{path, d})
	}
	for i, v := range d.values {
		key, named := d.keys[i].(string)
		if inner, ok := v.(*dict); ok && named && len(key) <= maxName {
			search(all, seen, strings.TrimPrefix(path+"."+key, "."), inner, depth+1)
		}
	}
}

// choose returns the state dict to use if the caller names none: the whole, the only one, or the first with a preferred name;
// -1 if this does not decide.
func choose(all []found) int {
	if len(all) == 1 {
		return 0
	}
	for _, name := range append([]string{""}, preferred...) {
		if i := slices.IndexFunc(all, func(f found) bool { return f.path == name }); i >= 0 {
			return i
		}
	}
	return -1
}

// flatten collects the tensors of a dict.
func flatten(f found) (*StateDict, error) {
	out := &StateDict{Key: f.path, Tensors: make(map[string]*Tensor, len(f.dict.keys))}
	for i, v := range f.dict.values {
		name, ok := f.dict.keys[i].(string)
		if !ok {
			return nil, fmt.Errorf("a key of the state dict is %s, not a text", describe(f.dict.keys[i]))
		}
		if len(name) > maxName {
			return nil, fmt.Errorf("a name of %d bytes in the state dict", len(name))
		}
		t, ok := v.(*Tensor)
		if !ok {
			if _, inner := v.(*dict); !inner { // pick reports dicts with tensors
				out.Skipped = append(out.Skipped, fmt.Sprintf("%q (%s)", shorten(name), describe(v)))
			}
			continue
		}
		if _, twice := out.Tensors[name]; twice {
			return nil, fmt.Errorf("tensor %q is there twice", shorten(name))
		}
		out.Tensors[name] = t
	}
	for _, w := range wrappers {
		out.unwrap(w)
	}
	return out, nil
}

// unwrap removes prefix from all names if all have it.
func (d *StateDict) unwrap(prefix string) {
	for name := range d.Tensors {
		if !strings.HasPrefix(name, prefix) || name == prefix {
			return
		}
	}
	inner := make(map[string]*Tensor, len(d.Tensors))
	for name, t := range d.Tensors {
		inner[strings.TrimPrefix(name, prefix)] = t
	}
	d.Tensors = inner
}
