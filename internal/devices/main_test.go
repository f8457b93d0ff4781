package devices

import (
	"testing"

	"latentbeam/internal/system/testaid"
)

// TestMain silences the log messages about workers.
func TestMain(m *testing.M) { testaid.Quiet(m) }
