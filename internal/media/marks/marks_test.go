package marks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Eyevinn/mp4ff/mp4"

	"latentbeam/internal/media"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
)

const id = "0f5e6f0e9c0d4a7d8f6b1c2d3e4f5061"

// video returns an mp4 of four frames from the embedded encoder.
func video(t testing.TB) []byte {
	t.Helper()
	e, err := media.New("h264", "embedded", media.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &schemas.Clip{Width: 32, Height: 16, FPS: 8}
	for i := range 4 {
		c.Frames = append(c.Frames, bytes.Repeat([]byte{byte(40 * i), 100, byte(200 - 30*i)}, 32*16))
	}
	v, err := e.Encode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return v.Data
}

func pictures(t testing.TB) (pngFile, jpegFile []byte) {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 24, 16))
	for i := range m.Pix {
		m.Pix[i] = byte(i * 7)
	}
	var p, j bytes.Buffer
	if err := png.Encode(&p, m); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&j, m, nil); err != nil {
		t.Fatal(err)
	}
	return p.Bytes(), j.Bytes()
}

// behind returns an mp4 with moov after mdat; wide returns one with 64-bit offsets.
func behind(t testing.TB, data []byte) []byte {
	t.Helper()
	top, moov, err := movie(data)
	if err != nil {
		t.Fatal(err)
	}
	mdat, _ := find(top, "mdat")
	out := bytes.Join([][]byte{data[:moov.start], data[mdat.start:mdat.end], data[moov.start:moov.end]}, nil)
	_, now, err := movie(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := moveOffsets(out, now, 0, -int64(moov.size())); err != nil {
		t.Fatal(err)
	}
	return out
}

func wide(t testing.TB, data []byte) []byte {
	t.Helper()
	at := bytes.Index(data, []byte("stco"))
	offset := binary.BigEndian.Uint32(data[at+12:])
	_, moov, err := movie(data)
	if err != nil {
		t.Fatal(err)
	}
	co64 := newBox("co64", []byte{0, 0, 0, 0, 0, 0, 0, 1}, binary.BigEndian.AppendUint64(nil, uint64(offset)+4))
	out := bytes.Join([][]byte{data[:at-4], co64, data[at+16:]}, nil)
	for place, kind := moov, range4("mdia", "minf", "stbl"); ; kind = kind[1:] { // the boxes around it grow
		if err := resize(out, place, 4); err != nil {
			t.Fatal(err)
		}
		if len(kind) == 0 {
			return out
		}
		inside, err := boxes(data, place.body, place.end, false)
		if err != nil {
			t.Fatal(err)
		}
		place, _ = find(inside, kind[0])
	}
}

func range4(kinds ...string) []string { return append([]string{"trak"}, kinds...) }

// samples returns the frames of a file, found with another library.
func samples(t testing.TB, data []byte) []byte {
	t.Helper()
	f, err := mp4.DecodeFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	stbl := f.Moov.Trak.Mdia.Minf.Stbl
	at := int64(0)
	if stbl.Co64 != nil {
		at = int64(stbl.Co64.ChunkOffset[0])
	} else {
		at = int64(stbl.Stco.ChunkOffset[0])
	}
	n := 0
	for i := range stbl.Stsz.SampleNumber {
		n += int(stbl.Stsz.GetSampleSize(int(i + 1)))
	}
	return data[at : at+int64(n)]
}

func described(t testing.TB, data []byte) []byte {
	t.Helper()
	e := &schemas.Encoded{Data: data, Ext: ".mp4"}
	if err := media.Describe(e, "a title", "a comment"); err != nil {
		t.Fatal(err)
	}
	return e.Data
}

func TestPutAndStrip(t *testing.T) {
	pngFile, jpegFile := pictures(t)
	for name, c := range map[string]struct {
		data []byte
		ext  string
	}{
		"mp4": {video(t), ".mp4"}, "moov behind mdat": {behind(t, video(t)), ".mp4"}, "co64": {wide(t, video(t)), ".mp4"},
		"with a title": {described(t, video(t)), ".mp4"}, "png": {pngFile, ".png"}, "jpeg": {jpegFile, ".jpg"},
	} {
		for _, w := range []Wanted{{}, {IPTC: true}, {AIGC: true}, {IPTC: true, AIGC: true, Producer: `A "B" <C> & Ü`}} {
			for _, s := range []Subject{{ID: id}, {ID: id, Composite: true}} {
				before := bytes.Clone(c.data)
				marked, err := Put(c.data, c.ext, w, s)
				if err != nil {
					t.Fatalf("%s %+v: %v", name, w, err)
				}
				again, _ := Put(c.data, c.ext, w, s)
				if !bytes.Equal(marked, again) || !bytes.Equal(before, c.data) {
					t.Errorf("%s: equal arguments gave other bytes, or the argument was changed", name)
				}
				plain, err := Strip(marked, c.ext)
				if err != nil || !bytes.Equal(plain, c.data) {
					t.Errorf("%s %+v: Strip does not restore the file: %v", name, w, err)
				}
				if c.ext == ".mp4" && !bytes.Equal(samples(t, marked), samples(t, c.data)) {
					t.Errorf("%s %+v: offsets of frames are wrong", name, w)
				}
				checkFound(t, name, marked, w, s)
			}
		}
	}
}

// checkFound compares the marks of a file with the wanted ones.
func checkFound(t *testing.T, name string, marked []byte, w Wanted, s Subject) {
	t.Helper()
	found, err := Inspect(marked)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	want := map[string]string{}
	if w.IPTC {
		want[IPTC] = s.source()
	}
	if w.AIGC {
		want[AIGC] = aigcItem(w.Producer, s.ID)
	}
	if len(found) != len(want) {
		t.Errorf("%s %+v: found %v", name, w, found)
	}
	for _, f := range found {
		if f.Value != want[f.Name] || !f.Synthetic() {
			t.Errorf("%s: %s is %q, want %q", name, f.Name, f.Value, want[f.Name])
		}
	}
}

// TestPicturesDecode: the standard library decodes an image to the same pixels with and without marks.
func TestPicturesDecode(t *testing.T) {
	pngFile, jpegFile := pictures(t)
	for ext, data := range map[string][]byte{".png": pngFile, ".jpg": jpegFile} {
		marked, err := Put(data, ext, Wanted{IPTC: true, AIGC: true}, Subject{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		a, _, err := image.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := image.Decode(bytes.NewReader(marked))
		if err != nil || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%s: %v", ext, err)
		}
	}
}

func TestRefused(t *testing.T) {
	file := video(t)
	noSize := bytes.Clone(file)
	top, _, _ := movie(noSize)
	binary.BigEndian.PutUint32(noSize[top[len(top)-1].start:], 0)
	for name, c := range map[string]struct {
		data []byte
		ext  string
		want string
	}{
		"of another type": {file, ".webm", "only mp4, png and jpeg"},
		"no mp4":          {[]byte("hello, world"), ".mp4", "impossible size"},
		"without moov":    {newBox("ftyp"), ".mp4", "no moov"},
		"fragments":       {append(bytes.Clone(file), newBox("moof")...), ".mp4", "fragments"},
		"an open box":     {noSize, ".mp4", "has no size"},
		"cut off":         {file[:len(file)-3], ".mp4", "impossible size"},
		"no png":          {file, ".png", "no png"},
		"no jpeg":         {file, ".jpg", "no jpeg"},
	} {
		_, err := Put(c.data, c.ext, Wanted{IPTC: true, AIGC: true}, Subject{ID: id})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestMarksOfOthers: Inspect finds marks of other programs, and Strip does not remove them.
func TestMarksOfOthers(t *testing.T) {
	xmp := `<x:xmpmeta xmlns:x="adobe:ns:meta/"><r:RDF xmlns:r="` + rdfSpace + `"><r:Description r:about="" xmlns:e="` + iptcSpace +
		`" e:DigitalSourceType="` + Generated + `"/></r:RDF></x:xmpmeta>`
	file := append(video(t), newBox("uuid", xmpBox, []byte(xmp))...)
	found, err := Inspect(file)
	if err != nil || len(found) != 1 || found[0].Value != Generated {
		t.Errorf("%v, %v", found, err)
	}
	if out, err := Strip(file, ".mp4"); err != nil || !bytes.Equal(out, file) {
		t.Errorf("a mark of another program was removed: %v", err)
	}
	pngFile, _ := pictures(t)
	file = insert(pngFile, pngHead, newChunk("tEXt", []byte("AIGC\x00{\"Label\":\"2\"}")))
	if found, err = Inspect(file); err != nil || len(found) != 1 || found[0].Value != `{"Label":"2"}` {
		t.Errorf("%v, %v", found, err)
	}
	if source := (Found{Name: IPTC, Value: sourceTypes + "digitalCapture"}); source.Synthetic() {
		t.Error("a photo counts as synthetic")
	}
}

// TestOtherPrograms: exiftool and ffprobe find the marks, in files before and after ffmpeg has copied them.
func TestOtherPrograms(t *testing.T) {
	for _, program := range []string{"exiftool", "ffprobe", "ffmpeg"} {
		testaid.Needs(t, program)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	pngFile, jpegFile := pictures(t)
	for name, data := range map[string][]byte{"a.mp4": video(t), "described.mp4": described(t, video(t)), "a.png": pngFile, "a.jpg": jpegFile} {
		marked, err := Put(data, filepath.Ext(name), Wanted{IPTC: true, AIGC: true, Producer: "Somebody"}, Subject{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, marked, 0o600); err != nil {
			t.Fatal(err)
		}
		seen := run("exiftool", "-G1", "-a", "-s", "-u", path)
		for _, want := range []string{Generated, `"ProduceID":"` + id + `"`, `"ContentProducer":"Somebody"`} {
			if !strings.Contains(seen, want) {
				t.Errorf("exiftool does not find %s in %s:\n%s", want, name, seen)
			}
		}
		if filepath.Ext(name) != ".mp4" {
			continue
		}
		item := func(path string) bool {
			return strings.Contains(run("ffprobe", "-v", "error", "-show_entries", "format_tags", "-of", "json", path), id)
		}
		copied, kept := filepath.Join(dir, "copied-"+name), filepath.Join(dir, "kept-"+name)
		run("ffmpeg", "-v", "error", "-i", path, "-c", "copy", copied)
		run("ffmpeg", "-v", "error", "-i", path, "-c", "copy", "-movflags", "use_metadata_tags", kept)
		if !item(path) || item(copied) || !item(kept) {
			t.Errorf("%s: ffprobe finds the item: %v; after -c copy: %v; with use_metadata_tags: %v; docs/marking.md says yes, no, yes",
				name, item(path), item(copied), item(kept))
		}
		if xmp := run("exiftool", "-XMP:all", kept); xmp != "" {
			t.Errorf("ffmpeg keeps the XMP now; docs/marking.md says that it does not:\n%s", xmp)
		}
	}
}

func FuzzInspect(f *testing.F) {
	pngFile, jpegFile := pictures(f)
	for ext, data := range map[string][]byte{".mp4": video(f), ".png": pngFile, ".jpg": jpegFile} {
		marked, err := Put(data, ext, Wanted{IPTC: true, AIGC: true, Producer: "P"}, Subject{ID: id})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(marked)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = Inspect(data) // it must not panic and must end
		for _, ext := range []string{".mp4", ".png", ".jpg"} {
			plain, err := Strip(data, ext)
			if err != nil {
				continue
			}
			if len(plain) > len(data) {
				t.Errorf("%s: Strip returned more bytes than it got", ext)
			}
			w, s := Wanted{IPTC: true, AIGC: true}, Subject{ID: id}
			marked, err := Put(plain, ext, w, s)
			if err != nil {
				continue
			}
			if out, err := Strip(marked, ext); err != nil || !bytes.Equal(out, plain) {
				t.Errorf("%s: Strip does not remove the marks of Put: %v", ext, err)
			}
		}
	})
}

func FuzzXMP(f *testing.F) {
	f.Add(packet(Generated, aigcItem("P", id)))
	f.Add([]byte(`<a xmlns:e="` + iptcSpace + `"><e:DigitalSourceType xmlns:r="` + rdfSpace + `" r:resource="x"/>`))
	f.Fuzz(func(_ *testing.T, xmp []byte) { _, _, _ = properties(xmp) })
}
