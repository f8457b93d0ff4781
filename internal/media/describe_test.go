package media

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/Eyevinn/mp4ff/mp4"

	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
)

// described encodes a small clip and gives it a title.
func described(t *testing.T, frames int) (before []byte, after *schemas.Encoded) {
	t.Helper()
	c := &schemas.Clip{Width: 64, Height: 48, FPS: 8}
	for i := range frames {
		c.Frames = append(c.Frames, bytes.Repeat([]byte{byte(40 * i)}, 64*48*3))
	}
	enc, err := New("h264", "embedded", Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := enc.Encode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	before = bytes.Clone(e.Data)
	if err := Describe(e, "a red circle, «日本»", "seed 7"); err != nil {
		t.Fatal(err)
	}
	return before, e
}

// TestDescribedVideoPlays: after metadata were added, the index still has the positions of the samples.
func TestDescribedVideoPlays(t *testing.T) {
	before, after := described(t, 5)
	samples := func(data []byte) (all []byte) {
		f, err := mp4.DecodeFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		stbl := f.Moov.Trak.Mdia.Minf.Stbl
		at := stbl.Stco.ChunkOffset[0]
		for _, n := range stbl.Stsz.SampleSize {
			all = append(all, data[at:at+n]...)
			at += n
		}
		return all
	}
	if len(samples(before)) < 50 || !bytes.Equal(samples(before), samples(after.Data)) {
		t.Error("adding metadata changed the samples of the file")
	}
	if !bytes.Contains(after.Data, []byte("a red circle, «日本»")) {
		t.Error("the title is not in the file")
	}
}

func TestDescribedStillOpens(t *testing.T) {
	before, after := described(t, 1)
	a, err := png.Decode(bytes.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	b, err := png.Decode(bytes.NewReader(after.Data))
	if err != nil || a.At(3, 3) != b.At(3, 3) || !bytes.Contains(after.Data, []byte("iTXtComment")) {
		t.Errorf("the described png: %v", err)
	}
}

func TestPlayersReadMetadata(t *testing.T) {
	testaid.Needs(t, "ffprobe")
	_, e := described(t, 5)
	file := filepath.Join(t.TempDir(), "x.mp4")
	if err := os.WriteFile(file, e.Data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ffprobe", "-v", "error", "-of", "json", "-show_entries", "format_tags", "-show_frames", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Format struct{ Tags map[string]string }
		Frames []struct{}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	tags := got.Format.Tags
	if len(got.Frames) != 5 || tags["title"] != "a red circle, «日本»" || tags["comment"] != "seed 7" {
		t.Errorf("ffprobe reads %d frames and %v", len(got.Frames), tags)
	}
}
