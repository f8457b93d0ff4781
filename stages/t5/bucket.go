package t5

// The relative attention of all published T5 v1.1 models.
const (
	numBuckets  = 32  // half for keys before the query, half for keys behind it
	maxDistance = 128 // distances from 91 on share the last bucket
)

// firstDistance lists the first distance of each of the 16 buckets of one direction. It is a table,
// because the formula min(15, 8 + floor(8 ln(a/8) / ln(16))) sits on integers where two logarithms of
// different libraries fall on different sides.
var firstDistance = [numBuckets / 2]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}

// bucket returns the row of the relative attention table for a key at distance r = key - query.
func bucket(r int) int32 {
	first := int32(0)
	if r > 0 {
		first = numBuckets / 2
	} else {
		r = -r
	}
	b := int32(0)
	for int(b)+1 < len(firstDistance) && firstDistance[b+1] <= r {
		b++
	}
	return first + b
}

// buckets returns bucket(j - i) for all queries i and keys j below n: (n, n), row-major. Each row is a piece of one
// line of all distances.
func buckets(n int) []int32 {
	line := distances(n)
	out := make([]int32, 0, n*n)
	for i := range n {
		out = append(out, line[n-1-i:][:n]...)
	}
	return out
}

// distances returns the buckets of the distances 1-n to n-1.
func distances(n int) []int32 {
	line := make([]int32, 2*n-1)
	for i := range line {
		line[i] = bucket(i + 1 - n)
	}
	return line
}
