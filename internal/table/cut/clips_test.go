package cut

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/config"
)

// inputOf reads an input from YAML.
func inputOf(t *testing.T, text string) config.Input {
	t.Helper()
	cfg, err := config.Parse("job.yaml", "version: 1\nmodel: tiny\ninput: {media: a.mp4, "+text+"}\nstages: [encode_vae]\n"+
		"output: {path: out, write: [latents]}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Input
}

// shown writes clips shortly.
func shown(clips []Clip) string {
	var all []string
	for _, c := range clips {
		switch {
		case c.Failed != nil:
			all = append(all, "failed: "+c.Failed.Error())
		case c.Dropped != "":
			all = append(all, "dropped: "+c.Dropped)
		default:
			k := c.Cut
			all = append(all, fmt.Sprintf("%s %dx%dx%d %d+%d%s %dx%d%+d%+d%t", c.Suffix, c.Width, c.Height, c.NumFrames, k.Start, k.Count,
				k.Short, k.ScaledWidth, k.ScaledHeight, k.X, k.Y, k.Flipped))
		}
	}
	return strings.Join(all, "; ")
}

func TestCut(t *testing.T) {
	const list = "buckets: {sizes: [64x32x17, 64x32x33, 32x64x17, 48x48x1]}"
	wide, tall, image := Media{Width: 200, Height: 100, Frames: 40}, Media{Width: 90, Height: 160, Frames: 20},
		Media{Width: 50, Height: 50, Frames: 1, Still: true}
	for _, c := range []struct {
		input string
		media Media
		want  string
	}{
		{"windows: {pick: head}", wide, " 48x48x16 0+16 96x48+24+0false"},
		{"crop: pad", wide, " 48x48x16 0+16 48x24+0-12false"},
		{"windows: {pick: uniform, count: 3}", wide, "#w000 48x48x16 0+16 96x48+24+0false; #w001 48x48x16 12+16 96x48+24+0false; " +
			"#w002 48x48x16 24+16 96x48+24+0false"},
		{"windows: {pick: all, stride: 20}", wide, "#w000 48x48x16 0+16 96x48+24+0false; #w001 48x48x16 20+16 96x48+24+0false"},
		{"windows: {pick: all}", wide, "#w000 48x48x16 0+16 96x48+24+0false; #w001 48x48x16 16+16 96x48+24+0false"},
		{"flip: true", tall, " 48x48x16 0+16 48x85+0+18false; #flip 48x48x16 0+16 48x85+0+18true"},
		{list, wide, " 64x32x33 0+33 64x32+0+0false"},
		{list, tall, " 32x64x17 0+17 36x64+2+0false"},
		{list, image, " 48x48x1 0+1 48x48+0+0false"},
		{list, Media{Width: 200, Height: 100, Frames: 16}, "failed: 16 frames are fewer than the 17 of a clip; windows.short says what " +
			"becomes of such media: drop, loop, pad or image"},
		{list + ", windows: {short: drop}", Media{Width: 200, Height: 100, Frames: 16},
			"dropped: 16 frames are fewer than the 17 of a clip (windows.short: drop)"},
		{list + ", windows: {short: loop}", Media{Width: 200, Height: 100, Frames: 5}, " 64x32x17 0+5loop 64x32+0+0false"},
		{list + ", windows: {short: image, pick: uniform}", Media{Width: 200, Height: 100, Frames: 5}, "#w000 64x32x1 0+1 64x32+0+0false"},
		{"buckets: {sizes: [64x32], frames: 4n+1}", wide, " 64x32x13 0+13 64x32+0+0false"},
		{"buckets: {sizes: [64x32], frames: [1, 9]}", wide, " 64x32x9 0+9 64x32+0+0false"},
		{"buckets: {sizes: [64x32], frames: 4n+1}", image, " 64x32x1 0+1 64x64+0+16false"},
		{"buckets: {sizes: [64x32]}", image, " 64x32x1 0+1 64x64+0+16false"},
		{"buckets: {sizes: [64x32]}, windows: {short: pad}", image, " 64x32x16 0+1pad 64x64+0+16false"},
		{"buckets: {sizes: [64x32], small: drop}", image, "dropped: 50x50 pixels are smaller than the bucket 64x32 (buckets.small: drop)"},
		{"buckets: {pixels: 4096, step: 16}", wide, " 80x48x16 0+16 96x48+8+0false"},
		{"buckets: {pixels: 4096, step: 16}", tall, " 48x80x16 0+16 48x85+0+2false"},
		{"buckets: {sizes: [64x32], frames: 4n}", image, "failed: 1 frames are fewer than the 4 of a clip; windows.short says what becomes " +
			"of such media: drop, loop, pad or image"},
	} {
		got := shown(New(inputOf(t, c.input)).Cut(c.media, Want{Height: 48, Width: 48, NumFrames: 16, Most: 16}))
		if got != c.want {
			t.Errorf("%s, %+v:\n got %s\nwant %s", c.input, c.media, got, c.want)
		}
	}
}

// TestRandomCrops: draws are asked by what they are for, so that clips and their mirrors have the same crop and windows
// others.
func TestRandomCrops(t *testing.T) {
	r := New(inputOf(t, "crop: random, flip: true, windows: {pick: all}"))
	var asked []string
	clips := r.Cut(Media{Width: 200, Height: 100, Frames: 40}, Want{Height: 48, Width: 48, NumFrames: 16,
		Draw: func(label string, n int) (int, error) {
			asked = append(asked, fmt.Sprint(label, n))
			return min(n, 7), nil
		}})
	want := []string{"crop_x#w00048", "crop_y#w0000", "crop_x#w00148", "crop_y#w0010"}
	if !slices.Equal(asked, want) || len(clips) != 4 || clips[1].Cut.X != 7 || !clips[1].Cut.Flipped || clips[1].Cut.X != clips[0].Cut.X {
		t.Errorf("asked for %q: %s", asked, shown(clips))
	}
}

// TestAutoSizes: the sizes are those of musubi-tuner's BucketSelector for 832x480 (computed with it).
func TestAutoSizes(t *testing.T) {
	r := New(inputOf(t, "buckets: {pixels: 399360}"))
	var list []string
	for _, s := range r.sizes {
		list = append(list, s.String())
	}
	const want = "304x1312 320x1248 336x1184 352x1120 368x1072 384x1040 400x992 416x960 432x912 448x880 464x848 480x832 496x800 512x768 " +
		"528x752 544x720 560x704 576x688 592x672 608x656 624x640 640x624"
	if got := strings.Join(list[:22], " "); got != want || len(list) != 42 {
		t.Errorf("%d sizes: %s", len(list), strings.Join(list, " "))
	}
	for _, c := range []struct {
		w, h int
		want string
	}{{1920, 1080, "832x480"}, {1080, 1920, "480x832"}, {640, 480, "720x544"}, {3000, 100, "1312x304"}} {
		if got := nearest(r.sizes, Media{Width: c.w, Height: c.h}).String(); got != c.want {
			t.Errorf("%dx%d: %s, want %s", c.w, c.h, got, c.want)
		}
	}
}
