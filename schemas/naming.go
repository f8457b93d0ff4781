package schemas

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Naming says how a family of models reads the names of sizes and lengths. A nil Naming reads them as most tools do: an aspect
// ratio is width:height; sizes and lengths come from Open-Sora's tables.
type Naming struct {
	HeightFirst bool        // an aspect ratio is height:width
	Ratio       string      // aspect ratio of a resolution that is given without one; "": the ratio is required
	Sizes       []NamedSize // the sizes that the family was published with
	Side        int         // the sides of all other sizes are multiples of Side; 0: any
	// Step converts a time to frames: the number of frames is the nearest multiple of Step, plus 1. If Step is 0, lengths come
	// from Open-Sora's tables.
	Step int
}

// NamedSize is a size in pixels that a family was published with.
type NamedSize struct {
	Resolution, Ratio string // Ratio is width:height, or height:width if Naming.HeightFirst
	Height, Width     int
}

// OpenSora reads names as Open-Sora does (opensora/datasets/aspect.py).
var OpenSora = &Naming{HeightFirst: true}

// Wan reads names as Wan does (SIZE_CONFIGS of its repository). The sizes for 4:3 and 3:4 come from its hosted service.
var Wan = &Naming{Ratio: "16:9", Side: 16, Step: 4, Sizes: []NamedSize{
	{"480p", "16:9", 480, 832}, {"480p", "9:16", 832, 480}, {"720p", "16:9", 720, 1280}, {"720p", "9:16", 1280, 720},
	{"720p", "4:3", 832, 1088}, {"720p", "3:4", 1088, 832}}}

// WanTI2V is Wan for TI2V-5B. Its autoencoder needs multiples of 32 pixels.
var WanTI2V = &Naming{Ratio: "16:9", Side: 32, Step: 4, Sizes: []NamedSize{
	{"480p", "16:9", 480, 832}, {"480p", "9:16", 832, 480}, {"720p", "16:9", 704, 1280}, {"720p", "9:16", 1280, 704}}}

// OpenSoraPlan reads names as Open-Sora-Plan does. 93x480p there means 93 frames of 480x640.
var OpenSoraPlan = &Naming{Ratio: "16:9", Side: 16, Step: 4, Sizes: []NamedSize{
	{"480p", "", 480, 640}, {"480p", "4:3", 480, 640}, {"480p", "3:4", 640, 480}, {"720p", "16:9", 720, 1280}, {"720p", "9:16", 1280, 720}}}

// Size returns the height and width in pixels of a resolution such as "720p" at an aspect ratio such as "16:9". The aspect
// ratio may also be a key of Open-Sora's tables: height over width, such as "0.56". The error starts with the name of the wrong
// parameter.
func (n *Naming) Size(name, ratio string) (height, width int, err error) {
	if n == nil {
		n = &Naming{}
	}
	if name == "" {
		return 0, 0, errors.New("resolution is missing: an aspect_ratio needs one, such as 720p")
	}
	for _, given := range []string{ratio, cmp.Or(ratio, n.Ratio)} {
		for _, s := range n.Sizes {
			if s.Resolution == name && s.Ratio == given {
				return s.Height, s.Width, nil
			}
		}
	}
	known := cmp.Or(ratio, n.Ratio)
	switch {
	case known == "" && n.HeightFirst:
		return 0, 0, errors.New("aspect_ratio is missing: a resolution needs one, such as 9:16 (height:width)")
	case known == "":
		return 0, 0, errors.New("aspect_ratio is missing: a resolution needs one, such as 16:9 (width:height)")
	case !n.HeightFirst:
		known = swapped(known)
	}
	if height, width, err = SizeByName(name, known); err != nil {
		return 0, 0, n.explain(name, ratio, err)
	}
	if n.Side > 0 {
		height, width = height/n.Side*n.Side, width/n.Side*n.Side
	}
	return height, width, nil
}

// explain rewrites an error of SizeByName so that its aspect ratios are width:height, if the family writes them so.
func (n *Naming) explain(name, ratio string, err error) error {
	if n.HeightFirst || strings.HasPrefix(err.Error(), "resolution") {
		return err
	}
	var names []string
	for _, r := range resolutions() {
		if r.name == strings.TrimSuffix(name, floored) {
			for _, one := range r.ratioNames() {
				names = append(names, swapped(one))
			}
		}
	}
	return fmt.Errorf("aspect_ratio %q (width:height) is not one of resolution %s; there are %s", ratio, name, strings.Join(names, ", "))
}

// swapped turns a ratio a:b into b:a. Keys such as 0.56 stay.
func swapped(ratio string) string {
	if a, b, found := strings.Cut(ratio, ":"); found {
		return b + ":" + a
	}
	return ratio
}

// Frames returns the number of frames of a length such as "4s". fps is the frame rate, 0 if it is not known. The error lists
// the allowed forms.
func (n *Naming) Frames(length string, fps float64) (int, error) {
	if n == nil || n.Step == 0 {
		return FramesByName(length)
	}
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(length, "s"), 64)
	switch {
	case err != nil || !strings.HasSuffix(length, "s") || !(seconds > 0) || seconds*fps > MaxNumFrames:
		return 0, errors.New(`give a whole number, or a time such as "5s"`)
	case !(fps > 0):
		return 0, fmt.Errorf("%q needs fps, the frames of a second", length)
	}
	return int(math.Round(seconds*fps/float64(n.Step)))*n.Step + 1, nil
}

// IsLength reports whether a text is a length: a time such as "4s", or one of Open-Sora's names such as "2x".
func IsLength(text string) bool {
	if _, known := lengths[text]; known {
		return true
	}
	number, isTime := strings.CutSuffix(text, "s")
	seconds, err := strconv.ParseFloat(number, 64)
	return isTime && err == nil && seconds > 0 && !math.IsInf(seconds, 0)
}

// NearestFrames returns the number of frames nearest to n that is a multiple of step plus add. It is at least add. Of two
// equally near numbers it returns the larger.
func NearestFrames(n, step, add int) int {
	return max(0, (n-add+step/2)/step)*step + add
}
