package cpu

// turnedBlock is the number of elements that are normalised and rotated before the next ones: the second pass finds them in
// near caches, and the fixed costs of a pass are small.
const turnedBlock = 1 << 13

// turnedNorm is RMSNorm with a rotation, of the operands dst, x, weight, bias, scale, shift, cos, sin. It makes two passes, the
// second in place, block by block of rows.
func (b *Backend) turnedNorm(v []*view, ropeFirst bool) {
	first, second := b.tasks.norm, b.tasks.rope
	b.rope = newRotation(v[0], v[0], v[6], v[7])
	if ropeFirst {
		first, second = second, first
		b.rope.x, b.norm.x = b.norm.x, b.rope.x
	}
	b.turned = [2]func(w *worker, from, to int){first, second}
	b.eachSpan("norm", b.norm.x.count, 2*b.norm.x.n, b.tasks.turned)
}

// runTurned is the task of turnedNorm.
func (b *Backend) runTurned(w *worker, from, to int) {
	rows := max(1, turnedBlock/b.norm.x.n)
	for ; from < to; from += rows {
		end := min(from+rows, to)
		b.turned[0](w, from, end)
		b.turned[1](w, from, end)
	}
}
