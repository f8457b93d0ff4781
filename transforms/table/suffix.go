package table

import (
	"bytes"
	"encoding/json"
	"strings"

	"latentbeam/schemas"
)

// promptSuffix is the JSON object that a prompt of Open-Sora may end in.
type promptSuffix struct {
	Reference    *string `json:"reference_path"`
	MaskStrategy *string `json:"mask_strategy"`
}

// takeSuffix moves a condition at the end of the prompt, as in
//
//	A wave.{"reference_path": "wave.png", "mask_strategy": "0"}
//
// into its fields, over those of the columns. A prompt whose braces hold anything else is left as it is.
func takeSuffix(row *schemas.PromptRow) {
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
	if s.Reference != nil {
		row.Reference = *s.Reference
	}
	if s.MaskStrategy != nil {
		row.MaskStrategy = *s.MaskStrategy
	}
}
