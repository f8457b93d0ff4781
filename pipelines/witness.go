package pipelines

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

	"latentbeam/internal/config"
	"latentbeam/internal/ledger"
	"latentbeam/internal/report"
	"latentbeam/internal/store"
	"latentbeam/internal/witness"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// readers is how many videos are read at a time to compare their digests: in a bucket each waits for the network.
const readers = 8

// look says how closely this job looks at what is there. Who only looks at an output reads no videos.
func (j *Job) look() report.Look {
	switch {
	case j.peeking:
		return report.LookAtSizes
	case j.Opts.Repair || j.Config.Output.Verify == config.VerifyDigest:
		return report.LookAtAll
	}
	return report.LookAtMarks
}

// reading compares videos and posters with their digests, several at a time.
type reading struct {
	job     *Job
	depth   report.Look
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
func (j *Job) beginReading(ctx context.Context) *reading {
	r := &reading{job: j, depth: j.look(), work: make(chan suspect, readers)}
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
	known, found := r.job.report.Witness.Row(key)
	if r.depth == report.LookAtSizes || r.depth == report.LookAtMarks && found && known.Mark == mark ||
		!r.job.engine.Rules.Mine(&stages.Element{Key: key}) {
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
	w := r.job.report.Witness
	known, _ := w.Row(s.key)
	poster, whole, err := compareVideo(ctx, r.job.engine.Store, &s.video, known.Poster)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.err = errors.Join(r.err, err)
	case whole:
		w.SetRow(s.key, witness.Row{Mark: s.mark, Poster: poster})
	default:
		w.SetRow(s.key, witness.Row{})
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
	sum, err := report.Sum(ctx, s, v.Path)
	if err == nil && hex.EncodeToString(sum[:]) != v.SHA256 {
		return 0, false, nil
	}
	if err == nil && v.Poster != "" {
		sum, err = report.Sum(ctx, s, v.Poster)
		poster = witness.SumOf(sum)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrChanged):
		return 0, false, nil // somebody is at work there
	case err != nil:
		return 0, false, err
	}
	return poster, known == 0 || known == poster, nil
}

// published notes the poster of a row that this process has published.
func (j *Job) published(key schemas.Key, poster [32]byte) {
	j.report.Witness.SetRow(key, witness.Row{Poster: witness.SumOf(poster)})
}

// remember notes how the files look that are new, and saves it.
func (j *Job) remember(ctx context.Context) error {
	w, sizes := j.report.Witness, j.engine.Store.Sizes(ctx)
	defer sizes.Close()
	if j.engine.Keep[stages.KindVideo] {
		err := j.engine.Ledger.Each(ctx, func(_ ledger.Ref, rec ledger.Record) error {
			known, _ := w.Row(rec.Key)
			if known.Mark != 0 || rec.Status != ledger.Done || !j.engine.Rules.Mine(&stages.Element{Key: schemas.Key(rec.Key)}) {
				return nil
			}
			return j.rememberRow(ctx, rec, known, sizes)
		})
		if err != nil {
			return err
		}
	}
	shards, shard := uint64(max(1, j.Opts.Shards)), uint64(j.Opts.Shard)
	return w.Save(ctx, j.engine.Store, j.report.Part, func(key uint64) bool { return key%shards == shard })
}

// rememberRow notes how the files of a row look. Where another process has published it, its poster is read.
func (j *Job) rememberRow(ctx context.Context, rec ledger.Record, known witness.Row, sizes store.Sizes) error {
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
		sum, err := report.Sum(ctx, j.engine.Store, r.Video.Poster)
		if err != nil {
			return err
		}
		known.Poster = witness.SumOf(sum)
	}
	known.Mark = witness.MarkOf(marks[:]...)
	j.report.Witness.SetRow(rec.Key, known)
	return nil
}
