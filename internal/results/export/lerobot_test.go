package export

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/media"
	"latentbeam/internal/results/report"
	"latentbeam/internal/results/where"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/internal/table/tabletest"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// videosOutput returns an output with rows of two prompts, of which two share a video, and the decoded pixels of each row.
func videosOutput(t *testing.T, change func([]schemas.VideoRow)) (store.Store, []*schemas.Clip) {
	t.Helper()
	s, err := storetest.NewMemory().Open(t.Context(), "")
	must(t, err)
	encoder, err := media.New("h264", "embedded", media.Options{})
	must(t, err)
	var rows []schemas.VideoRow
	var shown []*schemas.Clip
	for i, prompt := range []string{"a wave", "a tree", "a wave", "a wave"} {
		clip := &schemas.Clip{Width: 32, Height: 16, FPS: 8}
		for f := range 3 + i%3 {
			frame := make([]byte, 32*16*3)
			for p := range frame {
				frame[p] = byte(40*(i%3) + 9*f + p%3*30)
			}
			clip.Frames = append(clip.Frames, frame)
		}
		video, err := encoder.Encode(t.Context(), clip)
		must(t, err)
		name := fmt.Sprintf("videos/%d.mp4", i%3)
		must(t, s.Replace(t.Context(), name, func(w io.Writer) error {
			_, err := w.Write(video.Data)
			return err
		}))
		shown = append(shown, video.Recon)
		rows = append(rows, schemas.VideoRow{ID: fmt.Sprint("r", i), Key: strings.Repeat(fmt.Sprint(i%3), 64), Prompt: prompt, Seed: int64(i), Model: "tiny",
			Height: 16, Width: 32, NumFrames: int64(len(clip.Frames)), FPS: 8, VideoPath: name, VideoSHA256: fmt.Sprintf("%x", sha256.Sum256(video.Data)),
			Codec: "h264"})
	}
	if change != nil {
		change(rows)
	}
	must(t, s.Replace(t.Context(), "tables/videos/00000.parquet", func(w io.Writer) error {
		_, err := write.Write(w, tabletest.Seq(rows), write.Options{})
		return err
	}))
	must(t, s.Replace(t.Context(), "summary.json", func(w io.Writer) error {
		return json.NewEncoder(w).Encode(report.Summary{State: report.Complete, Totals: report.Totals{Rows: 4, Done: 4}})
	}))
	return s, shown
}

func needFFmpeg(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("NOT TESTED: there is no ffmpeg, which decodes the videos")
	}
}

// TestLeRobot checks the videos, the order of their frames, the tasks, and the statistics of the decoded pixels.
func TestLeRobot(t *testing.T) {
	needFFmpeg(t)
	s, shown := videosOutput(t, nil)
	dir := filepath.Join(t.TempDir(), "out")
	done, err := Run(t.Context(), s, dir, Options{To: "lerobot"})
	if err != nil || done.Rows != 4 || done.Files != 3+6 {
		t.Fatalf("%+v, %v", done, err)
	}
	episodes, err := parquet.ReadFile[leRobotEpisode](filepath.Join(dir, "meta/episodes/chunk-000/file-000.parquet"))
	must(t, err)
	frames, err := parquet.ReadFile[leRobotFrame](filepath.Join(dir, "data/chunk-000/file-000.parquet"))
	must(t, err)
	tasks, err := parquet.ReadFile[leRobotTask](filepath.Join(dir, "meta/tasks.parquet"))
	must(t, err)
	if len(episodes) != 4 || len(tasks) != 2 || len(frames) != 3+4+5+3 {
		t.Fatalf("%d episodes, %d tasks, %d frames", len(episodes), len(tasks), len(frames))
	}
	at := int64(0)
	var all pixels
	for i, e := range episodes {
		var want pixels
		for _, frame := range shown[i].Frames {
			want.count(frame)
		}
		all.add(&want)
		for ch := range want {
			if got := e.Mean[ch][0][0]; math.Abs(got-mean(&want[ch])/255) > 1e-9 {
				t.Errorf("episode %d: mean %g of channel %d, want %g", i, got, ch, mean(&want[ch])/255)
			}
		}
		if e.From != at || e.To != at+e.Length || e.Length != int64(len(shown[i].Frames)) || e.VideoFile != int64(i%3) || e.ID != fmt.Sprint("r", i) ||
			e.ToTimestamp != float64(e.Length)/8 {
			t.Errorf("episode %d: %+v", i, e)
		}
		for f := range e.Length {
			got, task := frames[at], tasks[frames[at].Task]
			if got.Index != at || got.Frame != f || got.Episode != int64(i) || task.Text != e.Tasks[0] || got.Timestamp != float32(f)/8 {
				t.Errorf("frame %d: %+v of %+v", at, got, task)
			}
			at++
		}
	}
	var stats map[string]struct{ Mean, Std, Q50, Max any }
	data, err := os.ReadFile(filepath.Join(dir, "meta/stats.json"))
	must(t, err)
	must(t, json.Unmarshal(data, &stats))
	want, _ := json.Marshal(all.each(mean))
	if got, _ := json.Marshal(stats[leRobotFeature].Mean); string(got) != string(want) {
		t.Errorf("mean %s of all pixels, want %s", got, want)
	}
	filter, err := where.Parse(`prompt == "a tree"`)
	must(t, err)
	if done, err := Run(t.Context(), s, filepath.Join(t.TempDir(), "chosen"), Options{To: "lerobot", Where: filter}); err != nil || done.Rows != 1 {
		t.Errorf("one chosen video: %+v, %v", done, err)
	}
}

// TestLeRobotRefuses: rows that such a data set cannot contain, and videos that have changed since they were written, are errors. A
// failed export leaves no files.
func TestLeRobotRefuses(t *testing.T) {
	needFFmpeg(t)
	for want, c := range map[string]struct {
		change func([]schemas.VideoRow)
		exit   int
	}{
		`--where "width == 32 and height == 16 and fps == 8"`: {func(r []schemas.VideoRow) { r[2].Width = 64 }, fault.ExitUsage},
		"a whole number":          {func(r []schemas.VideoRow) { r[0].FPS = 23.976 }, fault.ExitUsage},
		"have mp4 files":          {func(r []schemas.VideoRow) { r[1].VideoPath = "videos/1.png" }, fault.ExitUsage},
		"its table says 7":        {func(r []schemas.VideoRow) { r[1].NumFrames = 7 }, fault.ExitUsage},
		"not as its job wrote it": {func(r []schemas.VideoRow) { r[1].VideoSHA256 = strings.Repeat("0", 64) }, fault.ExitFatal},
	} {
		s, _ := videosOutput(t, c.change)
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := Run(t.Context(), s, dir, Options{To: "lerobot"}); err == nil || !strings.Contains(err.Error(), want) || fault.ExitCode(err) != c.exit {
			t.Errorf("%v (exit %d), want %q", err, fault.ExitCode(err), want)
		}
		if _, err := os.Stat(dir + ".partial"); !errors.Is(err, fs.ErrNotExist) {
			t.Error("the failed export leaves files")
		}
	}
	s, _ := videosOutput(t, nil)
	if _, err := Run(t.Context(), s, filepath.Join(t.TempDir(), "out"), Options{To: "lerobot", VAE: statistics()}); fault.ExitCode(err) != fault.ExitUsage {
		t.Errorf("--vae: %v", err)
	}
	if _, err := Run(t.Context(), clipsOutput(t), filepath.Join(t.TempDir(), "out"), Options{To: "lerobot"}); fault.ExitCode(err) != fault.ExitUsage ||
		!strings.Contains(err.Error(), "no table of videos") {
		t.Errorf("an output without videos: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, s, filepath.Join(t.TempDir(), "out"), Options{To: "lerobot"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled export: %v", err)
	}
}

// TestLeRobotByItsReader: LeRobot's own package reads the episodes, frames and tasks. LATENTBEAM_LEROBOT is a Python with lerobot.
func TestLeRobotByItsReader(t *testing.T) {
	python := os.Getenv("LATENTBEAM_LEROBOT")
	if python == "" {
		t.Skip("NOT TESTED: set LATENTBEAM_LEROBOT to a Python with lerobot (pip install lerobot==0.4.2)")
	}
	s, shown := videosOutput(t, nil)
	dir := filepath.Join(t.TempDir(), "out")
	_, err := Run(t.Context(), s, dir, Options{To: "lerobot"})
	must(t, err)
	const program = `
import json, sys
from lerobot.datasets.lerobot_dataset import LeRobotDataset
all = LeRobotDataset("local/export", root=sys.argv[1])
some = LeRobotDataset("local/export", root=sys.argv[1], episodes=[1, 2])
rows = [dict(task=r["task"], episode=int(r["episode_index"]), mean=r["observation.images.video"].double().mean((1, 2)).tolist()) for r in all]
print(json.dumps(dict(episodes=all.num_episodes, fps=all.fps, rows=rows, some=len(some), key=all.meta.episodes[1]["latentbeam/key"])))
`
	cmd := exec.Command(python, "-c", program, dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	var got struct {
		Episodes, Fps, Some int
		Key                 string
		Rows                []struct {
			Task    string
			Episode int
			Mean    [3]float64
		}
	}
	must(t, json.Unmarshal(out, &got))
	if got.Episodes != 4 || got.Fps != 8 || got.Some != 4+5 || got.Key != strings.Repeat("1", 64) || len(got.Rows) != 3+4+5+3 {
		t.Fatalf("%+v", got)
	}
	at := 0
	for i, clip := range shown {
		for _, frame := range clip.Frames {
			var p pixels
			p.count(frame)
			r := got.Rows[at]
			at++
			for ch := range p {
				if d := math.Abs(r.Mean[ch] - mean(&p[ch])/255); r.Episode != i || d > 2.0/255 { // decoders round colours in their own ways
					t.Errorf("row %d of episode %d: channel %d is off by %g", at-1, r.Episode, ch, d)
				}
			}
		}
	}
}
