// Package video holds the stages that work on finished frames: encode_video makes the file, measure
// reads the built-in model's shapes back from it. Formats live in internal/media, image processing in
// testdata/tiny/measure.
package video
