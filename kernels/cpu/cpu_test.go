package cpu_test

import (
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
)

func TestSuite(t *testing.T) {
	kerneltest.Run(t, func(threads int) kernels.Backend { return cpu.New(threads) })
}

// TestSuiteDeferred tests the deferred wrapper by the same suite.
func TestSuiteDeferred(t *testing.T) {
	kerneltest.Run(t, func(threads int) kernels.Backend { return kerneltest.Deferred(cpu.New(threads)) })
}
