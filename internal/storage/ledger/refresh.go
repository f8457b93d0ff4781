package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"latentbeam/internal/storage/store"
)

// Generation returns the generation of this ledger's own segments. It is larger than the generation of every segment that
// existed when the ledger was opened.
func (l *Ledger) Generation() uint32 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.id.generation
}

// Refresh reads the segments that other processes have published since the ledger was opened.
func (l *Ledger) Refresh(ctx context.Context) error {
	found, err := store.Names(ctx, l.store, l.folder, store.Deep)
	if err != nil {
		return fmt.Errorf("refresh ledger: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.id
	defer func() { l.id = mine }() // numbers of other processes' segments do not change this process's id
	known := l.names.known()
	r := newReader()
	var places []recordPlace
	for _, name := range found {
		if !strings.HasSuffix(name, ".seg") {
			continue
		}
		if id, err := parseSegmentName(l.folder, name); err == nil && known(id) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("refresh ledger: %w", err)
		}
		if places, err = l.load(ctx, r, name, places[:0]); err != nil {
			return fatal(fmt.Errorf("refresh ledger: %w", err))
		}
	}
	return nil
}

// known reports whether a segment has a number.
func (n *segmentNumbers) known() func(segmentID) bool {
	type process struct {
		generation uint32
		process    uint64
	}
	runs := map[process][]runOfNames{}
	for _, r := range n.runs {
		p := process{r.first.generation, r.first.process}
		runs[p] = append(runs[p], r)
	}
	return func(id segmentID) bool {
		return slices.ContainsFunc(runs[process{id.generation, id.process}], func(r runOfNames) bool {
			return id.sequence >= r.first.sequence && id.sequence-r.first.sequence < r.count
		})
	}
}

// LookupSince is Lookup for records in segments of this generation or a later one.
func (l *Ledger) LookupSince(key Key, generation uint32) (Status, error) {
	ref, err := l.find(key, l.sameKey(key))
	if err != nil || ref.status() == Absent {
		return Absent, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.names.id(ref.segment()).generation < generation {
		return Absent, nil
	}
	return ref.status(), nil
}
