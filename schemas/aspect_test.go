package schemas

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// TestSize: the size of a resolution at an aspect ratio, HEIGHTxWIDTH. A ratio is a pair, such as 9:16, or the key of sizes.txt, such as
// 0.56. The message about an unknown name lists the known ones.
func TestSize(t *testing.T) {
	for _, c := range []struct{ resolution, ratio, want string }{ // want "": an error
		{"240p", "9:16", "240x426"}, {"720p", "9:16", "720x1280"}, {"720p", "16:9", "1280x720"},
		{"480p", "9:16", "480x854"}, // so says Open-Sora's table; its documentation says 853
		{"144p", "1:1", "192x192"}, {"4k", "5:8", "2276x3642"}, {"1080p", "0.56", "1080x1920"},
		{"256", "0.4", "160x400"}, {"256", "0.40", "160x400"}, {"512", "1:1", "512x512"},
		{"240p_16d", "9:16", "240x416"}, {"1080p_16d", "17:9", "1968x1040"}, {"720p_16d", "3:8", "576x1568"},
		{"721p", "9:16", ""}, {"720p", "9x16", ""}, {"", "9:16", ""}, {"720p", "", ""}, {"512", "1.0", "512x512"},
		{"1024", "1.00", "1024x1024"},
	} {
		h, w, err := SizeByName(c.resolution, c.ratio)
		got := fmt.Sprintf("%dx%d", h, w)
		if c.want == "" && err == nil || c.want != "" && got != c.want {
			t.Errorf("%s at %s is %s, %v; want %q", c.resolution, c.ratio, got, err, c.want)
		}
	}
	_, _, err := SizeByName("721p", "9:16")
	if err == nil || !strings.Contains(err.Error(), "there are 144p, 256, 240p, 360p") {
		t.Errorf("resolution 721p: %v, want a list of resolutions", err)
	}
	_, _, err = SizeByName("720p", "9x16")
	if err == nil || !strings.Contains(err.Error(), "there are 3:8, 9:21, 12:25, 1:2") {
		t.Errorf("aspect ratio 9x16: %v, want a list of ratios", err)
	}
}

// TestTables checks every line of sizes.txt: each size has its ratio, and about the number of pixels of its resolution.
func TestTables(t *testing.T) {
	count := 0
	for _, r := range resolutions() {
		for _, s := range r.sizes {
			count++
			ratio, err := strconv.ParseFloat(s.ratio, 64)
			if err != nil || math.Abs(float64(s.height)/float64(s.width)/ratio-1) > 0.03 {
				t.Errorf("%s: %dx%d (height x width) is more than 3%% off its ratio %s", r.name, s.height, s.width, s.ratio)
			}
			if part := float64(s.height*s.width) / float64(r.pixels); part < 0.86 || part > 1.08 {
				t.Errorf("%s: %dx%d has %.2f times the %d pixels of its resolution, want 0.86 to 1.08", r.name, s.height, s.width, part, r.pixels)
			}
		}
	}
	const want = 8*17 + 5*40 // 8 resolutions have 17 ratios, 5 have 40
	if len(resolutions()) != 8+5 || count != want {
		t.Errorf("got %d resolutions with %d sizes, want 13 with %d", len(resolutions()), count, want)
	}
	// The resolutions of videos (240p, ...) have a size at every ratio that has a name.
	for _, name := range Resolutions() {
		for _, ratio := range ratioNames() {
			h, w, err := SizeByName(name, ratio)
			if _, isVideo := strings.CutSuffix(name, "p"); isVideo && (err != nil || h < 100 || w < 100) {
				t.Errorf("%s at %s: got %dx%d, %v; want sides of 100 pixels or more", name, ratio, h, w, err)
			}
		}
	}
}

// TestFrames: the frames of a published length. An unknown length is an error.
func TestFrames(t *testing.T) {
	for length, want := range map[string]int{"2s": 51, "4s": 102, "16s": 408, "16x": 816, "3s": 0, "": 0, "51": 0} {
		if n, err := FramesByName(length); n != want || (err == nil) != (want > 0) {
			t.Errorf("length %q: got %d frames, %v; want %d (0: an error)", length, n, err, want)
		}
	}
}

// ratioNames lists the names of the aspect ratios, widest first.
func ratioNames() []string {
	var names []string
	for _, r := range ratios {
		names = append(names, r[0])
	}
	return names
}
