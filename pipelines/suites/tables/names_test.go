package tables

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
)

const namesTable = "id,prompt,seed,color\n" +
	"a/1,a red circle,1,red\nb,a blue square,2,blue\nb2,a blue square,2,blue\nlast,a green triangle,3,green\n"

// namesIn lists the files in names/ of an output.
func namesIn(t *testing.T, out string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(out, "names"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestNameTemplates: files get the names of the job's template. They follow a change of the template, of a row and of a video.
func TestNameTemplates(t *testing.T) {
	j := jobtest.NewJob(t, namesTable)
	j.Sets = []string{`output.name="{id}-{seed}-{color}"`}
	j.MustRun(t)
	want := []string{"a_1-1-red.mp4", "b-2-blue.mp4", "b2-2-blue.mp4", "last-3-green.mp4"}
	if got := namesIn(t, j.Out); !slices.Equal(got, want) {
		t.Errorf("got names %q, want %q", got, want)
	}
	for i, row := range jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos") {
		a, err := os.ReadFile(filepath.Join(j.Out, row.VideoPath))
		b, err2 := os.ReadFile(filepath.Join(j.Out, "names", want[i]))
		if err != nil || err2 != nil || string(a) != string(b) {
			t.Errorf("%s is not the video of row %d: %v %v", want[i], i, err, err2)
		}
	}
	// After a change of the template and of one seed, a run computes only that row and removes the old names.
	j.Rewrite(t, strings.Replace(namesTable, "circle,1", "circle,9", 1))
	j.Sets = []string{`output.name="{id}"`}
	j.Computes(t, 1)
	want = []string{"a_1.mp4", "b.mp4", "b2.mp4", "last.mp4"}
	if got := namesIn(t, j.Out); !slices.Equal(got, want) {
		t.Errorf("after the change got names %q, want %q", got, want)
	}
	// If a row whose name does not change gets a new video, the named file is the new video.
	before, _ := os.ReadFile(filepath.Join(j.Out, "names", "a_1.mp4"))
	j.Rewrite(t, strings.Replace(namesTable, "circle,1", "square,4", 1))
	j.Computes(t, 1)
	after, err := os.ReadFile(filepath.Join(j.Out, "names", "a_1.mp4"))
	if err != nil || string(before) == string(after) {
		t.Errorf("the named file is still the old video: %v", err)
	}
}

// TestNamesOfShards: shards give the videos of their rows names in the same folder.
func TestNamesOfShards(t *testing.T) {
	j := jobtest.NewJob(t, namesTable)
	j.Sets = []string{`output.name="{id}"`}
	for i := range 2 {
		j.Opts.Shard, j.Opts.Shards = i, 2
		j.MustRun(t)
	}
	if got := namesIn(t, j.Out); len(got) != 4 {
		t.Errorf("two shards gave the names %q", got)
	}
}

// TestNamesInConflict: rows with different videos and the same name are an error before any work, in every shard. The error
// names both rows.
func TestNamesInConflict(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"one name":       {"{seed}", ""},
		"other case":     {"{id}", `(id "B") would both be names/`},
		"unknown column": {"{shape}", `no row has a column "shape"`},
		"no column":      {"video", "names no column"},
	} {
		t.Run(name, func(t *testing.T) {
			j := jobtest.NewJob(t, namesTable)
			if name == "other case" {
				j = jobtest.NewJob(t, strings.Replace(namesTable, "last", "B", 1))
			}
			j.Sets = []string{`output.name="` + c.template + `"`}
			j.Opts.Shard, j.Opts.Shards = 1, 2
			_, err := j.Run()
			if c.want == "" {
				if err != nil {
					t.Errorf("rows with one video and one name: got error %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(j.Out, "videos")); err == nil {
				t.Error("the run computed videos before the error")
			}
		})
	}
}

// TestMetadata: metadata of files are part of the keys, and a job without metadata retains its keys.
func TestMetadata(t *testing.T) {
	keys := func(stage string) (string, []string) {
		j := jobtest.NewJob(t, namesTable)
		j.Stages = "[encode_text, denoise, decode_vae, guard, " + stage + "]"
		j.MustRun(t)
		row := jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos")[0]
		data, err := os.ReadFile(filepath.Join(j.Out, row.VideoPath))
		if err != nil {
			t.Fatal(err)
		}
		return row.Key, []string{string(data), row.Key}
	}
	plain, _ := keys("encode_video")
	without, _ := keys("{encode_video: {metadata: false}}")
	with, file := keys("{encode_video: {metadata: true}}")
	if plain != without || plain == with {
		t.Errorf("the key is %s in a plain job, %s without metadata, %s with metadata; want only the last to differ", plain, without, with)
	}
	for _, want := range []string{"a red circle", "seed 1, model tiny, key " + with} {
		if !strings.Contains(file[0], want) {
			t.Errorf("the file does not contain %q", want)
		}
	}
}
