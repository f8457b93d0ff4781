package cost

import "fmt"

// Memory is the memory of one device for a batch, in bytes.
type Memory struct {
	Target int64 // size up to which a larger batch is faster
	Limit  int64 // hard limit
}

// Bytes formats a number of bytes for people: 1.5 GiB.
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
