package kerneltest

import (
	"testing"

	"latentbeam/kernels"
)

// Run runs the suite on backends that newBackend makes. threads is the number of workers that the backend should use; backends
// without workers ignore it. Tolerances follow from fp32 arithmetic and the storage type.
func Run(t *testing.T, newBackend func(threads int) kernels.Backend) {
	for _, group := range []struct {
		name string
		run  func(t *testing.T, newBackend func(threads int) kernels.Backend)
	}{
		{"Transfer", testTransfer},
		{"Weights", testWeights},
		{"Elementwise", testElementwise},
		{"Gather", testGather},
		{"Linear", testLinear},
		{"Parts", testParts},
		{"Attention", testAttention},
		{"Norm", testNorm},
		{"Rope", testRope},
		{"RopeNorm", testRopeNorm},
		{"Steps", testSteps},
		{"Conv", testConv},
		{"ConvVideo", testConvVideo},
		{"SameBits", testSameBits},
		{"Tiny", testTiny},
		{"Long", testLong},
		{"Scopes", testScopes},
		{"Peers", testPeers},
		{"Errors", testErrors},
	} {
		t.Run(group.name, func(t *testing.T) { group.run(t, newBackend) })
	}
}
