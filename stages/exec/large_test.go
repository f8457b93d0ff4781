package exec

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/weights/safetensors"
)

// TestTooLarge: a result that does not fit into memory is not read, and the row's error says why.
func TestTooLarge(t *testing.T) {
	const most = 1000
	before := fits
	fits = func(n int64) error {
		if n > most {
			return errors.New("it does not fit")
		}
		return nil
	}
	t.Cleanup(func() { fits = before })
	write := func(name string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	frames := func(n int) []byte {
		var b bytes.Buffer
		tensors := map[string]safetensors.Tensor{tensorFrames: {DType: "U8", Shape: []int{n, 10, 10, 3}, Data: make([]byte, n*300)}}
		if err := safetensors.Write(&b, tensors, nil); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	video := func(n int) []byte {
		return []byte("YUV4MPEG2 W10 H10 F8:1 C444\n" + strings.Repeat("FRAME\n"+string(make([]byte, 300)), n))
	}
	asFrames := func(path string) error { return readFrames(t.Context(), &stages.Element{}, path) }
	asMedia := func(path string) error { return readMedia(&stages.Element{}, path) }
	for _, c := range []struct {
		name         string
		read         func(path string) error
		small, large []byte // files within the limit of 1000 bytes and beyond it
		want         string
	}{
		{"a.y4m", asFrames, video(3), video(4), "frame 3 of 10x10: it does not fit"},
		{"a.safetensors", asFrames, frames(3), frames(4), "the frames [4 10 10 3]: it does not fit"},
		{"a.mp4", asMedia, make([]byte, most), make([]byte, most+1), `the file "a.mp4": it does not fit`},
	} {
		if err := c.read(write(c.name, c.small)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := c.read(write(c.name, c.large)); err == nil || err.Error() != c.want {
			t.Errorf("%s: got error %v, want %s", c.name, err, c.want)
		}
	}
}

// TestDamagedVideo: an mp4 whose boxes are wrong is an error. These inputs once made the mp4 reader panic.
func TestDamagedVideo(t *testing.T) {
	files, err := filepath.Glob("../../internal/media/testdata/fuzz/FuzzMP4/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, quoted, _ := strings.Cut(strings.TrimSpace(string(text)), "[]byte(")
		data, err := strconv.Unquote(strings.TrimSuffix(quoted, ")"))
		if err != nil {
			t.Fatal(err)
		}
		if describe(&schemas.Encoded{Data: []byte(data), Ext: ".mp4"}) == nil {
			t.Errorf("%s is accepted", file)
		}
	}
}
