package layout

import (
	"fmt"
	"strconv"
	"strings"

	"latentbeam/internal/plan/weights"
	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// deviceMap cuts the blocks over all devices as accelerate's device_map="auto" would. It is no better than pipeline,
// but it is what other programs do with these weights on these devices, and `plan` says what it would cost.
func (s estimate) deviceMap(h cost.Held, devices []Device, _ int, beside int64) (placed, bool) {
	tensors := []weights.Tensor{{Name: "rest.weight", Bytes: s.Parts[0]}}
	for i, n := range s.Parts[1:] {
		tensors = append(tensors, weights.Tensor{Name: fmt.Sprintf("blocks.%d.weight", i), Bytes: n})
	}
	rules := weights.Rules{Whole: func(path string) string {
		if strings.HasPrefix(path, "blocks.") {
			return "Block"
		}
		return ""
	}}
	var stores []weights.Store
	for i, d := range devices {
		stores = append(stores, weights.Store{Name: strconv.Itoa(i), Bytes: d.room() - beside, GPU: true})
	}
	tree, err := weights.Tree(tensors)
	if err != nil {
		return placed{}, false
	}
	modules, err := weights.Place(tree, weights.Balanced(tree, stores, rules, false), rules)
	if err != nil {
		return placed{}, false
	}
	runs := make([]sequence.Range, len(devices))
	at := 0
	for _, m := range modules {
		var block int
		device, err := strconv.Atoi(m.Store)
		if err != nil || m.Module == "" || m.Module == "blocks" {
			return placed{}, false // on the disk, or all of them on one device
		}
		if n, _ := fmt.Sscanf(m.Module, "blocks.%d", &block); n == 0 {
			continue
		}
		for ; at <= device; at++ {
			runs[at].Lo = block
		}
		runs[device].Hi = block + 1
	}
	h.Grid.Pipeline, h.Runs, h.As = len(runs), runs, "as device_map=auto does it, "
	return s.timed(h, devices), !idle(runs)
}
