package schemas

import (
	"fmt"
	"strings"
	"testing"
)

// TestNaming: names of sizes and lengths give the published values of each family, or an error that starts with want. Naming nil is a
// family that is not known.
func TestNaming(t *testing.T) {
	for _, c := range []struct {
		naming            *Naming
		resolution, ratio string
		want              string // HEIGHTxWIDTH, or the start of the error
	}{
		{Wan, "480p", "", "480x832"}, {Wan, "480p", "16:9", "480x832"}, {Wan, "480p", "9:16", "832x480"},
		{Wan, "720p", "", "720x1280"}, {Wan, "720p", "9:16", "1280x720"}, {Wan, "720p", "4:3", "832x1088"},
		{WanTI2V, "720p", "", "704x1280"}, {WanTI2V, "720p", "9:16", "1280x704"}, {WanTI2V, "480p", "", "480x832"},
		{Wan, "480p", "4:3", "544x736"}, {Wan, "480p", "1:1", "640x640"}, {Wan, "480p", "21:9", "416x976"},
		{Wan, "480p", "0.56", "480x848"}, // Wan's pairs are width:height, but a number is height/width in every family
		{OpenSoraPlan, "480p", "", "480x640"}, {OpenSoraPlan, "720p", "", "720x1280"}, {OpenSoraPlan, "480p", "3:4", "640x480"},
		{OpenSora, "720p", "16:9", "1280x720"}, {OpenSora, "480p", "9:16", "480x854"},
		{nil, "720p", "16:9", "720x1280"}, {nil, "480p", "9:16", "854x480"},
		{OpenSora, "720p", "", "aspect_ratio is missing"}, {nil, "720p", "", "aspect_ratio is missing: a resolution needs one, such as 16:9 (width:height)"},
		{Wan, "", "16:9", "resolution is missing"}, {Wan, "721p", "16:9", `resolution "721p" is not known`},
		{Wan, "480p", "7:5", `aspect_ratio "7:5" (width:height) is not one of resolution 480p; there are 8:3, 21:9`},
	} {
		h, w, err := c.naming.Size(c.resolution, c.ratio)
		got := fmt.Sprintf("%dx%d", h, w)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s at ratio %q: got %s, want %s", c.resolution, c.ratio, got, c.want)
		}
	}
	for _, c := range []struct {
		naming *Naming
		length string
		fps    float64
		want   string // the frames; where they are 0, the start of the error behind them
	}{
		{OpenSora, "4s", 24, "102"}, {OpenSora, "2x", 24, "102"}, {nil, "4s", 0, "102"}, {OpenSora, "5s", 24, `0 give a whole number, or one of "2s"`},
		{Wan, "5s", 16, "81"}, {WanTI2V, "5s", 24, "121"}, {Wan, "4s", 16, "65"}, {Wan, "2.5s", 16, "41"}, {OpenSoraPlan, "4s", 24, "97"},
		{Wan, "5s", 0, `0 "5s" needs fps`}, {Wan, "5", 16, "0 give"}, {Wan, "-1s", 16, "0 give"}, {Wan, "1e9s", 16, "0 give"}, {Wan, "NaNs", 16, "0 give"},
	} {
		n, err := c.naming.Frames(c.length, c.fps)
		got := fmt.Sprint(n)
		if err != nil {
			got += " " + err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("length %s at %v fps: got %s, want %s", c.length, c.fps, got, c.want)
		}
	}
	for text, want := range map[string]bool{"4s": true, "2x": true, "5s": true, "0.5s": true, "5": false, "s": false, "0s": false, "Infs": false, "frames": false} {
		if IsLength(text) != want {
			t.Errorf("IsLength(%q) is %v, want %v", text, !want, want)
		}
	}
}

// TestNearestFrames: of the numbers step*n + first, the one that is nearest to frames.
func TestNearestFrames(t *testing.T) {
	for _, c := range []struct{ frames, step, first, want int }{
		{80, 4, 1, 81}, {78, 4, 1, 77}, {79, 4, 1, 81}, {81, 4, 1, 81}, {0, 4, 1, 1}, {-9, 4, 1, 1}, {2, 4, 1, 1},
		{50, 16, 17, 49}, {3, 16, 17, 17},
	} {
		if got := NearestFrames(c.frames, c.step, c.first); got != c.want {
			t.Errorf("nearest to %d among %d*n + %d: got %d, want %d", c.frames, c.step, c.first, got, c.want)
		}
	}
}
