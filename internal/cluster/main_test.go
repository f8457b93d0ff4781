package cluster

import (
	"testing"

	"latentbeam/internal/system/testaid"
)

// TestMain silences the log messages about groups.
func TestMain(m *testing.M) { testaid.Quiet(m) }
