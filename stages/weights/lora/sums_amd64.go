package lora

import "golang.org/x/sys/cpu"

// sums256 is sumsGo for n sums, a multiple of blockColumns, and at least one row.
//
//go:noescape
func sums256(sum, a, b *float32, n, stride, rank int)

// sums is sumsGo, with the same bits.
func sums(sum, a, b []float32, stride int) {
	n := 0
	if whole := len(sum) &^ (blockColumns - 1); cpu.X86.HasAVX2 && whole > 0 && len(b) > 0 {
		n = whole
		_ = a[(len(b)-1)*stride+len(sum)-1] // the assembly does not check bounds
		sums256(&sum[0], &a[0], &b[0], n, stride, len(b))
	}
	if n < len(sum) {
		sumsGo(sum[n:], a[n:], b, stride)
	}
}
