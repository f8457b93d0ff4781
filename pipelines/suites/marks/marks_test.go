package marks

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/media/marks"
	"latentbeam/internal/results/audit"
	"latentbeam/internal/results/marking"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/pipelines"
	"latentbeam/schemas/fault"
)

// filesBelow returns the files in a folder of an output by name.
func filesBelow(t *testing.T, out, folder string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	jobtest.Must(t, filepath.WalkDir(filepath.Join(out, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(out, path)
		all[name] = data
		return err
	}))
	if len(all) == 0 {
		t.Fatalf("%s has no files", folder)
	}
	return all
}

// marked returns how many files below a folder have a mark, and how many files there are.
func marked(t *testing.T, out, folder, mark string) (with, all int) {
	t.Helper()
	for name, data := range filesBelow(t, out, folder) {
		found, err := marks.Inspect(data)
		jobtest.Must(t, err)
		for _, f := range found {
			if f.Name == mark && f.Synthetic() && (mark != marks.AIGC || strings.Contains(f.Value, strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)))) {
				with++
			}
		}
		all++
	}
	return with, all
}

// samePublished compares the videos and posters of two outputs.
func samePublished(t *testing.T, what, a, b string) {
	t.Helper()
	for _, folder := range []string{"videos", "posters"} {
		want, got := filesBelow(t, a, folder), filesBelow(t, b, folder)
		if len(want) != len(got) {
			t.Errorf("%s: one output has %d files, the other %d", what, len(want), len(got))
		}
		for name, data := range want {
			if !bytes.Equal(data, got[name]) {
				t.Errorf("%s: the file %s differs", what, name)
			}
		}
	}
}

// changeMarks does what `latentbeam mark` does.
func changeMarks(t *testing.T, j jobtest.Job, text string) (marking.Changed, error) {
	t.Helper()
	asked := config.ParseMarks(text)
	if asked.Problem() != "" {
		t.Fatal(asked.Problem())
	}
	return changeMarksIn(j, t.Context(), asked)
}

func changeMarksIn(j jobtest.Job, ctx context.Context, asked config.Marks) (marking.Changed, error) {
	j.Opts.AsRecorded = true
	opened, err := j.Unattached()
	if err != nil {
		return marking.Changed{}, err
	}
	defer opened.Close()
	return opened.Mark(ctx, asked)
}

// TestMarks: in a new output with denoise, each video and poster has both marks. If the job asks for none, or the output was started
// without marks, the files have none. Shards and `mark` produce the same files as a run.
func TestMarks(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.MustRun(t)
	for _, folder := range []string{"videos", "posters"} {
		for _, mark := range []string{marks.IPTC, marks.AIGC} {
			if with, all := marked(t, j.Out, folder, mark); with != all {
				t.Errorf("%s: %d of %d files have the mark %s", folder, with, all, mark)
			}
		}
	}
	if v := jobtest.Verified(t, j.Out); !v.Sound() || v.Undigested > 0 {
		t.Errorf("verify finds something in a marked output: %+v", v)
	}
	plain := j.Elsewhere(t)
	plain.Stages = jobtest.Unmarked
	plain.MustRun(t)
	if with, _ := marked(t, plain.Out, "videos", marks.IPTC); with != 0 {
		t.Error("a job with marks: none wrote marks")
	}
	if _, err := os.Stat(filepath.Join(plain.Out, marking.Name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an output without marks has a record of them: %v", err)
	}
	d, err := audit.Compare(t.Context(), openDir(t, j.Out), openDir(t, plain.Out))
	if err != nil || !d.Equal() || d.Marks == nil {
		t.Errorf("diff of two outputs that differ only in their marks: %+v, %v", d, err)
	}

	// An output without marks stays without marks, and a job that asks for marks gets an error.
	silent := plain
	silent.Stages = ""
	silent.Computes(t, 0)
	jobtest.Must(t, os.Remove(filepath.Join(plain.Out, filepath.FromSlash(jobtest.VideoFiles(t, plain.Out, "a")[0]))))
	silent.Computes(t, 1)
	if with, _ := marked(t, plain.Out, "videos", marks.IPTC); with != 0 {
		t.Error("a run added marks to an output that was started without them")
	}
	asking := plain
	asking.Stages = strings.Replace(jobtest.Unmarked, "none", "[iptc]", 1)
	if _, err := asking.Run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "latentbeam mark") {
		t.Errorf("a job that asks for marks that the output does not have: got error %v", err)
	}

	// mark produces the same bytes as a run with marks, and removes the marks again.
	before := j.Elsewhere(t)
	before.Stages = jobtest.Unmarked
	before.MustRun(t)
	done, err := changeMarks(t, plain, "iptc,aigc")
	if err != nil || done.Rows != 5 || done.Damaged != 0 {
		t.Errorf("mark: got %+v, %v", done, err)
	}
	samePublished(t, "mark", j.Out, plain.Out)
	silent.Computes(t, 0)
	if v := jobtest.Verified(t, plain.Out); !v.Sound() || v.Undigested > 0 {
		t.Errorf("after mark, verify finds %+v", v)
	}
	if done, err = changeMarks(t, silent, "none"); err != nil || done.Rows != 5 {
		t.Errorf("mark that removes the marks: got %+v, %v", done, err)
	}
	samePublished(t, "mark none", before.Out, plain.Out)
	plain.Computes(t, 0)

	sharded := j.Elsewhere(t)
	for i := range 2 {
		shard := sharded
		shard.Opts.Shard, shard.Opts.Shards = i, 2
		shard.MustRun(t)
	}
	samePublished(t, "shards", j.Out, sharded.Out)
}

// openDir opens an output in a directory.
func openDir(t *testing.T, out string) store.Store {
	t.Helper()
	d, err := dir.Open(out)
	jobtest.Must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// TestMarkedRepairs: a damaged video of a marked output is computed again with the marks of the output's record, whatever the job asks
// for.
func TestMarkedRepairs(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.MustRun(t)
	want := j.Elsewhere(t)
	want.MustRun(t)
	path := filepath.Join(j.Out, filepath.FromSlash(jobtest.VideoFiles(t, j.Out, "a")[0]))
	data, err := os.ReadFile(path)
	jobtest.Must(t, err)
	data[len(data)/2] ^= 1
	jobtest.Must(t, os.WriteFile(path, data, 0o644))
	j.Stages, j.Opts.Repair = jobtest.Unmarked, true
	j.MustRun(t)
	samePublished(t, "repair", want.Out, j.Out)
	if v := jobtest.Verified(t, j.Out); !v.Sound() {
		t.Errorf("after the repair, verify finds %+v", v)
	}
}

// TestMarkGoesOn: an interrupted change of marks is resumed, wherever it was interrupted. Until then a run on the output is an error.
// A damaged video is not changed.
func TestMarkGoesOn(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.MustRun(t)
	plain := j.Elsewhere(t)
	plain.Stages = jobtest.Unmarked
	plain.MustRun(t)
	// The state after a kill between the first file and its record.
	s := openDir(t, plain.Out)
	jobtest.Must(t, marking.Record{Marks: []string{"iptc", "aigc"}, Changing: true}.Write(t.Context(), s))
	name := filepath.FromSlash(jobtest.VideoFiles(t, plain.Out, "a")[0])
	now, err := os.ReadFile(filepath.Join(j.Out, name))
	jobtest.Must(t, err)
	jobtest.Must(t, os.WriteFile(filepath.Join(plain.Out, name), now, 0o644))

	if _, err := plain.Run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("a run on an output whose marks are being changed: got error %v", err)
	}
	if v := jobtest.Verified(t, plain.Out); v.Sound() || !v.Is(audit.Damaged, marking.Name) {
		t.Errorf("verify of an output whose marks are being changed: %+v", v)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := changeMarksIn(plain, ended, config.Marks{}); err == nil {
		t.Error("a cancelled context does not stop the change of marks")
	}
	done, err := changeMarksIn(plain, t.Context(), config.Marks{}) // without marks, the call resumes the interrupted change
	if err != nil || done.Rows != 5 || done.Damaged != 0 {
		t.Errorf("the resumed change: got %+v, %v", done, err)
	}
	samePublished(t, "mark that went on", j.Out, plain.Out)
	plain.Opts = pipelines.Options{AsRecorded: true}
	plain.Computes(t, 0)

	data := bytes.Clone(now)
	data[bytes.Index(data, []byte("mdat"))+20] ^= 4
	jobtest.Must(t, os.WriteFile(filepath.Join(plain.Out, name), data, 0o644))
	done, err = changeMarks(t, plain, "aigc")
	if err != nil || done.Rows != 4 || done.Damaged != 1 || done.First != filepath.ToSlash(name) {
		t.Errorf("a change of marks with a damaged video: got %+v, %v", done, err)
	}
}
