package condition

import (
	"fmt"
	"testing"

	"latentbeam/stages"
)

// TestImagePlaces: which frames of which reference are given, as scripts/inference_i2v.py places them.
func TestImagePlaces(t *testing.T) {
	refs := func(frames ...int) (out []*stages.Array) {
		for _, n := range frames {
			out = append(out, stages.NewArray(1, n, 1, 1))
		}
		return out
	}
	for _, c := range []struct {
		way  string
		refs []*stages.Array
		want string
		clip [2]int // its number, and how many there are
	}{
		{imageHead, refs(5), "[0] [[0 0]]", [2]int{0, 1}}, {imageTail, refs(5), "[9] [[0 4]]", [2]int{0, 1}},
		{imageLoop, refs(5), "[0 9] [[0 0] [0 4]]", [2]int{0, 1}}, {imageLoop, refs(5, 3), "[0 9] [[0 0] [1 0]]", [2]int{0, 1}},
		{videoHead, refs(5), "[0 1 2] [[0 0] [0 1] [0 2]]", [2]int{0, 1}}, {videoHead, refs(2), "[0 1] [[0 0] [0 1]]", [2]int{0, 1}},
		{imageTail, refs(1), "[9] [[0 0]]", [2]int{0, 1}},
		// Clips that continue have the end of the clip before as the last reference, here of 3 frames.
		{imageHead, refs(1), "[0] [[0 0]]", [2]int{0, 2}},
		{imageHead, refs(1, 3), "[0 1 2] [[1 0] [1 1] [1 2]]", [2]int{1, 2}},
		{imageLoop, refs(1), "[0] [[0 0]]", [2]int{0, 3}},
		{imageLoop, refs(1, 3), "[0 1 2] [[1 0] [1 1] [1 2]]", [2]int{1, 3}},
		{imageLoop, refs(4, 3), "[0 1 2 9] [[1 0] [1 1] [1 2] [0 3]]", [2]int{2, 3}},
		{imageLoop, refs(4, 2, 3), "[0 1 2 9] [[2 0] [2 1] [2 2] [1 0]]", [2]int{2, 3}},
		{imageTail, refs(4), "[] []", [2]int{0, 2}},
		{imageTail, refs(4, 3), "[0 1 2 9] [[1 0] [1 1] [1 2] [0 3]]", [2]int{1, 2}},
		{videoHead, refs(5), "[0 1 2] [[0 0] [0 1] [0 2]]", [2]int{0, 2}},
		{imageTail, refs(3), "[0 1 2] [[0 0] [0 1] [0 2]]", [2]int{1, 2}}, // without a reference of its own
	} {
		at, from := places(c.way, c.refs, 10, 3, c.clip[0], c.clip[1])
		if got := fmt.Sprint(at, from); got != c.want {
			t.Errorf("%s, clip %v: %s, want %s", c.way, c.clip, got, c.want)
		}
	}
}
