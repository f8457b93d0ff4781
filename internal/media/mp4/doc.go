// Package mp4 writes mp4 files with one video track, adds metadata to them, and reads the display times of their frames.
package mp4
