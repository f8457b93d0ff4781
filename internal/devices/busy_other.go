//go:build !unix

package devices

import "time"

// busy returns 0: the processor time is unknown on this system.
func busy() time.Duration { return 0 }
