package cpu

// ropeNormBlock is the number of elements of a block: small enough that the second pass finds them in a near cache, large enough
// that the fixed costs of a pass are small.
const ropeNormBlock = 1 << 13

// ropeNorm computes RMSNorm with a rotation. v holds dst, x, weight, bias, scale, shift, cos and sin. Each block of rows is
// computed in two passes, the second one in place.
func (b *Backend) ropeNorm(v []*view, ropeFirst bool) {
	first, second := b.tasks.norm, b.tasks.rope
	b.rope = newRotation(v[0], v[0], v[6], v[7])
	if ropeFirst {
		first, second = second, first
		b.rope.x, b.norm.x = b.norm.x, b.rope.x
	}
	b.ropeNormPasses = [2]func(w *worker, from, to int){first, second}
	b.eachSpan("norm", b.norm.x.count, 2*b.norm.x.n, b.tasks.ropeNorm)
}

// runRopeNorm is the task of ropeNorm.
func (b *Backend) runRopeNorm(w *worker, from, to int) {
	rows := max(1, ropeNormBlock/b.norm.x.n)
	for ; from < to; from += rows {
		end := min(from+rows, to)
		b.ropeNormPasses[0](w, from, end)
		b.ropeNormPasses[1](w, from, end)
	}
}
