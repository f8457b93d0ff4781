package plan

import "fmt"

// MaxBatch bounds every batch, so that a stage that needs next to no memory still works in steps.
const MaxBatch = 256

// Memory is what one device offers to the batch it works on, in bytes.
type Memory struct {
	Target int64 // fill a batch up to here: more gains no speed
	Limit  int64 // never beyond
}

// BatchSize returns the largest number of elements, at most limit (0: MaxBatch), whose need stays
// within the target; one element may go up to the limit. need must not fall with n; its error ends the
// search.
func BatchSize(m Memory, limit int, need func(n int) (int64, error)) (int, error) {
	one, err := need(1)
	if err != nil {
		return 0, err
	}
	if one > m.Limit {
		return 0, fmt.Errorf("one element needs %s, a worker has %s: use fewer workers, a smaller size, "+
			"or raise resources.memory", Bytes(one), Bytes(m.Limit))
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

// Bytes writes a number of bytes the way people read it: 1.5 GiB.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, suffix := float64(n)/unit, "KiB"
	for _, s := range []string{"MiB", "GiB", "TiB", "PiB"} {
		if v < unit {
			break
		}
		v, suffix = v/unit, s
	}
	return fmt.Sprintf("%.1f %s", v, suffix)
}
