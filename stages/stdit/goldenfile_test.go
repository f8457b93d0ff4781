package stdit

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
)

// goldenFile is a file of golden cases that may refer to each other, or to those of the committed file.
type goldenFile struct {
	cases, base map[string]json.RawMessage
}

// fields are the raw fields of a case.
type fields map[string]json.RawMessage

// resolve returns a case with all that it takes from others, and the test for it: nil where the case is
// of another model, version or dtype. A damaged case is an error.
func (g goldenFile) resolve(name string) (c goldenCase, check func(*testing.T, goldenCase), err error) {
	f, root, err := g.fields(name, 0)
	if err != nil {
		return c, nil, err
	}
	data, err := json.Marshal(f)
	if err != nil {
		return c, nil, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		if denoiserCase.MatchString(root) {
			return c, nil, fmt.Errorf("case %q: %w", name, err)
		}
		return c, nil, nil // a case of another model may have any form
	}
	for prefix, fallback := range map[*string]string{&c.InputPrefix: "input", &c.NoisePrefix: "noise"} {
		if *prefix = strings.TrimSuffix(*prefix, "."); *prefix == "" {
			*prefix = fallback
		}
	}
	check = checkOf(root, &c)
	return c, check, nil
}

// denoiserCase tells the cases of denoisers, of their samplers and of their positions by name, with the version.
var denoiserCase = regexp.MustCompile(`^(stdit[23]?|iddpm|rflow|pos_embed)_v1_([0-3])(_|$)`)

// checkOf returns the test for a resolved case, by the name of the case it goes back to and its fields.
func checkOf(root string, c *goldenCase) func(*testing.T, goldenCase) {
	name := denoiserCase.FindStringSubmatch(root)
	if name == nil {
		return nil
	}
	c.version = Version(name[2][0] - '0')
	switch {
	case name[1] == "pos_embed" && c.version == OpenSora10:
		return checkPositions
	case name[1] == "pos_embed":
		return checkGridPositions
	case c.CFGScale != 0:
		return checkSampling
	default:
		return checkForward
	}
}

// fields returns a case's own fields over those of its same_as, or over config and mask of its
// same_model, and the name of the case at the end of that chain. A case that stands for STDiT or IDDPM
// of version 1.0 by its name and brings no config takes that of defaultModel.
func (g goldenFile) fields(name string, depth int) (out fields, root string, err error) {
	data, ok := g.cases[name]
	if !ok {
		data, ok = g.base[name]
	}
	if !ok || depth > len(g.cases)+len(g.base) {
		return nil, "", fmt.Errorf("case %q is missing or refers to itself", name)
	}
	own := fields{}
	if json.Unmarshal(data, &own) != nil {
		return nil, name, nil // not an object: a case of another kind
	}
	out, root = fields{}, name
	named := func(key string) (other string) {
		_ = json.Unmarshal(own[key], &other)
		return other
	}
	model := named("same_model")
	v10 := strings.HasPrefix(name, "stdit_v1_0") || strings.HasPrefix(name, "iddpm_v1_0")
	switch same := named("same_as"); {
	case same != "":
		if out, root, err = g.fields(same, depth+1); err != nil {
			return nil, root, err
		}
	case model == "" && v10 && own["config"] == nil:
		model = defaultModel
	}
	if model != "" {
		from, modelRoot, err := g.fields(model, depth+1)
		if err != nil {
			return nil, root, err
		}
		root = modelRoot
		for _, field := range []string{"config", "mask", "dtype"} {
			if from[field] != nil {
				out[field] = from[field]
			}
		}
	}
	maps.Copy(out, own)
	return out, root, nil
}
