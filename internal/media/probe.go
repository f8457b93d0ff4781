package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"latentbeam/internal/media/mp4"
)

// StreamInfo describes a video or an image without decoding frames.
type StreamInfo struct {
	Width, Height int  // display size in pixels
	Still         bool // a single image
	Frames        int  // at the requested rate
	// Keys are frames at which decoding can start, in order; empty if it can start only at the beginning.
	Keys   []Keyframe
	Origin int64 // time of the first frame, in microseconds of the file's clock

	perFrame float64 // frames of the file for each frame at the requested rate
	price    *price  // of reading them
}

// Keyframe is a frame at which decoding can start.
type Keyframe struct {
	Frame int   // the first frame at the requested rate that shows this frame of the file or a later one
	Time  int64 // in microseconds of the file's clock
}

// Seek returns the time of the last keyframe from which frame start can be decoded, 0 if seeking saves nothing.
func (f StreamInfo) Seek(start int) int64 { return f.seek(start).Time }

// seek returns the last keyframe from which frame start can be decoded; the zero value: seeking saves nothing.
func (f StreamInfo) seek(start int) Keyframe {
	at, found := slices.BinarySearchFunc(f.Keys, start, func(k Keyframe, start int) int { return k.Frame - start })
	if !found {
		at--
	}
	if at < 1 {
		return Keyframe{}
	}
	return f.Keys[at]
}

// Probe reads the facts about a file's frames at fps frames a second (0: the file's own rate). mp4 and mov files are read here;
// other files for ffmpeg are read with ffprobe, which reads every packet but decodes none.
func Probe(ctx context.Context, path string, fps float64) (StreamInfo, error) {
	f, err := factsOf(ctx, path, fps)
	if err == nil && f.Frames < 1 {
		err = errors.New("it has no frames")
	}
	if err == nil {
		err = SourceInfo{Width: f.Width, Height: f.Height}.check()
	}
	if err != nil {
		return StreamInfo{}, fmt.Errorf("read %s: %w", path, withoutPlace(err))
	}
	return f, nil
}

func factsOf(ctx context.Context, path string, fps float64) (StreamInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return StreamInfo{}, err
	}
	look := Look{}
	if info.Mode().IsRegular() {
		if look, err = LookAt(ctx, path); err != nil {
			return StreamInfo{}, err
		}
		if look.format == otherFormat {
			t, err := timelineOf(ctx, path)
			if err != nil {
				return StreamInfo{}, err
			}
			f := t.facts(fps)
			f.Width, f.Height = look.shown(f.Width, f.Height)
			f.price = priceOf(look)
			if look.interlaced { // a frame depends on earlier ones
				f.Keys = nil
			}
			return f, nil
		}
	}
	src, err := openSource(ctx, path, SourceOptions{})
	if err != nil {
		return StreamInfo{}, err
	}
	defer src.Close()
	i := src.Info()
	f := StreamInfo{Still: i.Still, price: priceOf(look)}
	f.Width, f.Height = i.shown()
	n, err := src.Skip(math.MaxInt)
	if err != nil {
		return f, err
	}
	f.Frames = n
	if fps > 0 && i.RateNum > 0 { // frame j is shown while floor(j rate / fps) is a frame of the file
		num, den := frameRate(fps)
		up, down := int64(num)*i.RateDen, int64(den)*i.RateNum
		f.Frames = int((int64(n)*up + down - 1) / down)
	}
	return f, nil
}

// timeline has the times at which a file's frames are shown.
type timeline struct {
	mp4.Timeline
	noSeek bool // the container has no index for finding a keyframe exactly
}

// facts counts frames as the filters of openFFmpeg do.
func (t *timeline) facts(fps float64) StreamInfo {
	f := StreamInfo{Width: t.Width, Height: t.Height, Frames: len(t.Times), perFrame: 1}
	if len(t.Times) == 0 {
		return f
	}
	f.Origin = t.Times[0]
	if fps <= 0 {
		return f
	}
	num, den := frameRate(fps)
	up := func(time int64) int { // the first frame that is shown at this time or later
		us := max(0, time-f.Origin-clockSlack)
		scale := int64(den) * 1_000_000
		return int((us*int64(num) + scale - 1) / scale)
	}
	f.Frames = max(1, up(t.End))
	f.perFrame = float64(len(t.Times)) / float64(f.Frames)
	if t.noSeek {
		return f
	}
	for _, k := range t.Keys {
		f.Keys = append(f.Keys, Keyframe{up(k), k})
	}
	return f
}

// timelineOf returns the timeline of a file that ffmpeg decodes.
func timelineOf(ctx context.Context, path string) (*timeline, error) {
	t := &timeline{}
	plain, err := mp4.ReadTimeline(path)
	if errors.Is(err, mp4.ErrNotPlain) || errors.Is(err, io.EOF) {
		t, err = ffprobe(ctx, path)
	} else if err == nil {
		t.Timeline = *plain
	}
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// longest is the longest duration that a video may claim, in microseconds: 100 days. Its frames can be counted in 64 bits.
const longest = 100 * 24 * 3600 * 1_000_000

// check returns an error for impossible times.
func (t *timeline) check() error {
	for _, at := range []int64{t.Times[0], t.Times[len(t.Times)-1], t.End} {
		if at < -longest || at > longest {
			return fmt.Errorf("the file has a frame %v s after its start: it is damaged, or more than 100 days long",
				at/1_000_000)
		}
	}
	return nil
}
