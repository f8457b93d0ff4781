package score

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"latentbeam/internal/media/resize"
)

const (
	hashSide  = 32 // pixels of the small image, in height and width
	hashLow   = 8  // number of low frequencies, in height and width
	hashScale = 1024
)

// hash is the perceptual hash of the first, the middle and the last frame: 64 bits for each frame, as in ImageHash's phash.
// Frequencies are rounded to 1/1024 before they are compared, so that the hash of flat frames does not depend on rounding
// errors.
type hash struct {
	frames, at int
	words      []string
}

func (h *hash) add(f frame) {
	for _, i := range []int{0, h.frames / 2, h.frames - 1} {
		if h.at == i {
			h.words = append(h.words, fmt.Sprintf("%016x", hashOf(f)))
		}
	}
	h.at++
}

func (h *hash) read(into map[string]string) { into[Hash] = strings.Join(h.words, "-") }

// hashOf returns the hash of one frame.
func hashOf(f frame) (bits uint64) {
	low := lowest(small(f))
	sorted := slices.Clone(low[:])
	slices.Sort(sorted)
	middle := sorted[len(sorted)/2-1] + sorted[len(sorted)/2] // twice the median
	for _, v := range low {
		bits <<= 1
		if 2*v > middle {
			bits |= 1
		}
	}
	return bits
}

// small returns the frame in grey, resized to hashSide x hashSide with Pillow's Lanczos filter.
func small(f frame) (out [hashSide * hashSide]byte) {
	r, err := resize.New(resize.Lanczos, resize.Size{Width: f.width, Height: f.height}, resize.Size{Width: hashSide, Height: hashSide},
		resize.Rect{Width: hashSide, Height: hashSide})
	if err != nil {
		panic(err) // the media were opened with valid sizes
	}
	from, to := make([]byte, 3*len(f.grey)), make([]byte, 3*len(out))
	for i, v := range f.grey {
		from[3*i], from[3*i+1], from[3*i+2] = v, v, v
	}
	r.Resize(to, from)
	for i := range out {
		out[i] = to[3*i]
	}
	return out
}

// waves are 2 cos(pi k (2 n + 1) / 64): the discrete cosine transform of type II.
var waves = func() (table [hashLow][hashSide]float64) {
	for k := range table {
		for n := range table[k] {
			table[k][n] = 2 * math.Cos(math.Pi*float64(k*(2*n+1))/(2*hashSide))
		}
	}
	return table
}()

// lowest returns the lowest frequencies of an image in units of 1/1024, row by row.
func lowest(image [hashSide * hashSide]byte) (low [hashLow * hashLow]int64) {
	var columns [hashLow][hashSide]float64 // transformed along the rows
	for k := range hashLow {
		for y := range hashSide {
			for x := range hashSide {
				columns[k][x] += float64(waves[k][y] * float64(image[y*hashSide+x]))
			}
		}
	}
	for k := range hashLow {
		for l := range hashLow {
			sum := 0.0
			for x, v := range columns[k] {
				sum += float64(waves[l][x] * v)
			}
			low[k*hashLow+l] = int64(math.Round(sum * hashScale))
		}
	}
	return low
}
