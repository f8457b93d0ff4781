package cost

import "fmt"

// Memory is what one device offers to the batch it works on, in bytes.
type Memory struct {
	Target int64 // fill a batch up to here: more gains no speed
	Limit  int64 // never beyond
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
