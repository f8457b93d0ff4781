package devices

import (
	"testing"

	"latentbeam/internal/system/testaid"
)

// TestMain leaves out what is logged of workers.
func TestMain(m *testing.M) { testaid.Quiet(m) }
