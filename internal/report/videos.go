package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"latentbeam/schemas"
	"latentbeam/transforms/table"
)

// videosPerFile bounds a file of the videos table; a row takes a few hundred bytes.
const videosPerFile = 500_000

// videos writes the table of videos.
func (j *Job) videos(ctx context.Context) error {
	files, err := inFiles(j.done(ctx), videosPerFile, func(i int, rows iter.Seq2[outcome, error]) error {
		return j.Store.Replace(ctx, j.tableName("videos", i), func(w io.Writer) error {
			return writeTable(w, convert(rows, j.videoRow), table.WriteOptions{Version: j.Version})
		})
	})
	if err == nil {
		err = j.removeFrom("videos", files)
	}
	if err != nil {
		return fmt.Errorf("write videos table: %w", err)
	}
	return nil
}

func (j *Job) videoRow(o outcome) (schemas.VideoRow, error) {
	v, r := o.result.Video, &o.Row
	if v == nil {
		return schemas.VideoRow{}, fmt.Errorf("ledger record %s names no video", o.Key)
	}
	readings := ""
	if len(o.result.Readings) > 0 {
		js, err := json.Marshal(o.result.Readings)
		if err != nil {
			return schemas.VideoRow{}, fmt.Errorf("readings of %s: %w", o.Key, err)
		}
		readings = string(js)
	}
	return schemas.VideoRow{
		ID: r.ID, Key: o.Key.String(), Prompt: r.Prompt, NegativePrompt: r.NegativePrompt,
		Seed: *r.Seed, SampleIndex: int64(r.SampleIndex), Model: j.Model,
		Height: int64(r.Height), Width: int64(r.Width), NumFrames: int64(r.NumFrames), FPS: r.FPS,
		NumInferenceSteps: int64(r.NumInferenceSteps), GuidanceScale: r.Guidance(),
		MaxSequenceLength: int64(r.MaxSequenceLength),
		VideoPath:         v.Path, VideoBytes: v.Bytes, VideoSHA256: v.SHA256, Poster: v.Poster, Codec: v.Codec,
		Readings: readings, WeightsDigest: j.Weights, Class: j.Class, LatentbeamVersion: j.Version, Extra: r.Extra,
	}, nil
}

// convert turns outcomes into rows of a table.
func convert[T any](rows iter.Seq2[outcome, error], row func(outcome) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for o, err := range rows {
			var t T
			if err == nil {
				t, err = row(o)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// writeTable writes rows as one parquet file.
func writeTable[T schemas.Row](w io.Writer, rows iter.Seq2[T, error], o table.WriteOptions) error {
	_, err := table.Write(w, rows, o)
	return err
}

// inFiles cuts rows into files of at most n and returns how many there are; there is always one, so
// that an empty table can be read too.
func inFiles(rows iter.Seq2[outcome, error], n int, write func(i int, rows iter.Seq2[outcome, error]) error) (int, error) {
	next, stop := iter.Pull2(rows)
	defer stop()
	o, err, more := next()
	for i := 0; ; i++ {
		file := func(yield func(outcome, error) bool) {
			for k := 0; more && k < n; k++ {
				if !yield(o, err) {
					return
				}
				o, err, more = next()
			}
		}
		if err := write(i, file); err != nil {
			return i, err
		}
		if !more {
			return i + 1, nil
		}
	}
}

// blob reads a tensor of the row from the ledger.
func (j *Job) blob(o outcome, name string) ([]byte, error) {
	data, err := j.Ledger.ReadBlob(o.ref, name)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", name, o.Key, err)
	}
	return data, nil
}
