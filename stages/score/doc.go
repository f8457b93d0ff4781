// Package score holds the stages `score` and `quality`, which read off a clip what people choose videos and trainers choose their
// data by: scene cuts, motion, sharpness, luminance, black bars and a perceptual hash.
//
// A clip is a video as a player shows it, or media as an autoencoder would see them. A measure looks at its frames in order. To add
// one: a meter in a file of its own, and an entry in measures (measures.go). Measures with weights open them in the entry's
// open and name them by content; the readings' keys follow from the entry.
//
// What may never enter: whatever depends on other rows. Rows are compared by the report.
package score
