package schemas

import (
	"encoding/json"
	"strconv"
	"strings"
)

// withCarried takes what a row is conditioned on from the columns that its table has carried along: tables of
// embeddings have no columns of their own for it.
func (r PromptRow) withCarried() PromptRow {
	if !strings.Contains(r.Extra, `"reference`) && !strings.Contains(r.Extra, `"loop"`) &&
		!strings.Contains(r.Extra, `"noise"`) && !strings.Contains(r.Extra, `"guidance_scale_2"`) {
		return r
	}
	var columns map[string]json.RawMessage
	if json.Unmarshal([]byte(r.Extra), &columns) != nil {
		return r
	}
	text := func(field string) (string, bool) {
		f, _ := FieldByName(field)
		for _, name := range append([]string{field}, f.Aliases...) {
			var s string
			raw, ok := columns[name]
			if !ok || string(raw) == "null" {
				continue
			}
			if json.Unmarshal(raw, &s) != nil {
				s = string(raw) // a number
			}
			if s = strings.TrimSpace(s); s != "" && float64(len(s)) <= MaxReferenceBytes {
				return s, true
			}
		}
		return "", false
	}
	whole := func(field string, into *int) {
		s, _ := text(field)
		f, _ := FieldByName(field)
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && f.CheckInteger(n) == nil {
			*into = int(n)
		}
	}
	r.Reference, _ = text("reference")
	r.MaskStrategy, _ = text("mask_strategy")
	whole("loop", &r.Loop)
	whole("condition_frame_length", &r.ConditionFrameLength)
	real := func(field string, into **float64) {
		s, _ := text(field)
		f, _ := FieldByName(field)
		if v, err := strconv.ParseFloat(s, 64); err == nil && f.CheckReal(v) == nil {
			*into = &v
		}
	}
	real("condition_frame_edit", &r.ConditionFrameEdit)
	real("guidance_scale_2", &r.GuidanceScale2)
	r.Noise, _ = text("noise")
	return r
}
