package cpu

import (
	"fmt"
	"testing"
	"unsafe"
)

// BenchmarkMultiply measures the micro-kernel with operands in the L2 cache.
func BenchmarkMultiply(b *testing.B) {
	for _, tier := range allTiers() {
		for d := range dots {
			if tier.kernels[d] == nil {
				continue
			}
			for _, s := range [][2]int{{6, 64}, {5, 80}, {8, 48}, {12, 32}, {12, 16}, {1, 64}} {
				const k = 512
				m, n := s[0], s[1]
				b.Run(fmt.Sprintf("%s dot %d %dx%d", tier.name, d, m, n), func(b *testing.B) {
					a, w, c := make([]float32, m*k), make([]float32, n*k), make([]float32, m*n)
					var off int64
					r := &reduce{c: unsafe.Pointer(&c[0]), ldc: n * 4, blocks: 1, offs: unsafe.Pointer(&off),
						a: unsafe.Pointer(&a[0]), b: unsafe.Pointer(&w[0]), k: k, lda: k * 4}
					flop := 2 * m * n * k * (1 + int(d))
					rate(b, New(1), flop, func() { tier.multiply(r, d, m, n) })
				})
			}
		}
	}
}
