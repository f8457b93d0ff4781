// Package media encodes frames to files that play everywhere: H.264 in MP4, with the encoder in internal/media/h264 or an
// ffmpeg process; PNG for a single frame; JPEG for posters. It also decodes frames: from y4m files, images and folders of
// images, and from any other video with ffmpeg, at a frame rate and resized.
//
// Videos are BT.601 matrix, limited range, 4:2:0. The bitstream and the container are tagged so, with BT.709 primaries and
// transfer. Only this combination looks the same in readers that use tags and in readers that ignore them. Files have no dates,
// so that equal frames give equal bytes.
//
// MP4 boxes are written with github.com/Eyevinn/mp4ff: it has every box that a progressive file needs (avcC, nclx colr, stss),
// depends only on the standard library and does not use a clock.
//
// The package does not know models, tensors, Beam or the paths of a user's output. Results of ffmpeg depend on its version,
// which keys of encoded videos do not contain. To add an output format, write a file with an Encoder, add a line in
// encoders.go, and test its frames with a foreign decoder.
package media
