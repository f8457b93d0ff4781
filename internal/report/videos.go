package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"latentbeam/internal/table"
	"latentbeam/schemas"
)

// videosPerFile bounds a file of the videos table; a row takes a few hundred bytes.
const videosPerFile = 500_000

// videos writes the table of videos.
func (j *Job) videos(ctx context.Context) error {
	files, err := inFiles(j.done(ctx), j.perFile(videosPerFile), func(i int, rows iter.Seq2[outcome, error]) error {
		return j.Replace(ctx, j.tableName("videos", i), func(w io.Writer) error {
			_, err := table.Write(w, convert(rows, j.videoRow), table.WriteOptions{Version: j.Version})
			return err
		})
	})
	if err == nil {
		err = j.removeFrom(ctx, "videos", files)
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
	width, height, frames := sizeOf(v, r)
	return schemas.VideoRow{
		ID: r.ID, Key: o.Key.String(), Prompt: r.Prompt, NegativePrompt: r.NegativePrompt,
		Seed: *r.Seed, SampleIndex: int64(r.SampleIndex), Model: j.Model,
		Height: int64(height), Width: int64(width), NumFrames: int64(frames), FPS: r.FPS,
		NumInferenceSteps: int64(r.NumInferenceSteps), GuidanceScale: r.Guidance(),
		MaxSequenceLength: int64(r.MaxSequenceLength),
		VideoPath:         v.Path, VideoBytes: v.Bytes, VideoSHA256: v.SHA256, Poster: v.Poster, Codec: v.Codec,
		Readings: readings, WeightsDigest: j.Weights, Class: j.Class, LatentbeamVersion: j.Version, Extra: r.Extra,
	}, nil
}
