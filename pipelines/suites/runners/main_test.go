//go:build unix

package runners

import (
	"testing"

	"latentbeam/internal/dev/jobtest"
)

func TestMain(m *testing.M) { jobtest.Main(m) }
