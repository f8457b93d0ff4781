// Package measure reads colour, shape, motion and background from a clip by classical image processing: it
// is the judge of the built-in model, and knows only that model's world (testdata/tiny/train/README.md), one
// coloured shape on a plain background.
//
// The steps: the background is the median of the border (background.go), what differs from it is split off
// by Otsu's threshold and the largest connected component is kept in each frame (segment.go), its colour is
// the nearest named one in CIELAB (color.go), its shape the one of equal area that overlaps it best
// (shape.go), its motion the median slope of its centroid (motion.go). Where a step finds nothing
// trustworthy the answer is Unknown, never a guess.
//
// What may never enter: learned weights, the network, knowledge of the prompt (Score compares afterwards).
// To add a colour, shape or motion: one line in its table and one in the tests' renderer.
package measure
