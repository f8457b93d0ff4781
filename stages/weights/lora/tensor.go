package lora

import "sync"

// wide caches the values of tensors that are read often.
type wide struct {
	once   sync.Once
	values []float32
}

// floats returns all elements and caches them.
func (t *tensor) floats() []float32 {
	t.wide.once.Do(func() { t.wide.values = t.dt.Values(t.data) })
	return t.wide.values
}

// blockColumns is the number of adjacent columns of A in a block; a row of a block is one to four cache lines.
const blockColumns = 64

// blocks returns the elements of A (rank, columns) and caches them: blockColumns columns of all ranks, then the next ones.
func (t *tensor) blocks(rank, columns int) []float32 {
	t.wide.once.Do(func() {
		t.wide.values = make([]float32, 0, rank*columns)
		for from := 0; from < columns; from += blockColumns {
			for k := range rank {
				for i := from; i < min(from+blockColumns, columns); i++ {
					t.wide.values = append(t.wide.values, t.dt.At(t.data, k*columns+i))
				}
			}
		}
	})
	return t.wide.values
}

// anyNonZero reports whether an element is not zero. It is false for a nil tensor.
func (t *tensor) anyNonZero() bool {
	if t == nil {
		return false
	}
	for i := range len(t.data) / t.dt.Size() {
		if t.dt.At(t.data, i) != 0 {
			return true
		}
	}
	return false
}

// notFinite returns the index of the first infinity or NaN, -1 if there is none.
func (t *tensor) notFinite() int {
	for i := range len(t.data) / t.dt.Size() {
		if v := t.dt.At(t.data, i); v-v != 0 {
			return i
		}
	}
	return -1
}
