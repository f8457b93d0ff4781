// Package mp4 writes mp4 files of one video track, adds metadata to them, and reads when their frames are shown.
package mp4
