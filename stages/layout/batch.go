package layout

import (
	"fmt"

	"latentbeam/stages/cost"
)

// MaxBatch limits every batch, so that a stage that needs very little memory still works in steps.
const MaxBatch = 256

// BatchSize returns the largest number of elements, at most limit (0: MaxBatch), whose memory need stays within the target; a
// single element may need up to the memory's limit. need must not fall with n; its error stops the search.
func BatchSize(m cost.Memory, limit int, need func(n int) (int64, error)) (int, error) {
	one, err := need(1)
	if err != nil {
		return 0, err
	}
	if one > m.Limit {
		return 0, fmt.Errorf("one element needs %s, a worker has %s: use fewer workers, a smaller size, "+
			"or raise resources.memory", cost.Bytes(one), cost.Bytes(m.Limit))
	}
	if limit <= 0 || limit > MaxBatch {
		limit = MaxBatch
	}
	lo, hi := 1, limit // need(lo) is known to be acceptable
	for lo < hi {
		mid := (lo + hi + 1) / 2
		bytes, err := need(mid)
		if err != nil {
			return 0, err
		}
		if bytes <= min(m.Target, m.Limit) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo, nil
}
