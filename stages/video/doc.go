// Package video has the stages that work on finished frames: encode_video makes the file, measure_shapes measures the built-in
// model's shapes in it. Formats are in internal/media, image processing is in testdata/tiny/measure.
package video
