package cluster

import (
	"testing"

	"latentbeam/internal/system/testaid"
)

// TestMain leaves out what is logged of every group.
func TestMain(m *testing.M) { testaid.Quiet(m) }
