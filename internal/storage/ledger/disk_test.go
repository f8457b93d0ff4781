package ledger

import (
	"bytes"

	"latentbeam/internal/storage/store/dir"
)

// history records the calls of a worker, and for each element the number of calls after which its commit was acknowledged.
type history struct {
	calls []dir.Call
	acked map[int]int
}

// watch makes d record its calls in a history.
func watch(d *dir.Dir) *history {
	h := &history{acked: map[int]int{}}
	d.SetTrace(func(c dir.Call) error {
		c.Data = bytes.Clone(c.Data)
		h.calls = append(h.calls, c)
		return nil
	})
	return h
}

func (h *history) ack(i int) { h.acked[i] = len(h.calls) }

// without returns the history without some calls, as if the code did not make them.
func (h *history) without(forgotten func(dir.Call) bool) *history {
	out := &history{acked: map[int]int{}}
	place := make([]int, len(h.calls)+1)
	for i, c := range h.calls {
		if !forgotten(c) {
			out.calls = append(out.calls, c)
		}
		place[i+1] = len(out.calls)
	}
	for i, at := range h.acked {
		out.acked[i] = place[at]
	}
	return out
}
