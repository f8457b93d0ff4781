package lora

// sumsGo sets sum to the sum over k, in order, of b[k] times row k of a. Rows start stride elements apart. Every product is
// rounded before it is added, so that vector instructions give the same bits.
func sumsGo(sum, a, b []float32, stride int) {
	clear(sum)
	k := 0
	for ; k+4 <= len(b); k += 4 {
		b0, b1, b2, b3 := b[k], b[k+1], b[k+2], b[k+3]
		a0 := a[k*stride:][:len(sum)]
		a1 := a[(k+1)*stride:][:len(sum)]
		a2 := a[(k+2)*stride:][:len(sum)]
		a3 := a[(k+3)*stride:][:len(sum)]
		for i, s := range sum {
			s += float32(b0 * a0[i])
			s += float32(b1 * a1[i])
			s += float32(b2 * a2[i])
			s += float32(b3 * a3[i])
			sum[i] = s
		}
	}
	for ; k < len(b); k++ {
		ak, bk := a[k*stride:][:len(sum)], b[k]
		for i := range sum {
			sum[i] += float32(bk * ak[i])
		}
	}
}
