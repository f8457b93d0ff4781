package lora

import "sync"

// wide keeps the values of tensors that are read often.
type wide struct {
	once   sync.Once
	values []float32
}

// floats returns all elements, which stay in memory.
func (t *tensor) floats() []float32 {
	t.wide.once.Do(func() { t.wide.values = t.dt.Values(t.data) })
	return t.wide.values
}

// blockColumns is how many columns of A lie together, so that a row of them is a cache line or four.
const blockColumns = 64

// blocks returns the elements of A (rank, columns), which stay in memory: blockColumns columns of all ranks, then the next.
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

// any reports whether an element is not zero; nil has none.
func (t *tensor) any() bool {
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

// notFinite returns the first element that is infinite or no number, -1 for none.
func (t *tensor) notFinite() int {
	for i := range len(t.data) / t.dt.Size() {
		if v := t.dt.At(t.data, i); v-v != 0 {
			return i
		}
	}
	return -1
}
