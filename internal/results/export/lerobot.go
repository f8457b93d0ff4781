package export

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/results/where"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// The format is LeRobotDataset v3.0 (github.com/huggingface/lerobot, src/lerobot/datasets). Each video is an episode, its prompt is
// the task, and its frames are the rows of the data. Files are numbered in chunks of a thousand.
const (
	leRobotVersion = "v3.0"
	leRobotFeature = "observation.images.video"
	leRobotVideos  = "videos/" + leRobotFeature + "/" + leRobotPlace + ".mp4"
	leRobotData    = "data/" + leRobotPlace + ".parquet"
	leRobotMeta    = "meta/episodes/" + leRobotPlace + ".parquet"
	leRobotPlace   = "chunk-%03d/file-%03d"
	leRobotChunk   = 1000
	// leRobotFrames and leRobotEpisodes limit the rows of a parquet file, because readers expect at most 100 MB.
	leRobotFrames   = 2_000_000
	leRobotEpisodes = 50_000
	// leRobotGroup is the number of videos that are copied and decoded before their rows are written.
	leRobotGroup = 64
)

// leRobot writes a data set of videos.
type leRobot struct {
	*out
	store    store.Store
	frames   leRobotTable[leRobotFrame]
	episodes leRobotTable[leRobotEpisode]
	first    *videoRow        // first row; all others must have its size and rate
	files    map[string]int64 // numbers of the copied videos, by their path in the output
	tasks    map[string]int64 // indexes of the tasks by text
	texts    []string         // texts of the tasks, in order
	group    []videoRow       // rows that are not written yet

	index   int64     // index of the next frame
	pixels  pixels    // pixels of all videos
	columns [5]column // statistics of the columns of leRobotFrame
}

// leRobotTable is a table in numbered files.
type leRobotTable[T schemas.Row] struct {
	pattern string
	maxRows int64 // maximal rows of a file
	number  int64 // number of the current file
	rows    int64 // rows in the current file
	file    *parquetFile[T]
}

// reserve opens a file that has room for the given number of further rows. It closes the current file if that is too full.
func (t *leRobotTable[T]) reserve(o *out, rows int64) (err error) {
	if t.file != nil && t.rows+rows > t.maxRows {
		if err := t.close(); err != nil {
			return err
		}
		t.number, t.rows = t.number+1, 0
	}
	if t.rows += rows; t.file == nil {
		t.file, err = createParquet[T](o, leRobotName(t.pattern, t.number), write.Options{})
	}
	return err
}

func (t *leRobotTable[T]) close() error {
	if t.file == nil {
		return nil
	}
	file := t.file
	t.file = nil
	return file.close()
}

// leRobotName returns the name of a numbered file.
func leRobotName(pattern string, number int64) string {
	return fmt.Sprintf(pattern, number/leRobotChunk, number%leRobotChunk)
}

// exportLeRobot writes the chosen videos of an output. It returns the number of rows in the table of videos.
func exportLeRobot(ctx context.Context, s store.Store, o *out, filter *where.Filter) (rows int64, err error) {
	l := &leRobot{out: o, store: s, files: map[string]int64{}, tasks: map[string]int64{},
		frames:   leRobotTable[leRobotFrame]{pattern: leRobotData, maxRows: leRobotFrames},
		episodes: leRobotTable[leRobotEpisode]{pattern: leRobotMeta, maxRows: leRobotEpisodes}}
	names, err := tables.Files(ctx, s, "videos")
	if err == nil && len(names) == 0 {
		err = fault.Usage(fmt.Errorf("export %s: it has no table of videos", s.URL()))
	}
	for _, name := range names {
		if err != nil {
			break
		}
		var chosen []bool
		if filter != nil {
			if chosen, err = filter.Rows(ctx, s, name); err != nil {
				break
			}
		}
		at := -1
		err = tables.EachRow(ctx, s, name, func(row videoRow) error {
			rows++
			if at++; chosen != nil && !chosen[at] {
				return nil
			}
			return l.add(ctx, row)
		})
	}
	if err == nil {
		err = l.flush(ctx)
	}
	if err == nil && l.done.Rows == 0 {
		err = fault.Usage(fmt.Errorf("export %s: no video is chosen", s.URL()))
	}
	if err = errors.Join(err, l.frames.close(), l.episodes.close()); err != nil {
		return rows, err
	}
	return rows, l.describe()
}

// add adds a row. It returns an error if the row does not match the first one, because a data set has a single size and a single, whole
// number of frames per second.
func (l *leRobot) add(ctx context.Context, r videoRow) error {
	if l.first == nil {
		l.first = &r
	}
	f := l.first
	var wrong string
	switch {
	case path.Ext(r.VideoPath) != ".mp4" || r.NumFrames < 1:
		wrong = fmt.Sprintf("its video is %q, and LeRobot's data sets have mp4 files", cmp.Or(r.VideoPath, "not in the output"))
	case r.FPS < 1 || r.FPS != math.Trunc(r.FPS):
		wrong = fmt.Sprintf("it has %g frames a second, and LeRobot's data sets have a whole number", r.FPS)
	case r.Width != f.Width || r.Height != f.Height || r.FPS != f.FPS:
		wrong = fmt.Sprintf("it has %dx%d pixels at %g frames a second, row %s has %dx%d at %g, and LeRobot's data sets have one size and "+
			"one rate: choose videos, as by --where \"width == %d and height == %d and fps == %g\"",
			r.Width, r.Height, r.FPS, f.ID, f.Width, f.Height, f.FPS, f.Width, f.Height, f.FPS)
	}
	if wrong != "" {
		return fault.Usage(fmt.Errorf("export row %s: %s", r.ID, wrong))
	}
	if l.group = append(l.group, r); len(l.group) < leRobotGroup {
		return nil
	}
	return l.flush(ctx)
}

// leRobotVideo is a video of the group.
type leRobotVideo struct {
	pixels pixels
	copied int64 // bytes copied; 0: an earlier group has copied it
}

// flush copies the videos of the group, computes their statistics, and writes the rows.
func (l *leRobot) flush(ctx context.Context) error {
	work, within := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	videos := map[int64]*leRobotVideo{}
	for _, r := range l.group { // rows with equal keys share a video
		number, known := l.files[r.VideoPath]
		if !known {
			number = int64(len(l.files))
			l.files[r.VideoPath] = number
		}
		if videos[number] == nil {
			v := &leRobotVideo{}
			videos[number] = v
			work.Go(func() (err error) {
				file := filepath.Join(l.dir, filepath.FromSlash(leRobotName(leRobotVideos, number)))
				if !known {
					if v.copied, err = l.copyVideo(within, &r, file); err != nil {
						return err
					}
				}
				return v.pixels.read(within, &r, file)
			})
		}
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for _, v := range videos {
		if v.copied > 0 {
			l.done.Files++
			l.done.Bytes += v.copied
		}
	}
	for _, r := range l.group {
		number := l.files[r.VideoPath]
		if err := l.write(&r, number, &videos[number].pixels); err != nil {
			return err
		}
	}
	l.group = l.group[:0]
	return nil
}

// copyVideo copies the video of a row. It returns an error if the video's digest differs from its table.
func (l *leRobot) copyVideo(ctx context.Context, r *videoRow, to string) (bytes int64, err error) {
	from, err := l.store.Open(ctx, r.VideoPath)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	digest := sha256.New()
	bytes, err = io.Copy(io.MultiWriter(f, digest), io.NewSectionReader(from, 0, from.Size()))
	if err = errors.Join(err, f.Close()); err == nil && hex.EncodeToString(digest.Sum(nil)) != r.VideoSHA256 {
		err = fault.Fatal(fmt.Errorf("export row %s: %s is not as its job wrote it: `latentbeam verify %s --repair` makes it again", r.ID,
			r.VideoPath, l.store.URL()))
	}
	return bytes, err
}

// write writes the rows of an episode.
func (l *leRobot) write(r *videoRow, video int64, seen *pixels) error {
	task, known := l.tasks[r.Prompt]
	if !known {
		task = int64(len(l.texts))
		l.tasks[r.Prompt], l.texts = task, append(l.texts, r.Prompt)
	}
	if err := errors.Join(l.frames.reserve(l.out, r.NumFrames), l.episodes.reserve(l.out, 1)); err != nil {
		return err
	}
	guidance := math.NaN()
	if r.GuidanceScale != nil {
		guidance = *r.GuidanceScale
	}
	e := leRobotEpisode{Episode: l.done.Rows, Tasks: []string{r.Prompt}, Length: r.NumFrames,
		DataChunk: l.frames.number / leRobotChunk, DataFile: l.frames.number % leRobotChunk, From: l.index, To: l.index + r.NumFrames,
		VideoChunk: video / leRobotChunk, VideoFile: video % leRobotChunk, ToTimestamp: float64(r.NumFrames) / r.FPS,
		Min: seen.each(quantile(0)), Max: seen.each(quantile(1)), Mean: seen.each(mean), Std: seen.each(deviation),
		Q01: seen.each(quantile(0.01)), Q10: seen.each(quantile(0.1)), Q50: seen.each(quantile(0.5)), Q90: seen.each(quantile(0.9)),
		Q99: seen.each(quantile(0.99)), Count: []int64{r.NumFrames},
		MetaChunk: l.episodes.number / leRobotChunk, MetaFile: l.episodes.number % leRobotChunk,
		ID: r.ID, Key: r.Key, NegativePrompt: r.NegativePrompt, Seed: r.Seed, Steps: r.NumInferenceSteps, Guidance: guidance, Model: r.Model,
		Weights: r.WeightsDigest, Licence: r.Licence, SHA256: r.VideoSHA256, Readings: r.Readings, Extra: r.Extra}
	for i := range r.NumFrames {
		f := leRobotFrame{float32(float64(i) / r.FPS), i, l.done.Rows, l.index, task}
		for c, v := range []float64{float64(f.Timestamp), float64(f.Frame), float64(f.Episode), float64(f.Index), float64(f.Task)} {
			l.columns[c].add(v)
		}
		if err := l.frames.file.rows.Write(f); err != nil {
			return err
		}
		l.index++
	}
	l.pixels.add(seen)
	l.done.Rows++
	return l.episodes.file.rows.Write(e)
}

// describe writes the files about the whole data set: tasks, info, statistics and the card.
func (l *leRobot) describe() error {
	tasks, err := createParquet[leRobotTask](l.out, "meta/tasks.parquet", write.Options{Metadata: map[string]string{"pandas": leRobotIndex}})
	if err != nil {
		return err
	}
	for i, text := range l.texts {
		err = errors.Join(err, tasks.rows.Write(leRobotTask{int64(i), text}))
	}
	r, p := l.first, &l.pixels
	stats := map[string]any{leRobotFeature: map[string]any{"min": p.each(quantile(0)), "max": p.each(quantile(1)), "mean": p.each(mean),
		"std": p.each(deviation), "q01": p.each(quantile(0.01)), "q10": p.each(quantile(0.1)), "q50": p.each(quantile(0.5)),
		"q90": p.each(quantile(0.9)), "q99": p.each(quantile(0.99)), "count": []int64{l.index}}}
	for i, name := range leRobotColumns {
		stats[name] = l.columns[i].statistics()
	}
	const place = "chunk-{chunk_index:03d}/file-{file_index:03d}"
	info := map[string]any{"codebase_version": leRobotVersion, "robot_type": nil, "total_episodes": l.done.Rows, "total_frames": l.index,
		"total_tasks": len(l.texts), "chunks_size": leRobotChunk, "data_files_size_in_mb": 100, "video_files_size_in_mb": 200,
		"fps": int64(r.FPS), "splits": map[string]string{"train": fmt.Sprintf("0:%d", l.done.Rows)},
		"data_path": "data/" + place + ".parquet", "video_path": "videos/{video_key}/" + place + ".mp4", "features": leRobotFeatures{r}}
	card := "---\nconfigs:\n- config_name: default\n  data_files: data/*/*.parquet\ntags:\n- LeRobot\n- synthetic\n---\n\n" +
		"# Videos of a model, as a LeRobot data set\n\nEach video is an episode, its prompt is the task. There are no states and no actions. " +
		"Columns `latentbeam/...`\nof `meta/episodes` say the key, the seed, the model, the digest of its weights and their licence of each episode.\n"
	return errors.Join(err, tasks.close(), l.json("meta/info.json", info), l.json("meta/stats.json", stats), l.file("README.md", func(w io.Writer) error {
		_, err := io.WriteString(w, card)
		return err
	}))
}

// leRobotColumns are the columns of the data, in their order.
var leRobotColumns = []string{"timestamp", "frame_index", "episode_index", "index", "task_index"}

// leRobotFeatures encodes the features of a data set with videos like this one. It is a type of its own because readers expect the
// columns in order, and Go's maps have none.
type leRobotFeatures struct{ video *videoRow }

// MarshalJSON implements json.Marshaler.
func (f leRobotFeatures) MarshalJSON() ([]byte, error) {
	r := f.video
	codec, err := json.Marshal(r.Codec)
	if err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, `{%q: {"dtype": "video", "shape": [%d, %d, 3], "names": ["height", "width", "channels"], "info": {"video.height": %d, `+
		`"video.width": %d, "video.codec": %s, "video.pix_fmt": "yuv420p", "video.is_depth_map": false, "video.fps": %g, "video.channels": 3, `+
		`"has_audio": false}}`, leRobotFeature, r.Height, r.Width, r.Height, r.Width, codec, r.FPS)
	for i, name := range leRobotColumns {
		kind := "int64"
		if i == 0 {
			kind = "float32"
		}
		text = fmt.Appendf(text, `, %q: {"dtype": %q, "shape": [1], "names": null}`, name, kind)
	}
	return append(text, '}'), nil
}

// json writes a value to a JSON file.
func (o *out) json(name string, value any) error {
	return o.file(name, func(w io.Writer) error {
		text := json.NewEncoder(w)
		text.SetIndent("", "    ")
		return text.Encode(value)
	})
}
