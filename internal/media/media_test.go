package media

import (
	"bytes"
	"context"
	"errors"
	"image/jpeg"
	"image/png"
	"math"
	"strings"
	"testing"

	"latentbeam/schemas"

	"github.com/Eyevinn/mp4ff/mp4"
)

func mustEncode(t *testing.T, encoder string, o Options, c *schemas.Clip) *schemas.Encoded {
	t.Helper()
	e, err := New("h264", encoder, o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Encode(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMP4Layout(t *testing.T) {
	c := testClip(34, 50, 30, 23.976, false)
	out := mustEncode(t, "embedded", Options{GOP: 12}, c)
	f, err := mp4.DecodeFile(bytes.NewReader(out.Data))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, b := range f.Children {
		order = append(order, b.Type())
	}
	if got := strings.Join(order, " "); got != "ftyp moov mdat" {
		t.Errorf("boxes %s", got)
	}
	trak := f.Moov.Trak
	stbl := trak.Mdia.Minf.Stbl
	if got := stbl.Stss.SampleNumber; len(got) != 3 || got[0] != 1 || got[1] != 13 || got[2] != 25 {
		t.Errorf("key frames %v", got)
	}
	mdhd := trak.Mdia.Mdhd
	if d := float64(mdhd.Duration) / float64(mdhd.Timescale); math.Abs(d-30*1.001/24) > 1e-9 {
		t.Errorf("duration %v s", d)
	}
	if int(trak.Tkhd.Width)>>16 != 34 || stbl.Stsd.AvcX.Width != 34 || stbl.Stsd.AvcX.Height != 50 {
		t.Errorf("size %d, %dx%d", trak.Tkhd.Width>>16, stbl.Stsd.AvcX.Width, stbl.Stsd.AvcX.Height)
	}
	if f.Moov.Mvhd.CreationTime|trak.Tkhd.CreationTime|trak.Mdia.Mdhd.CreationTime != 0 {
		t.Error("the file contains a date")
	}
	colours := []byte("colrnclx\x00\x01\x00\x01\x00\x06\x00")
	if !bytes.Contains(out.Data, colours) {
		t.Error("no colr box with 1/1/6, limited range")
	}
	last, err := trak.GetRangesForSampleInterval(30, 30)
	if err != nil || last[len(last)-1].Offset+last[len(last)-1].Size != uint64(len(out.Data)) {
		t.Errorf("the last sample ends at %v of %d: %v", last, len(out.Data), err)
	}
}

func TestSingleFrameIsLosslessPNG(t *testing.T) {
	c := testClip(31, 17, 1, 8, true)
	out := mustEncode(t, "embedded", Options{}, c)
	m, err := png.Decode(bytes.NewReader(out.Data))
	if err != nil || out.Ext != ".png" || out.Codec != "png" {
		t.Fatalf("%s %s: %v", out.Ext, out.Codec, err)
	}
	for i := range 31 * 17 {
		r, g, b, _ := m.At(i%31, i/31).RGBA()
		want := c.Frames[0][3*i:]
		if byte(r>>8) != want[0] || byte(g>>8) != want[1] || byte(b>>8) != want[2] {
			t.Fatalf("pixel %d differs", i)
		}
	}
	if largest, _ := maxDifference(out.Recon.Frames, c.Frames); largest != 0 {
		t.Errorf("Recon differs by %d", largest)
	}
}

func TestQuality(t *testing.T) {
	c := testClip(64, 64, 16, 8, false)
	fine, coarse := mustEncode(t, "embedded", Options{QP: 8}, c), mustEncode(t, "embedded", Options{QP: 40}, c)
	_, fineMean := maxDifference(fine.Recon.Frames, c.Frames)
	_, coarseMean := maxDifference(coarse.Recon.Frames, c.Frames)
	t.Logf("QP 8: %d bytes, mean error %.2f; QP 40: %d bytes, mean error %.2f",
		len(fine.Data), fineMean, len(coarse.Data), coarseMean)
	if fineMean > 3 || fineMean >= coarseMean || len(fine.Data) <= len(coarse.Data) {
		t.Error("a lower quantiser must give more bytes and a smaller error")
	}
}

func TestGreyStaysGrey(t *testing.T) {
	c := &schemas.Clip{Width: 16, Height: 16, FPS: 8}
	for v := 0; v < 256; v += 15 {
		c.Frames = append(c.Frames, bytes.Repeat([]byte{byte(v)}, 16*16*3))
	}
	out := mustEncode(t, "embedded", Options{QP: 4}, c)
	if largest, _ := maxDifference(out.Recon.Frames, c.Frames); largest > 2 {
		t.Errorf("greys differ by %d", largest)
	}
}

func TestBadInput(t *testing.T) {
	good := func() *schemas.Clip { return testClip(16, 16, 2, 8, false) }
	for name, c := range map[string]struct {
		spoil func(c *schemas.Clip)
		want  string
	}{
		"no frames":   {func(c *schemas.Clip) { c.Frames = nil }, "no frames"},
		"short frame": {func(c *schemas.Clip) { c.Frames[1] = c.Frames[1][1:] }, "frame 1 has 767 bytes, 768 expected"},
		"zero width":  {func(c *schemas.Clip) { c.Width = 0 }, "each side"},
		"huge":        {func(c *schemas.Clip) { c.Height = 1 << 40 }, "each side"},
		"zero fps":    {func(c *schemas.Clip) { c.FPS = 0 }, "frames a second"},
		"NaN fps":     {func(c *schemas.Clip) { c.FPS = math.NaN() }, "frames a second"},
		"odd width":   {func(c *schemas.Clip) { *c = *testClip(17, 16, 2, 8, false) }, "even sides, 16x16"},
		"odd height":  {func(c *schemas.Clip) { *c = *testClip(16, 17, 2, 8, false) }, "even sides"},
		"too long":    {func(c *schemas.Clip) { *c = *testClip(8704, 2, 2, 8, false) }, "each side"},
	} {
		e, err := New("h264", "embedded", Options{})
		if err != nil {
			t.Fatal(err)
		}
		clip := good()
		c.spoil(clip)
		_, err = e.Encode(context.Background(), clip)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []Options{{QP: 52}, {QP: -1}, {GOP: 257}, {GOP: -1}} {
		if _, err := New("h264", "embedded", o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestCancelledEncode(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e, err := New("h264", "embedded", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Encode(ctx, testClip(16, 16, 3, 8, false)); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
}

func TestFrameRate(t *testing.T) {
	for fps, want := range map[float64][2]uint32{
		8: {8, 1}, 24: {24, 1}, 1000: {1000, 1}, 12.5: {25, 2}, 23.98: {1199, 50}, 1.0 / 3: {1, 3},
		0.001: {1, 1000}, 7.992: {8000, 1001}, 23.976: {24000, 1001}, 24000.0 / 1001: {24000, 1001},
		29.97: {30000, 1001}, 59.94: {60000, 1001},
	} {
		if num, den := frameRate(fps); [2]uint32{num, den} != want {
			t.Errorf("%v: %d/%d, want %v", fps, num, den, want)
		}
	}
}

func TestPoster(t *testing.T) {
	c := testClip(33, 20, 5, 8, false)
	data, err := Poster(c.Middle(), c.Width, c.Height)
	if err != nil {
		t.Fatal(err)
	}
	m, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil || m.Bounds().Dx() != 33 || m.Bounds().Dy() != 20 {
		t.Fatalf("%v: %v", m.Bounds(), err)
	}
	if &c.Middle()[0] != &c.Frames[2][0] {
		t.Error("the middle of 5 frames is the third")
	}
	if _, err := Poster(c.Frames[0][1:], 33, 20); err == nil {
		t.Error("a short frame gave no error")
	}
}
