// Package score has the stages `score` and `quality`. They measure clips for people who choose videos and trainers that choose
// data: scene cuts, motion, sharpness, luminance, black bars, a perceptual hash, and others.
//
// A clip is a video as a player shows it, or media as an autoencoder would see them. A measure processes its frames in order.
// To add one, write a meter in its own file and an entry in measures (measures.go). A measure with weights opens them in the
// entry's open function and identifies them by content; the keys of the readings follow from the entry.
//
// A measure must not depend on other rows. The report compares rows.
package score
