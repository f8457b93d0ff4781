package t5

import "math"

// Relative attention in all published models of T5 v1.1, mT5 and UMT5.
const (
	numBuckets  = 32  // half for keys before the query, half for keys after it
	maxDistance = 128 // with 32 buckets, all distances from 91 on share the last one
)

// bucket returns the row of the relative attention table for a key at distance r = key - query. Half of the buckets for a
// direction stand for one distance each, the others for ranges of distances on a logarithmic scale up to MaxDistance.
// Logarithms are computed and divided in fp32, as in transformers, so that a distance on the border of two buckets gets the
// same bucket as there.
func (c Config) bucket(r int) int32 {
	half := c.NumBuckets / 2
	first := 0
	if r > 0 {
		first = half
	} else {
		r = -r
	}
	exact := half / 2
	if r < exact {
		return int32(first + r)
	}
	log := float32(math.Log(float64(float32(r) / float32(exact))))
	of := float32(math.Log(float64(c.MaxDistance) / float64(exact)))
	return int32(first + min(half-1, exact+int(float32(log/of)*float32(half-exact))))
}

// buckets returns bucket(j - i) for all queries i and keys j below n: (n, n), row-major. Each row is a slice of the list of all
// distances.
func (c Config) buckets(n int) []int32 {
	line := c.distances(n)
	out := make([]int32, 0, n*n)
	for i := range n {
		out = append(out, line[n-1-i:][:n]...)
	}
	return out
}

// distances returns the buckets of the distances 1-n to n-1.
func (c Config) distances(n int) []int32 {
	line := make([]int32, 2*n-1)
	for i := range line {
		line[i] = c.bucket(i + 1 - n)
	}
	return line
}
