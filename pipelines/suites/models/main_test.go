//go:build unix

package models

import (
	"testing"

	"latentbeam/internal/dev/jobtest"
)

func TestMain(m *testing.M) { jobtest.Main(m) }
