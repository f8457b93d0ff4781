package ledger

import (
	"bytes"

	"latentbeam/internal/storage/store/dir"
)

// history is what a worker did: its calls, and after how many of them each element was safe.
type history struct {
	calls []dir.Call
	acked map[int]int
}

// watch makes d write a history.
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

// without is the history with some calls left out, as if the code forgot them.
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
