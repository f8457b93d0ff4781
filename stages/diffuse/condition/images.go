package condition

import "latentbeam/stages"

// The ways to condition a network on a row's references as separate inputs.
const (
	imageHead = "i2v_head" // the video starts with the first frame of the first reference
	imageTail = "i2v_tail" // the video ends with the last frame of the first reference
	imageLoop = "i2v_loop" // both; with two references the video ends with the first frame of the second
	videoHead = "v2v_head" // the video starts with the first condition_frame_length latent frames
)

// ImageTypes returns the names of all ways.
func ImageTypes() []string { return []string{imageHead, imageTail, imageLoop, videoHead} }

// Images puts frames of references into the latents z (C, T, H, W) of a clip, in one of the ways of ImageTypes. clip is the
// number of the clip among clips. It returns for each frame whether it is given, nil if none is. References have the size of z;
// length is the number of latent frames that a clip continues from.
func Images(z *stages.Array, way string, references []*stages.Array, length, clip, clips int) []bool {
	at, from := places(way, references, z.Shape[1], length, clip, clips)
	if len(at) == 0 {
		return nil
	}
	given := make([]bool, z.Shape[1])
	for i, t := range at {
		given[t] = true
		CopyFrames(z, references[from[i][0]], t, from[i][1], 1)
	}
	return given
}

// places returns the given latent frames of a clip of t frames, and the reference and its frame for each. A clip that continues
// starts with the last reference, which is the end of the clip before. Frames that end a video end its last clip. (The
// reference's script differs: i2v_loop ends every clip but the first, and i2v_tail none of several.)
func places(way string, references []*stages.Array, t, length, clip, clips int) (at []int, from [][2]int) {
	put := func(frame, reference, of int) {
		at, from = append(at, frame), append(from, [2]int{reference, of})
	}
	begin := func(reference, n int) {
		for i := range min(n, references[reference].Shape[1], t) {
			put(i, reference, i)
		}
	}
	own := len(references) // number of references without the end of the clip before
	switch {
	case clip > 0:
		own--
		begin(own, length)
	case way == imageHead || way == imageLoop:
		begin(0, 1)
	case way == videoHead:
		begin(0, length)
	}
	if clip < clips-1 || own == 0 {
		return at, from
	}
	switch {
	case way == imageLoop && own > 1:
		put(t-1, 1, 0)
	case way == imageTail || way == imageLoop:
		put(t-1, 0, references[0].Shape[1]-1)
	}
	return at, from
}
