//go:build unix

package marks

import (
	"testing"

	"latentbeam/internal/dev/jobtest"
)

func TestMain(m *testing.M) { jobtest.Main(m) }
