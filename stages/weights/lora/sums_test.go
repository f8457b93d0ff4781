package lora

import (
	"math"
	"math/rand/v2"
	"testing"

	"latentbeam/kernels"
)

// TestSums: the assembly gives the bits of plain Go, at every length and rank.
func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 64))
	for _, n := range []int{1, 63, 64, 65, 127, 128, 200, 1024} {
		for _, rank := range []int{0, 1, 3, 4, 7, 64} {
			stride := n + 5
			a, b := make([]float32, max(0, rank*stride-5)), make([]float32, rank)
			for i := range a {
				a[i] = float32(r.NormFloat64() * math.Pow(10, float64(i%9-4)))
			}
			for i := range b {
				b[i] = float32(r.NormFloat64())
			}
			got, want := make([]float32, n+1), make([]float32, n+1)
			got[n], want[n] = 7, 7
			sums(got[:n], a, b, stride)
			sumsGo(want[:n], a, b, stride)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d sums of %d: sum %d is %g, want %g", n, rank, i, got[i], want[i])
				}
			}
		}
	}
}

// BenchmarkAdd reports the time for a row of 1536 elements at rank 64.
func BenchmarkAdd(b *testing.B) {
	const n, rank = 1536, 64
	matrix := func(shape ...int) *tensor {
		return &tensor{shape: shape, data: make([]byte, 4*kernels.Elements(shape))}
	}
	d, row := Delta{{factor: 1, rank: rank, columns: n, down: matrix(rank, n), up: matrix(n, rank)}}, make([]float32, n)
	for b.Loop() {
		d.Add(row, 7, 0)
	}
	b.ReportMetric(float64(b.N)*n*rank/b.Elapsed().Seconds()/1e9, "Gmul/s")
}
