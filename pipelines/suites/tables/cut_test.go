package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/pipelines"
	"latentbeam/schemas"
)

// cutInput returns an input that cuts the clips of testdata/media and one clip that is too short.
func cutInput(t *testing.T) string {
	t.Helper()
	short := filepath.Join(t.TempDir(), "short.y4m")
	data, err := os.ReadFile(jobtest.Clips + "square.y4m")
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(data[:200]), "\n") + 1
	frame := len("FRAME\n") + 64*64*3/2
	if err := os.WriteFile(short, data[:at+3*frame], 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{media: %q, buckets: {sizes: [48x32x5, 32x48x5, 40x40x1]}, windows: {pick: all, stride: 6, short: drop}, "+
		"resize: lanczos, crop: random, flip: true, null_caption: true"+jobtest.FramesOfRows+"}", jobtest.MediaTable(t, "short,"+short+",too short,16\n"))
}

// cuts returns a job with this input.
func cuts(t *testing.T, sets ...string) jobtest.Job {
	t.Helper()
	j := jobtest.MediaJob(t, "", jobtest.EncodeBoth, sets...)
	j.Input = cutInput(t)
	return j
}

// TestCuts: media become windows, mirrored windows and rows without captions. Dropped rows are in the failures table, and the
// counts add up.
func TestCuts(t *testing.T) {
	j := cuts(t)
	r := j.MustRun(t)
	if warned := strings.Join(r.Plan.Warnings, "; "); strings.Contains(warned, "without a word") {
		t.Errorf("a warning about captions that the job leaves out: %s", warned)
	}
	rows := jobtest.ReadRows[schemas.ClipLatentRow](t, j.Out, "latents")
	var ids []string
	for _, row := range rows {
		ids = append(ids, row.ID+" "+row.Bucket+fmt.Sprintf(" %d+%d %d", row.FrameStart, row.FrameCount, row.Flipped))
		if strings.HasSuffix(row.ID, "#null") != (row.Caption == "") {
			t.Errorf("%s has the caption %q", row.ID, row.Caption)
		}
		if row.CropX < 0 || row.CropY < 0 || row.CropX > 16 || row.CropY > 16 {
			t.Errorf("%s is cropped at %d, %d", row.ID, row.CropX, row.CropY)
		}
	}
	var want []string
	for _, id := range []string{"disc", "square"} {
		for i, start := range []int{0, 6} {
			for k, flip := range []string{"", "#flip"} {
				for _, null := range []string{"", "#null"} {
					// Both sizes are equally near to a square, and the first one is used.
					want = append(want, fmt.Sprintf("%s#w%03d%s%s 32x48x5 %d+5 %d", id, i, flip, null, start, k))
				}
			}
		}
	}
	for k, flip := range []string{"", "#flip"} {
		for _, null := range []string{"", "#null"} {
			want = append(want, fmt.Sprintf("triangle#w000%s%s 40x40x1 0+1 %d", flip, null, k))
		}
	}
	if !slices.Equal(ids, want) {
		t.Errorf("got rows:\n%s\nwant:\n%s", strings.Join(ids, "\n"), strings.Join(want, "\n"))
	}
	dropped := jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures")
	if len(dropped) != 1 || dropped[0].Class != "dropped" || dropped[0].ID != "short" ||
		!strings.Contains(dropped[0].Message, "3 frames are fewer than the 5 of a clip (windows.short: drop)") {
		t.Errorf("got failures: %+v", dropped)
	}
	if tt := r.Totals; tt.Rows != int64(len(want)+1) || tt.Done != int64(len(want)) || tt.Dropped != 1 || tt.Failed != 0 ||
		tt.Pending != 0 {
		t.Errorf("got totals %+v", tt)
	}
	same := map[string]schemas.ClipLatentRow{}
	for _, row := range rows {
		same[row.ID] = row
	}
	if a, b := same["disc#w000"], same["disc#w000#flip"]; a.CropX != b.CropX || jobtest.Digest(a.VAELatentBytes) == jobtest.Digest(b.VAELatentBytes) {
		t.Error("the mirrored clip has another crop, or is not a mirror image")
	}
	j.Computes(t, 0)
}

// TestCutsSameBytes: results do not depend on shards, batches, workers and the order of the rows.
func TestCutsSameBytes(t *testing.T) {
	one := cuts(t)
	one.MustRun(t)
	want := jobtest.MustRead(t, one.Out)
	other := cuts(t, "resources.batch_size=1", "resources.workers=2")
	other.Input = one.Input
	other.MustRun(t)
	for _, wrong := range want.Diff(jobtest.MustRead(t, other.Out)) {
		t.Error(wrong)
	}
	shards := cuts(t)
	shards.Input = one.Input
	var last pipelines.Result
	for i := range 3 {
		shard := shards
		shard.Opts.Shard, shard.Opts.Shards = i, 3
		last = shard.MustRun(t)
	}
	if !last.Joined {
		t.Error("the last shard did not join the tables")
	}
	for _, wrong := range want.Diff(jobtest.MustRead(t, shards.Out)) {
		t.Errorf("the output of shards differs: %s", wrong)
	}
}

// TestCutKeys: only a change of a clip's frames changes its key, and rows that are not cut retain their keys.
func TestCutKeys(t *testing.T) {
	table := jobtest.WriteTable(t, "clips.csv", "id,path,caption,num_frames\nsquare,"+jobtest.Clips+"square.y4m,a,4\n")
	j := jobtest.MediaJob(t, table, "[{encode_vae: {posterior: mean}}]", "output.write=[latents]")
	if r := j.MustRun(t); r.Done != 1 {
		t.Fatalf("got %d rows done", r.Done)
	}
	for _, c := range []struct {
		cut string
		new int64
	}{
		{"windows: {pick: head}", 1},
		{"windows: {pick: head, short: loop}", 0},
		{"resize: bicubic", 0},
		{"crop: center", 0},
		{"buckets: {sizes: [64x64x4]}", 0},
		{"windows: {pick: all, stride: 4}", 3},
		{"resize: area", 1}, // the size is the same, but the filter is part of the key
		{"flip: true", 1},
	} {
		j.Input = fmt.Sprintf("{media: %q, %s%s}", table, c.cut, jobtest.FramesOfRows)
		if r := j.MustRun(t); r.Done != c.new {
			t.Errorf("%s: %d rows were computed, want %d", c.cut, r.Done, c.new)
		}
	}
}

// TestCutRate: windows count frames at the rate of the clips.
func TestCutRate(t *testing.T) {
	table := jobtest.WriteTable(t, "clips.csv", "id,path,caption,fps\nsquare,"+jobtest.Clips+"square.y4m,a,4\n")
	j := jobtest.MediaJob(t, "", "[encode_vae]", "output.write=[latents]", "defaults.num_frames=99")
	j.Input = fmt.Sprintf("{media: %q, columns: {fps: fps}, buckets: {sizes: [64x64], frames: 2n+1}, windows: {pick: all}}", table)
	j.MustRun(t)
	rows := jobtest.ReadRows[schemas.ClipLatentRow](t, j.Out, "latents")
	if len(rows) != 1 || rows[0].VideoFrames != 7 || rows[0].FPS != 4 { // 16 frames at 8 fps are 8 frames at 4 fps
		t.Errorf("got %d rows, the first of %d frames at %v fps; want 1 of 7 frames at 4 fps", len(rows), rows[0].VideoFrames, rows[0].FPS)
	}
}
