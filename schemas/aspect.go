package schemas

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed sizes.txt
var sizesText string

// size is one entry of a resolution.
type size struct {
	ratio         string // height over width with two decimals, as the file spells it
	height, width int
}

// resolution is a list of sizes with about the same number of pixels, in the reference's order.
type resolution struct {
	name   string
	pixels int
	sizes  []size
}

// resolutions reads sizes.txt once. The file is part of the program and tested, so it has no error to report.
var resolutions = sync.OnceValue(func() (all []resolution) {
	for line := range strings.Lines(sizesText) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] == "#" {
			continue
		}
		if len(all) == 0 || all[len(all)-1].name != fields[0] {
			pixels, _ := strconv.Atoi(fields[1])
			all = append(all, resolution{name: fields[0], pixels: pixels})
		}
		last := &all[len(all)-1]
		for _, f := range fields[2:] {
			ratio, sides, _ := strings.Cut(f, "=")
			h, w, _ := strings.Cut(sides, "x")
			s := size{ratio: ratio}
			s.height, _ = strconv.Atoi(h)
			s.width, _ = strconv.Atoi(w)
			last.sizes = append(last.sizes, s)
		}
	}
	return all
})

// ratios maps the name of an aspect ratio, height:width, to its key in the tables.
var ratios = [][2]string{
	{"3:8", "0.38"}, {"9:21", "0.43"}, {"12:25", "0.48"}, {"1:2", "0.50"}, {"9:17", "0.53"}, {"27:50", "0.54"},
	{"9:16", "0.56"}, {"5:8", "0.62"}, {"2:3", "0.67"}, {"3:4", "0.75"}, {"1:1", "1.00"}, {"4:3", "1.33"},
	{"3:2", "1.50"}, {"16:9", "1.78"}, {"17:9", "1.89"}, {"2:1", "2.00"}, {"50:27", "2.08"},
}

// floored is the suffix of resolutions whose sides are floored to multiples of 16, from Open-Sora 1.3 on.
const (
	floored     = "_16d"
	flooredSide = 16
)

// Resolutions lists the names of the resolutions, smallest first; each may end in _16d.
func Resolutions() []string {
	var names []string
	for _, r := range resolutions() {
		names = append(names, r.name)
	}
	return names
}

// SizeByName returns the height and width in pixels of a resolution such as "720p" at an aspect ratio. The ratio is a name such
// as "9:16" (height:width) or a key such as "0.56". For an unknown name the error lists the known ones.
func SizeByName(name, ratio string) (height, width int, err error) {
	base, isFloored := strings.CutSuffix(name, floored)
	i := slices.IndexFunc(resolutions(), func(r resolution) bool { return r.name == base })
	if i < 0 {
		return 0, 0, fmt.Errorf("resolution %q is not known; there are %s", name,
			strings.Join(Resolutions(), ", "))
	}
	key := ratio
	for _, r := range ratios {
		if r[0] == ratio {
			key = r[1]
		}
	}
	for _, s := range resolutions()[i].sizes {
		if !sameRatio(s.ratio, key) {
			continue
		}
		if isFloored {
			return s.height / flooredSide * flooredSide, s.width / flooredSide * flooredSide, nil
		}
		return s.height, s.width, nil
	}
	return 0, 0, fmt.Errorf("aspect_ratio %q (height:width) is not one of resolution %s; there are %s",
		ratio, name, strings.Join(resolutions()[i].ratioNames(), ", "))
}

// sameRatio compares keys: 1.3 writes 0.40 where 1.2 has 0.4.
func sameRatio(a, b string) bool {
	return a == b || len(b) == len("0.40") && a == strings.TrimSuffix(b, "0")
}

// ratioNames lists the aspect ratios of a resolution. A ratio without a name is listed by its key.
func (r resolution) ratioNames() []string {
	var names []string
	for _, s := range r.sizes {
		name := s.ratio
		for _, known := range ratios {
			if sameRatio(s.ratio, known[1]) {
				name = known[0]
			}
		}
		names = append(names, name)
	}
	return names
}

// lengths maps the name of a length to its number of frames at 24 frames a second. The VAE takes groups of 17 frames.
var lengths = map[string]int{
	"1x": 51, "2x": 102, "4x": 204, "8x": 408, "16x": 816,
	"2s": 51, "4s": 102, "8s": 204, "16s": 408, "32s": 816,
}

var errLength = errors.New(`give a whole number, or one of "2s", "4s", "8s", "16s", "32s"`)

// FramesByName returns the number of frames of a named length, such as 102 for "4s". For an unknown name the error lists the
// known ones.
func FramesByName(length string) (int, error) {
	if n, ok := lengths[length]; ok {
		return n, nil
	}
	return 0, errLength
}
