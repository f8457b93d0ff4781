package damage

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
)

// corruptClips writes two good clips and one broken clip of each kind below dir. It returns the expected messages.
func corruptClips(t *testing.T, dir string) map[string]string {
	t.Helper()
	ffmpeg := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ffmpeg", append([]string{"-loglevel", "error", "-f", "lavfi", "-i"},
			args...)...).CombinedOutput(); err != nil {
			t.Fatalf("ffmpeg %v: %v: %s", args, err, out)
		}
	}
	jobtest.Must(t, os.MkdirAll(dir, 0o755))
	ffmpeg("testsrc=size=64x64:rate=8:duration=2", "-pix_fmt", "yuv420p", "-bitexact", dir+"/good1.mp4")
	ffmpeg("testsrc=size=64x64:rate=8:duration=2", "-vf", "noise=alls=80:allf=t", "-pix_fmt", "yuv420p", "-bitexact",
		"-movflags", "+faststart", dir+"/front.mp4")
	ffmpeg("sine=duration=1", "-bitexact", dir+"/audio.mp4")
	good, png := jobtest.ReadFile(t, dir+"/good1.mp4"), jobtest.ReadFile(t, jobtest.Clips+"triangle.png")
	jobtest.WriteText(t, dir+"/good2.y4m", string(jobtest.ReadFile(t, jobtest.Clips+"square.y4m")))
	ffmpeg("testsrc=size=64x64:rate=1:duration=1", "-frames:v", "1", dir+"/jpeg.jpg")
	jpeg := jobtest.ReadFile(t, dir+"/jpeg.jpg")
	for i := len(jpeg) / 2; i < len(jpeg)-2; i++ {
		jpeg[i] = 0xff
	}
	front := jobtest.ReadFile(t, dir+"/front.mp4") // its index is before its frames
	middle := bytes.Clone(front)
	for i := len(middle) / 2; i < len(middle); i++ {
		middle[i] = 0xff
	}
	header := bytes.Clone(good)
	clear(header[:64])
	for name, text := range map[string]string{
		"empty.mp4": "", "cut.mp4": string(good[:len(good)/2]), "front.mp4": string(front[:len(front)/2]), "middle.mp4": string(middle), "header.mp4": string(header),
		"nomoov.mp4": strings.Replace(string(good), "moov", "mooX", 1), "text.mp4": "a red circle moves left\n",
		"noframes.y4m": "YUV4MPEG2 W64 H64 F8:1\n", "nosize.y4m": "YUV4MPEG2 W0 H0 F8:1\nFRAME\n", "cut.png": string(png[:len(png)/2]),
		"jpeg.jpg": string(jpeg), "byte.gif": "G", "zeros.mkv": strings.Repeat("\x00", 4096), "playlist.mp4": "#EXTM3U\ngood1.mp4\n",
	} {
		jobtest.WriteText(t, filepath.Join(dir, name), text)
	}
	jobtest.Must(t, os.Mkdir(dir+"/folder.mp4", 0o755))
	want := map[string]string{
		"empty.mp4": "moov atom not found", "cut.mp4": "moov atom not found", "front.mp4": "partial file", "middle.mp4": "Invalid NAL", "header.mp4": "Invalid data", "nomoov.mp4": "moov atom not found",
		"text.mp4": "Invalid data", "audio.mp4": "", "noframes.y4m": "frame", "nosize.y4m": "0x0", "cut.png": "not enough pixel data",
		"jpeg.jpg": "invalid JPEG", "byte.gif": "Invalid data", "zeros.mkv": "EBML", "playlist.mp4": "", "folder.mp4": "no png or jpeg",
	}
	if os.Geteuid() != 0 {
		jobtest.WriteText(t, dir+"/locked.png", string(png))
		jobtest.Must(t, os.Chmod(dir+"/locked.png", 0))
		want["locked.png"] = "permission denied"
	}
	return want
}

// TestCorruptClips: each corrupt clip is one row of the failures table with its file and reason, and all other clips are done. After
// some clips are repaired, a run computes only those that are new.
func TestCorruptClips(t *testing.T) {
	testaid.Needs(t, "ffmpeg")
	for what, sets := range map[string][]string{"whole": nil, "cut": {"input.windows={pick: head}"}} {
		dir := t.TempDir()
		want := corruptClips(t, dir)
		j := jobtest.MediaJob(t, fmt.Sprintf("%q", dir+"/*"), "[encode_vae]",
			append(sets, "output.write=[latents]", "defaults.num_frames=16", "on_error.stop_after=100%")...)
		if r := j.MustRun(t); r.Done != 2 {
			t.Errorf("%s: %d clips done, want the two good ones", what, r.Done)
		}
		for _, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
			name := filepath.Base(f.Source)
			text, known := want[name]
			t.Logf("%s %s: %s: %s", what, name, f.Stage, f.Message)
			if !known || !strings.Contains(f.Message, text) || !strings.Contains(f.Message, name) || f.Class != "row" {
				t.Errorf("%s: %s %s: %s: %q, want %q", what, name, f.Class, f.Stage, f.Message, text)
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Errorf("%s: the failures table does not have %v", what, want)
		}
		if r := j.MustRun(t); r.Done != 0 {
			t.Errorf("%s: a second run computed %d rows", what, r.Done)
		}
		// Two clips are repaired. Only cut.png is computed: text.mp4 is now a copy of good1.mp4, whose result it shares.
		jobtest.WriteText(t, dir+"/text.mp4", string(jobtest.ReadFile(t, dir+"/good1.mp4")))
		jobtest.WriteText(t, dir+"/cut.png", string(jobtest.ReadFile(t, jobtest.Clips+"triangle.png")))
		if r := j.MustRun(t); r.Done != 1 || r.Totals.Done != 4 {
			t.Errorf("%s: after two clips were repaired, a run computed %d rows, %d done in total", what, r.Done, r.Totals.Done)
		}
	}
}
