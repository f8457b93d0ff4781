package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"latentbeam/schemas"
)

// Frames are n frames of a video or an image at a frame rate, resized to a size. Frame i is the frame that is shown at the time
// i / rate. Images and folders of images have no rate: an image is repeated, a folder is used frame by frame.
type Frames struct {
	src    Source
	fit    *Fitter
	n      int
	rate   [2]int64 // requested rate as a fraction; 0 / 0: the file's own
	first  int      // number of the first requested frame of src, at the requested rate
	rgb    []byte
	read   int // number of frames read from src
	last   []float32
	lastAt int // the frame in last, -1: none

	cut    *schemas.Cut
	reopen func() (Source, error) // opens the source again at the first frame
	spent  Spent
}

// Spent is the time for reading frames so far.
type Spent struct {
	Frames           int64
	Decode, Resize   time.Duration // Decode: until the pixels are available, with opening
	Decoded, Resized int64         // bytes of the frames before and after resizing
}

// Spent returns the time of At and of opening. A frame that is shown twice counts once.
func (f *Frames) Spent() Spent { return f.spent }

// OpenFrames opens the file or folder at path for its first n frames at fps frames a second (0: the file's own rate), each
// resized to height x width.
func OpenFrames(ctx context.Context, path string, n int, fps float64, height, width int, r Rules) (*Frames, error) {
	return openFrames(ctx, path, n, fps, r, func(info SourceInfo) (*Fitter, error) { return NewFitter(info, height, width) }, nil)
}

// OpenCut is OpenFrames for the part of a file that a cut selects.
func OpenCut(ctx context.Context, path string, n int, fps float64, height, width int, c schemas.Cut, r Rules) (*Frames, error) {
	if c.Count < 1 || c.Start < 0 || c.Count < n && c.Short != schemas.CutLoop && c.Short != schemas.CutPad {
		return nil, fmt.Errorf("read %s: a cut of %d frames from %d on cannot give %d", path, c.Count, c.Start, n)
	}
	return openFrames(ctx, path, n, fps, r, func(info SourceInfo) (*Fitter, error) { return NewCutFitter(info, height, width, c) }, &c)
}

func openFrames(ctx context.Context, path string, n int, fps float64, r Rules, fitter func(SourceInfo) (*Fitter, error),
	c *schemas.Cut) (*Frames, error) {
	f := &Frames{n: n, lastAt: -1, cut: c}
	o := SourceOptions{Frames: n, FPS: fps, Rules: r}
	if c != nil {
		o.Frames = min(n, c.Count)
		f.first = c.Start
		o.Window = &Window{c.Start, c.Seek, c.Origin}
	}
	f.reopen = func() (Source, error) { return OpenSource(ctx, path, o) }
	var err error
	began := time.Now()
	if f.src, err = f.reopen(); err != nil {
		return nil, err
	}
	f.spent.Decode = time.Since(began)
	if _, begun := f.src.(*piped); begun {
		f.first = 0
	}
	info := f.src.Info()
	f.rgb = make([]byte, info.Height*info.Width*3)
	if fps > 0 && info.RateNum > 0 {
		num, den := frameRate(fps)
		f.rate = [2]int64{int64(num), int64(den)}
	}
	if f.fit, err = fitter(info); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.src.Close())
	}
	return f, nil
}

// Readings returns the readings of the frames: decoding errors, once the last frame was read, and the transfer curve of video
// with high dynamic range. Readings that are 0 are omitted.
func (f *Frames) Readings() map[string]string {
	readings := map[string]string{}
	if p, ok := f.src.(*piped); ok && p.damage.Errors > 0 {
		readings[schemas.ReadingDecodeErrors] = strconv.Itoa(p.damage.Errors)
	}
	if code := transferCodes[f.src.Info().Transfer]; code > 0 {
		readings[schemas.ReadingTransfer] = strconv.Itoa(code)
	}
	return readings
}

// transferCodes maps curves to their numbers (ITU-T H.273, table 3).
var transferCodes = map[string]int{PQ: 16, HLG: 18}

// Close stops reading.
func (f *Frames) Close() error { return f.src.Close() }

// source returns the number of the source's frame for frame i.
func (f *Frames) source(i int) int {
	info := f.src.Info()
	i += f.first
	switch {
	case info.Still:
		return 0
	case f.rate[0] == 0:
		return i
	}
	return int(int64(i) * info.RateNum * f.rate[1] / (info.RateDen * f.rate[0]))
}

// At fills dst (height, width, 3) with frame i, with values in [-1, 1]. Frames must be requested in order; the last one may be
// requested again.
func (f *Frames) At(dst []float32, i int) error {
	if f.cut != nil {
		at := f.cut.Frame(i)
		if i != at && at == 0 && f.lastAt > f.source(0) { // the loop starts again
			if err := f.rewind(); err != nil {
				return err
			}
		}
		i = at
	}
	want := f.source(i)
	if want == f.lastAt {
		copy(dst, f.last)
		return nil
	}
	if want < f.lastAt {
		return fmt.Errorf("frame %d was asked for after frame %d of the source", i, f.lastAt)
	}
	began := time.Now()
	if f.read < want {
		passed, err := f.src.Skip(want - f.read)
		if err != nil {
			return err
		}
		f.read += passed
	}
	if err := f.src.Next(f.rgb); errors.Is(err, io.EOF) {
		return f.tooShort()
	} else if err != nil {
		return err
	}
	f.read++
	decoded := time.Now()
	f.fit.Fit(dst, f.rgb)
	s := &f.spent
	s.Frames, s.Decode, s.Resize = s.Frames+1, s.Decode+decoded.Sub(began), s.Resize+time.Since(decoded)
	s.Decoded, s.Resized = s.Decoded+int64(len(f.rgb)), s.Resized+4*int64(len(dst))
	f.last, f.lastAt = append(f.last[:0], dst...), want
	return nil
}

// rewind opens the source again.
func (f *Frames) rewind() error {
	if err := f.src.Close(); err != nil {
		return err
	}
	src, err := f.reopen()
	if err != nil {
		return err
	}
	f.src, f.read, f.lastAt = src, 0, -1
	return nil
}

// tooShort returns an error with the length of the video.
func (f *Frames) tooShort() error {
	info := f.src.Info()
	if info.RateNum == 0 || f.rate[0] == 0 {
		return fmt.Errorf("the video has %d frames, %d are wanted", f.read, f.n)
	}
	return fmt.Errorf("the video has %d frames at %.5g a second, %d frames at %.5g a second are wanted", f.read,
		float64(info.RateNum)/float64(info.RateDen), f.n, float64(f.rate[0])/float64(f.rate[1]))
}
