package media

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Frames are n frames of a video or an image at a frame rate, fitted into a size. Frame i is the one on
// screen at the moment i / rate. An image, and a folder of images, has no rate: the one is repeated, the
// other taken as it is.
type Frames struct {
	src    Source
	fit    *Fitter
	n      int
	rate   [2]int64 // asked for, as a fraction; 0 / 0 as it is
	rgb    []byte
	read   int // frames taken from src
	last   []float32
	lastAt int // the frame in last
}

// OpenFrames opens the file or folder at path for its first n frames at fps frames a second (0: as they are),
// each fitted into height x width.
func OpenFrames(ctx context.Context, path string, n int, fps float64, height, width int) (*Frames, error) {
	src, err := OpenSource(ctx, path, SourceOptions{Frames: n, FPS: fps})
	if err != nil {
		return nil, err
	}
	info := src.Info()
	f := &Frames{src: src, n: n, rgb: make([]byte, info.Height*info.Width*3), lastAt: -1,
		last: make([]float32, height*width*3)}
	if fps > 0 && info.RateNum > 0 {
		num, den := frameRate(fps)
		f.rate = [2]int64{int64(num), int64(den)}
	}
	if f.fit, err = NewFitter(info, height, width); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), src.Close())
	}
	return f, nil
}

// Close ends the reading.
func (f *Frames) Close() error { return f.src.Close() }

// source returns the number of the source's frame that is shown as frame i.
func (f *Frames) source(i int) int {
	info := f.src.Info()
	switch {
	case info.Still:
		return 0
	case f.rate[0] == 0:
		return i
	}
	return int(int64(i) * info.RateNum * f.rate[1] / (info.RateDen * f.rate[0]))
}

// At fills dst (height, width, 3) with frame i, its values in [-1, 1]. Frames are asked for in order; the
// last one may be asked for again.
func (f *Frames) At(dst []float32, i int) error {
	want := f.source(i)
	if want < f.lastAt {
		return fmt.Errorf("frame %d was asked for after frame %d of the source", i, f.lastAt)
	}
	for f.read <= want {
		if err := f.src.Next(f.rgb); errors.Is(err, io.EOF) {
			return f.tooShort()
		} else if err != nil {
			return err
		}
		f.read++
	}
	if f.lastAt != want {
		f.fit.Fit(f.last, f.rgb)
		f.lastAt = want
	}
	copy(dst, f.last)
	return nil
}

// tooShort says how long the video is.
func (f *Frames) tooShort() error {
	info := f.src.Info()
	if info.RateNum == 0 || f.rate[0] == 0 {
		return fmt.Errorf("the video has %d frames, %d are wanted", f.read, f.n)
	}
	return fmt.Errorf("the video has %d frames at %.5g a second, %d frames at %.5g a second are wanted", f.read,
		float64(info.RateNum)/float64(info.RateDen), f.n, float64(f.rate[0])/float64(f.rate[1]))
}
