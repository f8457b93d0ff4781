package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"latentbeam/internal/config/document"
	"latentbeam/internal/media/resize"
	"latentbeam/schemas"
)

// Buckets are the sizes and lengths that clips may have.
type Buckets struct {
	// Sizes is auto, or a list of WIDTHxHEIGHT or WIDTHxHEIGHTxFRAMES. auto makes sizes of several aspect ratios from Pixels
	// and Step.
	Sizes Sizes `yaml:"sizes" json:"sizes,omitempty"`
	// Pixels is the maximum number of pixels of a frame, for auto sizes.
	Pixels int `yaml:"pixels" json:"pixels,omitempty"`
	Step   int `yaml:"step" json:"step,omitempty"` // sides of auto sizes are multiples of this; 0: 16
	// Frames are the lengths of clips in frames: a form such as 4n+1, or a list. A clip has the greatest length for
	// which its media have enough frames; lengths of a form are at most num_frames. "": the length is num_frames.
	Frames Lengths `yaml:"frames" json:"frames,omitzero"`
	// Small decides what happens to media that are smaller than their bucket: enlarge (also ""), or drop.
	Small string `yaml:"small" json:"small,omitempty"`
}

// Windows decide which frames of a video become clips.
type Windows struct {
	// Pick is head (also ""): one clip of the first frames; uniform: Count clips, evenly spaced; or all: a clip every Stride frames.
	Pick   string `yaml:"pick" json:"pick,omitempty"`
	Count  int    `yaml:"count" json:"count,omitempty"`   // number of clips for uniform; 0: 1
	Stride int    `yaml:"stride" json:"stride,omitempty"` // for all: frames from the start of a clip to the next; 0: the length of a clip
	// Short decides what happens to media that are too short for a clip: fail (also ""), drop, loop, pad (repeat the last frame)
	// or image (use only the first frame).
	Short string `yaml:"short" json:"short,omitempty"`
}

// The values of Crop, Pick, Short and Small, and limits of the numbers.
const (
	CropCenter, CropRandom, CropPad                             = "center", "random", "pad"
	PickHead, PickUniform, PickAll                              = "head", "uniform", "all"
	ShortFail, ShortDrop, ShortLoop, ShortPad, ShortImage       = "fail", "drop", "loop", "pad", "image"
	SmallEnlarge, SmallDrop                                     = "enlarge", "drop"
	maxWindows, maxSizes, maxStep, maxLengths, defaultSizesStep = 10_000, 1024, 1024, 1024, 16
)

// IsZero reports whether the job gives no buckets.
func (b Buckets) IsZero() bool {
	return b.Sizes == nil && b.Pixels == 0 && b.Step == 0 && b.Frames.IsZero() && b.Small == ""
}

// Cuts reports whether the job cuts its media into clips.
func (in Input) Cuts() bool {
	return !in.Buckets.IsZero() || in.Windows != (Windows{}) || in.Resize != "" || in.Crop != "" || in.Flip || in.NullCaption
}

// BucketSize is the size of the clips of a bucket. Frames is 0 if the bucket has no fixed number of frames.
type BucketSize struct{ Width, Height, Frames int }

// String writes WIDTHxHEIGHT or WIDTHxHEIGHTxFRAMES.
func (s BucketSize) String() string {
	text := fmt.Sprintf("%dx%d", s.Width, s.Height)
	if s.Frames > 0 {
		text += "x" + strconv.Itoa(s.Frames)
	}
	return text
}

// Sizes are the sizes of buckets; nil means auto.
type Sizes []BucketSize

func (l *Sizes) fromNode(n *document.Node) (string, bool) {
	const wanted = "auto, or a list of sizes such as 832x480 or 832x480x81 (WIDTHxHEIGHTxFRAMES)"
	var texts StringList
	if n.Kind == document.TextKind && n.Text == "auto" {
		*l = nil
		return wanted, true
	}
	if _, ok := texts.fromNode(n); !ok || len(texts) == 0 || len(texts) > maxSizes {
		return wanted, false
	}
	*l = nil
	for _, text := range texts {
		size, ok := parseSize(text)
		if !ok {
			return wanted, false
		}
		*l = append(*l, size)
	}
	return wanted, true
}

// parseSize parses WIDTHxHEIGHT or WIDTHxHEIGHTxFRAMES.
func parseSize(text string) (s BucketSize, ok bool) {
	parts := strings.Split(text, "x")
	if len(parts) < 2 || len(parts) > 3 {
		return s, false
	}
	limits := []int{schemas.MaxSide, schemas.MaxSide, schemas.MaxNumFrames}
	for i, into := range []*int{&s.Width, &s.Height, &s.Frames}[:len(parts)] {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 1 || n > limits[i] {
			return s, false
		}
		*into = n
	}
	return s, true
}

// MarshalJSON writes the list, or auto.
func (l Sizes) MarshalJSON() ([]byte, error) {
	if l == nil {
		return json.Marshal("auto")
	}
	texts := make([]string, len(l))
	for i, s := range l {
		texts[i] = s.String()
	}
	return json.Marshal(texts)
}

// Lengths are numbers of frames: all numbers Factor*n + Add, or a list. The zero value means that none are given.
type Lengths struct {
	Factor, Add int
	List        []int // ascending
}

func (l *Lengths) fromNode(n *document.Node) (string, bool) {
	const wanted = "a form such as 4n+1, or a list of numbers of frames in rising order"
	*l = Lengths{}
	if n.Kind == document.TextKind {
		factor, rest, found := strings.Cut(n.Text, "n")
		f, err := strconv.Atoi(cmp.Or(factor, "1"))
		add := 0
		if err == nil && rest != "" {
			add, err = strconv.Atoi(strings.TrimPrefix(rest, "+"))
		}
		*l = Lengths{Factor: f, Add: add}
		return wanted, found && err == nil && f >= 1 && f <= maxStep && add >= 0 && add < f+1
	}
	items := n.Items
	if n.Kind == document.IntKind {
		items = []*document.Node{n}
	} else if n.Kind != document.ListKind || len(items) == 0 || len(items) > maxLengths {
		return wanted, false
	}
	last := 0
	for _, item := range items {
		if item.Kind != document.IntKind || item.Int <= int64(last) || item.Int > schemas.MaxNumFrames {
			return wanted, false
		}
		last = int(item.Int)
		l.List = append(l.List, last)
	}
	return wanted, true
}

// IsZero reports whether no lengths are given.
func (l Lengths) IsZero() bool { return l.Factor == 0 && len(l.List) == 0 }

// MarshalJSON writes the form or the list.
func (l Lengths) MarshalJSON() ([]byte, error) {
	switch {
	case len(l.List) > 0:
		return json.Marshal(l.List)
	case l.Factor > 0 && l.Add > 0:
		return json.Marshal(fmt.Sprintf("%dn+%d", l.Factor, l.Add))
	case l.Factor > 0:
		return json.Marshal(fmt.Sprintf("%dn", l.Factor))
	}
	return json.Marshal("")
}

// validateClips checks the options for cutting media.
func (v *validator) validateClips() {
	in := v.config.Input
	for _, key := range []string{"buckets", "windows", "resize", "crop", "flip", "null_caption"} {
		if v.given("input."+key) && !v.given("input."+MediaInput) {
			v.problem("input."+key, "remove it, or name media", "input.%s needs input.media", key)
			return
		}
	}
	if in.Resize != "" {
		v.oneOf("input.resize", in.Resize, resize.Filters())
	}
	if in.Crop != "" {
		v.oneOf("input.crop", in.Crop, []string{CropCenter, CropRandom, CropPad})
	}
	v.validateWindows(in.Windows)
	if v.given("input.buckets") {
		v.validateBuckets(in.Buckets)
	}
}

func (v *validator) validateWindows(w Windows) {
	if w.Pick != "" {
		v.oneOf("input.windows.pick", w.Pick, []string{PickHead, PickUniform, PickAll})
	}
	if w.Short != "" {
		v.oneOf("input.windows.short", w.Short, []string{ShortFail, ShortDrop, ShortLoop, ShortPad, ShortImage})
	}
	if w.Count < 0 || w.Count > maxWindows {
		v.outOfBounds("input.windows.count", 1, maxWindows)
	}
	if w.Stride < 0 || w.Stride > schemas.MaxNumFrames {
		v.outOfBounds("input.windows.stride", 1, schemas.MaxNumFrames)
	}
	if w.Count > 0 && w.Pick != PickUniform {
		v.problem("input.windows.count", "write pick: uniform, or remove it", "input.windows.count is for pick: uniform")
	}
	if w.Stride > 0 && w.Pick != PickAll {
		v.problem("input.windows.stride", "write pick: all, or remove it", "input.windows.stride is for pick: all")
	}
}

func (v *validator) validateBuckets(b Buckets) {
	const path = "input.buckets"
	if b.Small != "" {
		v.oneOf(path+".small", b.Small, []string{SmallEnlarge, SmallDrop})
	}
	if b.Step < 0 || b.Step > maxStep {
		v.outOfBounds(path+".step", 1, maxStep)
		return
	}
	step := cmp.Or(b.Step, defaultSizesStep)
	minPixels := 4 * step * step // sides start at half of sqrt(pixels), which must be at least one step
	switch {
	case b.Sizes != nil && (b.Pixels != 0 || b.Step != 0):
		v.problem(path+".sizes", "write sizes: auto, or remove pixels and step", "input.buckets has a list of sizes, and pixels or step")
	case b.Sizes == nil && b.Pixels == 0 && !v.given(path+".pixels"):
		v.problem(path, "add pixels, such as 399360 for 832x480, or a list of sizes", "input.buckets has sizes: auto and no pixels")
	case b.Sizes == nil && (b.Pixels < minPixels || b.Pixels > schemas.MaxSide*schemas.MaxSide/4):
		v.outOfBounds(path+".pixels", minPixels, schemas.MaxSide*schemas.MaxSide/4)
	}
	noFrames := map[string]bool{} // by size: whether it is listed without a number of frames
	for _, s := range b.Sizes {
		name := BucketSize{s.Width, s.Height, 0}.String()
		if other, seen := noFrames[name]; seen && other != (s.Frames == 0) {
			v.problem(path+".sizes", "give all sizes of "+name+" a number of frames, or none",
				"%s is listed both with and without a number of frames", name)
			return
		}
		noFrames[name] = s.Frames == 0
	}
}
