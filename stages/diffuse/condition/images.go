package condition

import "latentbeam/stages"

// The ways in which a network is conditioned on a row's references by inputs of their own.
const (
	imageHead = "i2v_head" // the first frame of the first reference begins the video
	imageTail = "i2v_tail" // the last frame of the first reference ends it
	imageLoop = "i2v_loop" // both; of two references the second's first frame ends it
	videoHead = "v2v_head" // the first condition_frame_length latent frames begin the video
)

// ImageTypes returns the names of these ways.
func ImageTypes() []string { return []string{imageHead, imageTail, imageLoop, videoHead} }

// Images puts the frames of references that a way gives (ImageTypes) into the latents z (C, T, H, W) of a clip of a
// video of so many. It returns for each frame whether it is given, nil where none is. References have the size of z;
// length is how many latent frames begin a clip.
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

// places returns the given latent frames of a clip of t frames, and the reference and its frame for each. A clip that
// goes on begins with the last reference, which is the end of the one before; what ends a video ends its last clip.
// (The reference's script lets i2v_loop end every clip but the first so, and i2v_tail none of several.)
func places(way string, references []*stages.Array, t, length, clip, clips int) (at []int, from [][2]int) {
	put := func(frame, reference, of int) {
		at, from = append(at, frame), append(from, [2]int{reference, of})
	}
	begin := func(reference, n int) {
		for i := range min(n, references[reference].Shape[1], t) {
			put(i, reference, i)
		}
	}
	own := len(references) // without the end of the clip before
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
