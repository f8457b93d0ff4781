package reuse

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// readers is the number of videos that are read concurrently to compare their digests. It is high because reads from a bucket
// mostly wait for the network.
const readers = 8

// comparison compares videos and posters with their digests, several rows concurrently.
type comparison struct {
	results *Results
	depth   fingerprints.Look
	work    chan suspect
	workers sync.WaitGroup
	damaged atomic.Int64 // number of damaged rows

	mu    sync.Mutex
	wrong []uint64 // first eight bytes of the keys of damaged rows
	err   error
}

// suspect is a row whose files may have changed.
type suspect struct {
	key   schemas.Key
	video schemas.VideoFile
	mark  uint64
}

// startComparison starts the workers. wait stops them.
func (o *Results) startComparison(ctx context.Context) *comparison {
	r := &comparison{results: o, depth: o.Depth(), work: make(chan suspect, readers)}
	for range readers {
		r.workers.Go(func() {
			for s := range r.work {
				r.compareRow(ctx, s)
			}
		})
	}
	return r
}

// add gives a row to the workers if its files have to be read. A shard reads only its own rows.
func (r *comparison) add(ctx context.Context, key schemas.Key, v *schemas.VideoFile, mark uint64) error {
	known, found := r.results.Tensors.Output.Witness.Row(key)
	if r.depth == fingerprints.LookAtSizes || r.depth == fingerprints.LookAtMarks && found && known.Mark == mark ||
		!r.results.Engine.Rules.Mine(&stages.Element{Key: key}) {
		return nil
	}
	select {
	case r.work <- suspect{key, *v, mark}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// compareRow compares the files of a row.
func (r *comparison) compareRow(ctx context.Context, s suspect) {
	w := r.results.Tensors.Output.Witness
	known, _ := w.Row(s.key)
	poster, same, err := compareVideo(ctx, r.results.Engine.Store, &s.video, known.Poster)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.err = errors.Join(r.err, err)
	case same:
		w.SetRow(s.key, fingerprints.RowState{Mark: s.mark, Poster: poster})
	default:
		w.SetRow(s.key, fingerprints.RowState{})
		r.damaged.Add(1)
		r.wrong = append(r.wrong, binary.BigEndian.Uint64(s.key[:]))
	}
}

// wait waits for the workers, and returns the sorted key prefixes of damaged rows.
func (r *comparison) wait() ([]uint64, error) {
	close(r.work)
	r.workers.Wait()
	slices.Sort(r.wrong)
	return r.wrong, r.err
}

// compareVideo reports whether a video and its poster match their digests. known is the poster's fingerprint; 0: not known. It also
// returns the fingerprint of the poster as it is now.
func compareVideo(ctx context.Context, s store.Store, v *schemas.VideoFile, known uint64) (poster uint64, same bool, err error) {
	if v.Path == "" { // the video belongs to the input, only the poster to the output
		sum, err := fingerprints.Sum(ctx, s, v.Poster)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrChanged) {
			return 0, false, nil
		}
		poster = fingerprints.HashSum(sum)
		return poster, err == nil && (known == 0 || known == poster), err
	}
	sum, err := fingerprints.Sum(ctx, s, v.Path)
	if err == nil && hex.EncodeToString(sum[:]) != v.SHA256 {
		return 0, false, nil
	}
	if err == nil && v.Poster != "" {
		sum, err = fingerprints.Sum(ctx, s, v.Poster)
		poster = fingerprints.HashSum(sum)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrChanged):
		return 0, false, nil // removed, or another process writes it
	case err != nil:
		return 0, false, err
	}
	return poster, known == 0 || known == poster, nil
}

// Published records the fingerprint of a poster that this process has published.
func (o *Results) Published(key schemas.Key, poster [32]byte) {
	o.Tensors.Output.Witness.SetRow(key, fingerprints.RowState{Poster: fingerprints.HashSum(poster)})
}

// RecordFiles records the marks of new files, such as sizes and times, so that the next run need not read the files that have not
// changed. It saves them in the output under part; "": a run without shards.
func (o *Results) RecordFiles(ctx context.Context, part string) error {
	w, sizes := o.Tensors.Output.Witness, o.Engine.Store.Sizes(ctx)
	defer sizes.Close()
	if o.Engine.Keep[stages.KindVideo] {
		err := o.Engine.Ledger.Each(ctx, func(_ ledger.Ref, rec ledger.Record) error {
			known, _ := w.Row(rec.Key)
			if known.Mark != 0 || rec.Status != ledger.Done || !o.Engine.Rules.Mine(&stages.Element{Key: schemas.Key(rec.Key)}) {
				return nil
			}
			return o.recordRow(ctx, rec, known, sizes)
		})
		if err != nil {
			return err
		}
	}
	rules := &o.Engine.Rules
	shards, shard := uint64(max(1, rules.Shards)), uint64(rules.Shard)
	return w.Save(ctx, o.Engine.Store, part, func(key uint64) bool { return key%shards == shard })
}

// recordRow records the marks of one row's files. If another process published the row, recordRow reads the poster.
func (o *Results) recordRow(ctx context.Context, rec ledger.Record, known fingerprints.RowState, sizes store.Sizes) error {
	var r schemas.Result
	if json.Unmarshal(rec.Row, &r) != nil || r.Video == nil {
		return nil // no files
	}
	var marks [2]string
	for i, name := range []string{r.Video.Path, r.Video.Poster} {
		if name == "" {
			continue
		}
		info, err := sizes.Of(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the next run finds it missing
		}
		if err != nil {
			return err
		}
		marks[i] = info.Mark
	}
	if known.Poster == 0 && r.Video.Poster != "" {
		sum, err := fingerprints.Sum(ctx, o.Engine.Store, r.Video.Poster)
		if err != nil {
			return err
		}
		known.Poster = fingerprints.HashSum(sum)
	}
	known.Mark = fingerprints.HashMarks(marks[:]...)
	o.Tensors.Output.Witness.SetRow(rec.Key, known)
	return nil
}
