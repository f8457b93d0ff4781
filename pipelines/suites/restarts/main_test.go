//go:build unix

package restarts

import (
	"testing"

	"latentbeam/internal/dev/jobtest"
)

func TestMain(m *testing.M) { jobtest.Main(m) }
