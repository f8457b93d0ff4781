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

// readers is how many videos are read at a time to compare their digests: in a bucket each waits for the network.
const readers = 8

// reading compares videos and posters with their digests, several at a time.
type reading struct {
	of      *Results
	depth   fingerprints.Look
	work    chan suspect
	workers sync.WaitGroup
	damaged atomic.Int64 // rows

	mu    sync.Mutex
	wrong []uint64 // first bytes of the keys of rows with damage
	err   error
}

// suspect is a row of which a file may be another one.
type suspect struct {
	key   schemas.Key
	video schemas.VideoFile
	mark  uint64
}

// beginReading starts the workers; end ends them.
func (o *Results) beginReading(ctx context.Context) *reading {
	r := &reading{of: o, depth: o.Look(), work: make(chan suspect, readers)}
	for range readers {
		r.workers.Go(func() {
			for s := range r.work {
				r.one(ctx, s)
			}
		})
	}
	return r
}

// look hands a row to the workers where its files have to be read. A shard reads its own rows.
func (r *reading) look(ctx context.Context, key schemas.Key, v *schemas.VideoFile, mark uint64) error {
	known, found := r.of.Tensors.Output.Witness.Row(key)
	if r.depth == fingerprints.LookAtSizes || r.depth == fingerprints.LookAtMarks && found && known.Mark == mark ||
		!r.of.Engine.Rules.Mine(&stages.Element{Key: key}) {
		return nil
	}
	select {
	case r.work <- suspect{key, *v, mark}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// one compares the files of a row.
func (r *reading) one(ctx context.Context, s suspect) {
	w := r.of.Tensors.Output.Witness
	known, _ := w.Row(s.key)
	poster, whole, err := compareVideo(ctx, r.of.Engine.Store, &s.video, known.Poster)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.err = errors.Join(r.err, err)
	case whole:
		w.SetRow(s.key, fingerprints.RowState{Mark: s.mark, Poster: poster})
	default:
		w.SetRow(s.key, fingerprints.RowState{})
		r.damaged.Add(1)
		r.wrong = append(r.wrong, binary.BigEndian.Uint64(s.key[:]))
	}
}

// end waits for the workers, and returns the rows with damage, sorted.
func (r *reading) end() ([]uint64, error) {
	close(r.work)
	r.workers.Wait()
	slices.Sort(r.wrong)
	return r.wrong, r.err
}

// compareVideo compares a video and its poster with their digests; that of a poster may be 0, not known. It returns the
// poster's.
func compareVideo(ctx context.Context, s store.Store, v *schemas.VideoFile, known uint64) (poster uint64, whole bool, err error) {
	if v.Path == "" { // a video of the input
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
		return 0, false, nil // somebody is at work there
	case err != nil:
		return 0, false, err
	}
	return poster, known == 0 || known == poster, nil
}

// Published notes the poster of a row that this process has published.
func (o *Results) Published(key schemas.Key, poster [32]byte) {
	o.Tensors.Output.Witness.SetRow(key, fingerprints.RowState{Poster: fingerprints.HashSum(poster)})
}

// Remember notes how the files look that are new, and saves it as a shard's part, "" for all.
func (o *Results) Remember(ctx context.Context, part string) error {
	w, sizes := o.Tensors.Output.Witness, o.Engine.Store.Sizes(ctx)
	defer sizes.Close()
	if o.Engine.Keep[stages.KindVideo] {
		err := o.Engine.Ledger.Each(ctx, func(_ ledger.Ref, rec ledger.Record) error {
			known, _ := w.Row(rec.Key)
			if known.Mark != 0 || rec.Status != ledger.Done || !o.Engine.Rules.Mine(&stages.Element{Key: schemas.Key(rec.Key)}) {
				return nil
			}
			return o.rememberRow(ctx, rec, known, sizes)
		})
		if err != nil {
			return err
		}
	}
	rules := &o.Engine.Rules
	shards, shard := uint64(max(1, rules.Shards)), uint64(rules.Shard)
	return w.Save(ctx, o.Engine.Store, part, func(key uint64) bool { return key%shards == shard })
}

// rememberRow notes how the files of a row look. Where another process has published it, its poster is read.
func (o *Results) rememberRow(ctx context.Context, rec ledger.Record, known fingerprints.RowState, sizes store.Sizes) error {
	var r schemas.Result
	if json.Unmarshal(rec.Row, &r) != nil || r.Video == nil {
		return nil // nothing to remember
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
