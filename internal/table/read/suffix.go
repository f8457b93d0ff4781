package read

import (
	"bytes"
	"encoding/json"
	"strings"

	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// promptSuffix is the JSON object that may end a prompt of Open-Sora.
type promptSuffix struct {
	Reference    *string `json:"reference_path"`
	MaskStrategy *string `json:"mask_strategy"`
}

// moveSuffix moves a condition at the end of the prompt, as in
//
//	A wave.{"reference_path": "wave.png", "mask_strategy": "0"}
//
// into its fields, where it overrides the columns, and into the carried columns. A prompt whose braces contain anything else is
// not changed.
func (r *rawRow) moveSuffix(row *schemas.PromptRow) {
	at := strings.IndexByte(row.Prompt, '{')
	if at < 0 || !strings.HasSuffix(strings.TrimSpace(row.Prompt), "}") {
		return
	}
	var s promptSuffix
	dec := json.NewDecoder(bytes.NewReader([]byte(row.Prompt[at:])))
	dec.DisallowUnknownFields()
	if dec.Decode(&s) != nil || s.Reference == nil && s.MaskStrategy == nil || dec.More() {
		return
	}
	row.Prompt = row.Prompt[:at]
	take := func(name string, from, into *string) {
		if from == nil {
			return
		}
		if *into == "" {
			r.carry([]byte(`"`+name+`"`), typed.AppendJSONText(nil, *from))
		}
		*into = *from
	}
	take("reference_path", s.Reference, &row.Reference)
	take("mask_strategy", s.MaskStrategy, &row.MaskStrategy)
}
