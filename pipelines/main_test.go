//go:build unix

package pipelines_test

import (
	"testing"

	"latentbeam/internal/dev/jobtest"
)

func TestMain(m *testing.M) { jobtest.Main(m) }
