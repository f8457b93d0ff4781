// Package media turns frames into the bytes of a file that plays everywhere: H.264 in MP4 by the encoder in
// internal/media/h264 or by an ffmpeg process, PNG for a single frame, JPEG for posters. It also reads frames:
// of y4m files, png and jpeg images and folders of them, and of any other video through ffmpeg, at a frame
// rate and fitted into a size.
//
// Videos are BT.601 matrix, limited range, 4:2:0, and tagged so in the bitstream and in the container with
// BT.709 primaries and transfer. Only this combination looks alike in readers that honour tags and in readers that
// ignore them. Files carry no dates, so that equal frames give equal bytes.
//
// MP4 boxes are written by github.com/Eyevinn/mp4ff: it has every box a progressive file needs (avcC, nclx
// colr, stss), depends on nothing but the standard library and takes no clock.
//
// What may never enter: models, tensors, Beam, paths of a user's output. Results of ffmpeg depend on its
// version, which no key knows.
// To add an output format: one file with an Encoder, one line in encoders.go, its frames checked by a test
// against a foreign decoder.
package media
