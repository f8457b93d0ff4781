// Package cut decides which clips are cut from a video or an image: their size, their frames, and their crop. It is pure: it
// uses only the facts about a file, not its pixels. So a plan, a run, every shard and every worker make the same decision.
//
// Auto sizes and the nearest aspect ratio follow kohya's buckets, as in musubi-tuner: its trainer computes the bucket of a
// latent again from the original size.
package cut

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"latentbeam/internal/config"
	"latentbeam/internal/media/resize"
	"latentbeam/schemas"
)

// Media are the facts about a media file.
type Media struct {
	Width, Height int  // pixels
	Frames        int  // number of frames at the frame rate of the clips
	Still         bool // a single image
}

// Want is what the row asks for.
type Want struct {
	Height, Width int // pixels, if there are no buckets
	NumFrames     int // of a clip, if no bucket has a length
	Most          int // most frames of a clip with a flexible length; 0: all
	// Draw returns an integer from 0 to n. It depends only on the row, its media and the label.
	Draw func(label string, n int) (int, error)
}

// Clip is a row that is made from the media. If Dropped or Failed is set, there is no clip, and the field says why.
type Clip struct {
	Suffix                   string // appended to the row's id
	Width, Height, NumFrames int    // of the clip
	Cut                      schemas.Cut
	Dropped                  string
	Failed                   error
}

// Rule cuts clips as the job's input says.
type Rule struct {
	sizes   []config.BucketSize // ascending by width and height
	lengths config.Lengths
	small   string
	windows config.Windows
	filter  string
	crop    string
	flip    bool
}

// New returns the rule for an input that cuts its media.
func New(in config.Input) *Rule {
	r := &Rule{filter: cmp.Or(in.Resize, string(resize.Bicubic)), crop: cmp.Or(in.Crop, config.CropCenter), flip: in.Flip,
		windows: in.Windows}
	r.windows.Pick = cmp.Or(r.windows.Pick, config.PickHead)
	r.windows.Short = cmp.Or(r.windows.Short, config.ShortFail)
	if b := in.Buckets; !b.IsZero() {
		r.lengths, r.small = b.Frames, b.Small
		if r.sizes = slices.Clone(b.Sizes); len(r.sizes) == 0 {
			r.sizes = AutoSizes(b.Pixels, cmp.Or(b.Step, autoStep))
		}
		slices.SortFunc(r.sizes, func(a, b config.BucketSize) int {
			return cmp.Or(a.Width-b.Width, a.Height-b.Height, a.Frames-b.Frames)
		})
		r.sizes = slices.Compact(r.sizes)
	}
	return r
}

// autoStep is the default of buckets.step: two patches of the usual autoencoders.
const autoStep = 16

// AutoSizes lists the sizes with at most pixels pixels whose sides are multiples of step: widths from half
// the side of the square with this number of pixels up to its whole side, each with the greatest height. Each size is also listed
// with its sides swapped.
func AutoSizes(pixels, step int) (sizes []config.BucketSize) {
	side := int(math.Sqrt(float64(pixels)))
	for w := max(step, side/2/step*step); w < side+step; w += step {
		h := pixels / w / step * step
		if h < step {
			continue
		}
		sizes = append(sizes, config.BucketSize{Width: w, Height: h}, config.BucketSize{Width: h, Height: w})
	}
	return sizes
}

// Cut returns the clips of a media file, at least one.
func (r *Rule) Cut(m Media, want Want) []Clip {
	clip := Clip{}
	size, lengths := r.choose(m, want)
	clip.Width, clip.Height = size.Width, size.Height
	if min(clip.Width, clip.Height) < 1 {
		clip.Failed = fmt.Errorf("the clips have no size: give defaults.height and defaults.width, or input.buckets")
		return []Clip{clip}
	}
	if r.small == config.SmallDrop && (m.Width < clip.Width || m.Height < clip.Height) {
		clip.Dropped = fmt.Sprintf("%dx%d pixels are smaller than the bucket %dx%d (buckets.small: drop)", m.Width, m.Height, clip.Width,
			clip.Height)
		return []Clip{clip}
	}
	n, enough := r.length(m, lengths, want)
	clip.NumFrames = n
	starts := []int{0}
	clip.Cut.Count = n
	if enough {
		starts = r.starts(m.Frames, n)
	} else {
		r.short(m, &clip)
	}
	if m.Still && enough { // the image is repeated
		clip.Cut.Count, clip.Cut.Short, starts = 1, schemas.CutPad, []int{0}
		if n == 1 {
			clip.Cut.Short = ""
		}
	}
	if clip.Failed != nil || clip.Dropped != "" {
		return []Clip{clip}
	}
	return r.clips(m, clip, starts, want)
}

// clips returns a clip for each start and, if the rule flips clips, a mirrored copy of each.
func (r *Rule) clips(m Media, clip Clip, starts []int, want Want) (all []Clip) {
	for i, start := range starts {
		one := clip
		one.Cut.Start = start
		if r.windows.Pick != config.PickHead {
			one.Suffix = fmt.Sprintf("#w%03d", i)
		}
		if one.Failed = r.fit(m, &one, want); one.Failed != nil {
			all = append(all, one)
			continue
		}
		all = append(all, one)
		if r.flip {
			one.Suffix += "#flip"
			one.Cut.Flipped = true
			all = append(all, one)
		}
	}
	return all
}

// choose returns the bucket whose aspect ratio is nearest to the media's, and the lengths of its clips. Without buckets, it returns
// the size that the row asks for.
func (r *Rule) choose(m Media, want Want) (config.BucketSize, config.Lengths) {
	if len(r.sizes) == 0 {
		return config.BucketSize{Width: want.Width, Height: want.Height}, r.lengths
	}
	fits := r.sizes
	// If the list has buckets with one frame, images use these; if it has buckets with more, videos use these.
	if some := slices.DeleteFunc(slices.Clone(fits),
		func(s config.BucketSize) bool { return s.Frames != 0 && (s.Frames == 1) != m.Still }); len(some) > 0 {
		fits = some
	}
	size := nearest(fits, m)
	if size.Frames == 0 {
		return size, r.lengths
	}
	return size, config.Lengths{List: framesOf(fits, size)}
}

// nearest returns the first size whose aspect ratio is nearest to the media's.
func nearest(sizes []config.BucketSize, m Media) config.BucketSize {
	ratio := float64(m.Width) / float64(m.Height)
	return slices.MinFunc(sizes, func(a, b config.BucketSize) int {
		off := func(s config.BucketSize) float64 { return math.Abs(float64(s.Width)/float64(s.Height) - ratio) }
		return cmp.Compare(off(a), off(b))
	})
}

// framesOf lists the numbers of frames that the list has for a size.
func framesOf(sizes []config.BucketSize, of config.BucketSize) (frames []int) {
	for _, s := range sizes {
		if s.Width == of.Width && s.Height == of.Height {
			frames = append(frames, s.Frames)
		}
	}
	return frames
}

// length returns the longest length that the media have frames for. If there is none, enough is false and n is the shortest
// length.
func (r *Rule) length(m Media, lengths config.Lengths, want Want) (n int, enough bool) {
	fill := r.windows.Short == config.ShortLoop || r.windows.Short == config.ShortPad
	switch has := m.Frames; {
	case len(lengths.List) > 0:
		at, found := slices.BinarySearch(lengths.List, has)
		if !found {
			at--
		}
		if at < 0 {
			return lengths.List[0], false
		}
		return lengths.List[at], true
	case lengths.Factor > 0:
		if want.Most > 0 {
			has = min(has, want.Most)
		}
		least := cmp.Or(lengths.Add, lengths.Factor)
		if has < least {
			return least, false
		}
		return (has-lengths.Add)/lengths.Factor*lengths.Factor + lengths.Add, true
	case want.NumFrames < 1, m.Still && !fill:
		return has, true
	default:
		return want.NumFrames, has >= want.NumFrames
	}
}

// short decides what to do with media that have fewer frames than the clip.
func (r *Rule) short(m Media, clip *Clip) {
	why := fmt.Sprintf("%d frames are fewer than the %d of a clip", m.Frames, clip.NumFrames)
	switch r.windows.Short {
	case config.ShortDrop:
		clip.Dropped = why + " (windows.short: drop)"
	case config.ShortLoop, config.ShortPad:
		clip.Cut.Count, clip.Cut.Short = m.Frames, r.windows.Short
	case config.ShortImage:
		clip.NumFrames, clip.Cut.Count = 1, 1
	default:
		clip.Failed = fmt.Errorf("%s; windows.short says what becomes of such media: drop, loop, pad or image", why)
	}
}

// starts lists the first frames of the clips with n frames.
func (r *Rule) starts(frames, n int) (starts []int) {
	last := frames - n
	switch r.windows.Pick {
	case config.PickUniform: // as numpy.linspace(0, last, count, dtype=int)
		count := max(1, r.windows.Count)
		for i := range count {
			at := 0
			if count > 1 {
				at = i * last / (count - 1)
			}
			starts = append(starts, at)
		}
		return slices.Compact(starts)
	case config.PickAll:
		stride := cmp.Or(r.windows.Stride, n)
		for at := 0; at <= last; at += stride {
			starts = append(starts, at)
		}
		return starts
	}
	return []int{0}
}

// fit scales the frame so that it fills the clip, or, with crop: pad, so that it fits into the clip. Then it sets the position of
// the clip in the scaled frame.
func (r *Rule) fit(m Media, clip *Clip, want Want) error {
	c := &clip.Cut
	c.Filter = r.filter
	across, down := float64(clip.Width)/float64(m.Width), float64(clip.Height)/float64(m.Height)
	scale := max(across, down)
	if r.crop == config.CropPad {
		scale = min(across, down)
	}
	c.ScaledWidth, c.ScaledHeight = max(1, int(float64(m.Width)*scale+0.5)), max(1, int(float64(m.Height)*scale+0.5))
	restX, restY := c.ScaledWidth-clip.Width, c.ScaledHeight-clip.Height
	if r.crop != config.CropRandom {
		c.X, c.Y = restX/2, restY/2
		return nil
	}
	var err error
	if c.X, err = want.Draw("crop_x"+clip.Suffix, restX); err == nil {
		c.Y, err = want.Draw("crop_y"+clip.Suffix, restY)
	}
	return err
}
