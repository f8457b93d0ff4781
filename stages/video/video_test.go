package video

import (
	"bytes"
	"context"
	"errors"
	"image/jpeg"
	"maps"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

func open(t *testing.T, set func(*encodeOptions)) stages.Stage {
	t.Helper()
	s, err := Encode().New(nil, func(target any) error {
		if set != nil {
			set(target.(*encodeOptions))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// element is a clip of grey frames, of a row that says another frame rate than the clip.
func element(width, frames int) *stages.Element {
	c := &schemas.Clip{Width: width, Height: 16, FPS: 1}
	for i := range frames {
		c.Frames = append(c.Frames, bytes.Repeat([]byte{byte(100 + 10*i)}, 3*16*width))
	}
	return &stages.Element{Frames: c,
		Row: schemas.PromptRow{Width: width, Height: 16, NumFrames: frames, FPS: 8}}
}

func TestEncode(t *testing.T) {
	clip, image := element(32, 3), element(16, 1)
	if err := open(t, nil).Run(t.Context(), nil, []*stages.Element{clip, image}); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*stages.Element{clip, image} {
		if e.Failed != nil {
			t.Fatal(e.Failed)
		}
		poster, err := jpeg.Decode(bytes.NewReader(e.Poster))
		if err != nil || poster.Bounds().Dx() != e.Row.Width {
			t.Errorf("poster: %v", err)
		}
		if e.Video.Recon == nil || len(e.Video.Recon.Frames) != e.Row.NumFrames {
			t.Error("nothing is known of what a player shows")
		}
	}
	if clip.Video.Ext != ".mp4" || clip.Video.Codec != "h264" || image.Video.Ext != ".png" {
		t.Errorf("a clip is %s %s, an image %s", clip.Video.Ext, clip.Video.Codec, image.Video.Ext)
	}
	if clip.Frames.FPS != 1 {
		t.Error("the frames that came in were changed")
	}
	// The frame rate is the row's.
	slow := element(32, 3)
	slow.Row.FPS = 4
	if err := open(t, nil).Run(t.Context(), nil, []*stages.Element{slow}); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(slow.Video.Data, clip.Video.Data) {
		t.Error("the frame rate of the row does not show in the file")
	}
}

// TestEncodeOptionsMatter: options change the file, and stating the default values does not.
func TestEncodeOptionsMatter(t *testing.T) {
	files := map[string]string{}
	for what, set := range map[string]func(*encodeOptions){
		"defaults": nil,
		"spelled":  func(o *encodeOptions) { o.Codec, o.Encoder = "h264", "embedded" },
		"qp":       func(o *encodeOptions) { o.QP = 45 },
		"gop":      func(o *encodeOptions) { o.GOP = 1 },
	} {
		e := element(32, 3)
		if err := open(t, set).Run(t.Context(), nil, []*stages.Element{e}); err != nil || e.Failed != nil {
			t.Fatal(err, e.Failed)
		}
		files[what] = string(e.Video.Data)
	}
	if files["defaults"] != files["spelled"] {
		t.Error("the defaults differ from no options")
	}
	if files["qp"] == files["defaults"] || files["gop"] == files["defaults"] {
		t.Error("an option has no effect")
	}
}

// TestDigest: another encoding program may give other bytes, so its version is in the digest; the embedded encoder adds
// nothing to it.
func TestDigest(t *testing.T) {
	if d := open(t, nil).Digest(); d != "" {
		t.Errorf("embedded: %q", d)
	}
	testaid.Needs(t, "ffmpeg")
	if d := open(t, func(o *encodeOptions) { o.Encoder = "ffmpeg" }).Digest(); !strings.HasPrefix(d, "ffmpeg ") {
		t.Errorf("ffmpeg: %q", d)
	}
}

// TestEncodeFailsOneElement: a clip that cannot be encoded fails only its own row.
func TestEncodeFailsOneElement(t *testing.T) {
	good, empty, short := element(16, 2), element(16, 2), element(16, 2)
	empty.Frames.Frames = nil
	short.Frames.Frames[1] = short.Frames.Frames[1][:5]
	if err := open(t, nil).Run(t.Context(), nil, []*stages.Element{empty, good, short}); err != nil {
		t.Fatal(err)
	}
	if good.Failed != nil || good.Video == nil {
		t.Errorf("the good clip: %v", good.Failed)
	}
	for want, e := range map[string]*stages.Element{"no frames": empty, "frame 1 has 5 bytes": short} {
		if e.Failed == nil || e.Failed.Stage != "encode_video" || !strings.Contains(e.Failed.Message, want) {
			t.Errorf("%+v, want %s", e.Failed, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	e := element(16, 2)
	if err := open(t, nil).Run(ctx, nil, []*stages.Element{e}); !errors.Is(err, stop) || e.Failed != nil {
		t.Errorf("a cancelled run: %v, %v", err, e.Failed)
	}
}

func TestEncodeCheck(t *testing.T) {
	s := open(t, nil)
	for _, c := range []struct {
		row  schemas.PromptRow
		want string
	}{
		{schemas.PromptRow{Width: 16, Height: 16, NumFrames: 16, FPS: 8}, ""},
		{schemas.PromptRow{Width: 15, Height: 16, NumFrames: 1, FPS: 8}, ""},   // a PNG may be odd
		{schemas.PromptRow{Width: 117, Height: 312, NumFrames: 2, FPS: 8}, ""}, // decoded as 112x312
		{schemas.PromptRow{Width: 16, Height: 16, NumFrames: 2}, "fps is 0"},
		{schemas.PromptRow{Width: 16, Height: 16, NumFrames: 2, FPS: 1001}, "fps is 1001"},
	} {
		err := s.Check(&c.row)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.row, err, c.want)
		}
	}
}

// TestShown: the frames that ffmpeg decodes from a video are those that its encoder reported, byte for byte.
func TestShown(t *testing.T) {
	testaid.Needs(t, "ffmpeg")
	for _, e := range []*stages.Element{noisy(64, 9), noisy(48, 1)} {
		if err := open(t, nil).Run(t.Context(), nil, []*stages.Element{e}); err != nil || e.Failed != nil {
			t.Fatal(err, e.Failed)
		}
		want := e.Video.Recon
		e.Video.Recon = nil
		got, err := Shown(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if got.Width != want.Width || got.Height != want.Height || got.FPS != want.FPS && len(want.Frames) > 1 || len(got.Frames) != len(want.Frames) {
			t.Fatalf("%dx%d, %v, %d frames", got.Width, got.Height, got.FPS, len(got.Frames))
		}
		if e.Video.Recon != nil {
			t.Error("the element keeps the decoded frames: those of a batch would be in memory at once")
		}
		for i := range want.Frames {
			if !bytes.Equal(got.Frames[i], want.Frames[i]) {
				t.Errorf("frame %d of %d is another", i, len(want.Frames))
			}
		}
	}
	broken := noisy(32, 2)
	broken.Video = &schemas.Encoded{Data: []byte("none"), Ext: ".mp4"}
	_, err := Shown(t.Context(), broken)
	_, again := Shown(t.Context(), broken)
	if fault.ClassOf(err) != fault.ClassRow || err == nil || again == nil || err.Error() != again.Error() {
		t.Errorf("%v, and %v", err, again)
	}
}

// TestShownTogether: videos that one ffmpeg decodes have the same frames as those decoded alone. If one is damaged, too large
// or not an mp4, none is returned, and each is decoded alone.
func TestShownTogether(t *testing.T) {
	testaid.Needs(t, "ffmpeg")
	var all []*stages.Element
	for i := range 3 {
		e := noisy(32+16*i, 2+i)
		if err := open(t, nil).Run(t.Context(), nil, []*stages.Element{e}); err != nil || e.Failed != nil {
			t.Fatal(err, e.Failed)
		}
		e.Video.Recon = nil
		all = append(all, e)
	}
	got := ShownTogether(t.Context(), all)
	for i, e := range all {
		want, err := Shown(t.Context(), e)
		if err != nil || !reflect.DeepEqual(got[i], want) {
			t.Errorf("video %d: another clip than alone (%v)", i, err)
		}
	}
	large := noisy(320, 300)
	if err := open(t, nil).Run(t.Context(), nil, []*stages.Element{large}); err != nil || large.Failed != nil {
		t.Fatal(err, large.Failed)
	}
	damaged := &stages.Element{Row: all[0].Row, Video: &schemas.Encoded{Data: bytes.Clone(all[0].Video.Data), Ext: ".mp4"}}
	at := bytes.Index(damaged.Video.Data, []byte("mdat"))
	for i := at + 4; i < min(at+400, len(damaged.Video.Data)); i++ {
		damaged.Video.Data[i] = 0xff
	}
	for what, e := range map[string]*stages.Element{"large": large, "damaged": damaged,
		"no mp4": {Video: &schemas.Encoded{Data: []byte("none"), Ext: ".mp4"}}} {
		for i, c := range ShownTogether(t.Context(), []*stages.Element{all[0], e, all[1]}) {
			if c != nil {
				t.Errorf("%s: clip %d came", what, i)
			}
		}
	}
}

// noisy is a clip of colours that differ from pixel to pixel.
func noisy(width, frames int) *stages.Element {
	e := element(width, frames)
	e.Row.FPS = 8
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range e.Frames.Frames {
		for i := range f {
			f[i] = byte(r.IntN(256))
		}
	}
	return e
}

// TestMeasure measures a video whose encoder has reported the decoded frames, and one whose encoder has not.
func TestMeasure(t *testing.T) {
	s, err := Measure().New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	known, unknown := element(32, 4), element(32, 4)
	if err := open(t, nil).Run(t.Context(), nil, []*stages.Element{known, unknown}); err != nil {
		t.Fatal(err)
	}
	if unknown.Video.Recon = nil; !hasFFmpeg() {
		unknown = known
	}
	if err := s.Run(t.Context(), nil, []*stages.Element{known, unknown}); err != nil {
		t.Fatal(err)
	}
	if len(known.AllReadings()) != 3 || !maps.Equal(known.AllReadings(), unknown.AllReadings()) {
		t.Errorf("%v and %v", known.Looked, unknown.Looked)
	}
}

func hasFFmpeg() bool {
	_, err := exec.LookPath("ffmpeg")
	return err == nil
}
