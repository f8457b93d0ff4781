// Package cut decides which clips are cut of a video or an image: their size, their frames, and where they are
// cropped. It is pure: it sees what a file says of itself and no pixel, so that a plan, a run, every shard and every
// worker decide alike.
//
// Auto sizes and the nearest aspect ratio are those of kohya's buckets, as musubi-tuner has them: its trainer computes the
// bucket of a latent again, from the size of the original.
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

// Media is what a file says of itself.
type Media struct {
	Width, Height int  // pixels
	Frames        int  // at the rate of the clips
	Still         bool // a single image
}

// Want is what the row asks for beside its media.
type Want struct {
	Height, Width int // pixels, where there are no buckets
	NumFrames     int // of a clip whose length no bucket says
	Most          int // frames of a clip whose length has a form; 0: as many as there are
	// Draw returns a whole number from 0 to n, which follows from the row, its media and the label alone.
	Draw func(label string, n int) (int, error)
}

// Clip is a row that the media expand to. Where one of Dropped and Failed is set there is no clip, and it says why.
type Clip struct {
	Suffix                   string // behind the row's id
	Width, Height, NumFrames int    // of the clip
	Cut                      schemas.Cut
	Dropped                  string
	Failed                   error
}

// Rule cuts clips as a job's input says.
type Rule struct {
	sizes   []config.BucketSize // rising by width and height
	lengths config.Lengths
	small   string
	windows config.Windows
	filter  string
	crop    string
	flip    bool
}

// New returns the rule of an input that cuts its media.
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

// AutoSizes lists the sizes of at most so many pixels whose sides are multiples of step: widths from half the side of the
// square to the square, the height that goes with each, and both turned round.
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

// Cut returns the clips of a medium, at least one.
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
	if m.Still && enough { // the image again and again
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

// clips returns a clip for each start, and its mirror.
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

// choose finds the bucket of the nearest aspect ratio, and the lengths that it has.
func (r *Rule) choose(m Media, want Want) (config.BucketSize, config.Lengths) {
	if len(r.sizes) == 0 {
		return config.BucketSize{Width: want.Width, Height: want.Height}, r.lengths
	}
	fits := r.sizes
	// Images go where there is one frame, videos where there are more, if the list has such buckets.
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

// nearest is the first size whose ratio of width to height is nearest to that of the media.
func nearest(sizes []config.BucketSize, m Media) config.BucketSize {
	ratio := float64(m.Width) / float64(m.Height)
	return slices.MinFunc(sizes, func(a, b config.BucketSize) int {
		off := func(s config.BucketSize) float64 { return math.Abs(float64(s.Width)/float64(s.Height) - ratio) }
		return cmp.Compare(off(a), off(b))
	})
}

// framesOf lists the numbers of frames with which a size is in the list.
func framesOf(sizes []config.BucketSize, of config.BucketSize) (frames []int) {
	for _, s := range sizes {
		if s.Width == of.Width && s.Height == of.Height {
			frames = append(frames, s.Frames)
		}
	}
	return frames
}

// length is the longest length that the media have room for, or, where enough is false, the shortest that there is.
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

// short says what becomes of media that have fewer frames than the clip.
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

// starts lists the first frames of the clips of n frames.
func (r *Rule) starts(frames, n int) (starts []int) {
	last := frames - n
	switch r.windows.Pick {
	case config.PickUniform: // as numpy.linspace(0, last, count, dtype=int) has them
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

// fit scales the frame until it fills the clip, or with crop: pad until it fits into it, and places it.
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
