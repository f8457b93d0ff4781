//go:build !unix

package devices

import "time"

// busy is not known here.
func busy() time.Duration { return 0 }
