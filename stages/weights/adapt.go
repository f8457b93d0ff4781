package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"latentbeam/stages"
	"latentbeam/stages/weights/lora"
	"latentbeam/stages/weights/safetensors"
)

// adapt opens the adapters of a model's component. It returns what they add to its tensors, and the digest of the weights with
// the adapters; base is the digest without them.
func adapt(m *stages.Model, name string, weights *safetensors.File, base string) (added map[string]lora.Delta, digest string,
	err error) {
	digest = base
	for i, l := range m.LorasOf(name) {
		a, err := lora.Open(l.Path)
		if err != nil {
			return nil, "", l.Fault(err)
		}
		shapes := map[string][]int{}
		for _, tensor := range weights.Names() {
			t, _ := weights.Tensor(tensor)
			shapes[tensor] = t.Shape
		}
		var other lora.Names
		if m.OtherNames != nil {
			other = func(tensor string) []string { return m.OtherNames(name, tensor) }
		}
		more, fitted, err := a.Fit(shapes, other, l.Scale, l.Skip)
		if err != nil {
			return nil, "", l.Fault(errors.Join(err, a.Close()))
		}
		m.Adapted(l, fitted.String(), fitted.Digest)
		if added == nil {
			added = map[string]lora.Delta{}
		}
		for tensor, d := range more {
			added[tensor] = append(added[tensor], d...)
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s lora %d %s %g %s", digest, i, a.Digest(), l.Scale, l.Expert))
		digest = hex.EncodeToString(sum[:])
	}
	return added, digest, nil
}
