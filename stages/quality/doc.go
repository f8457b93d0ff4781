// Package quality holds the stage that reads off a clip what trainers choose their data by: scene cuts, motion, sharpness,
// luminance, black bars and a perceptual hash. It sees the frames that an autoencoder would see.
//
// Each measure is a sum of whole numbers, or follows from sums, so that no order of computing changes it. To add one:
// a meter in a file of its own, a line in meters (clip.go), and its names in Readings (stage.go).
//
// What may never enter: learned weights, and whatever depends on other rows. Rows are compared by the report.
package quality
