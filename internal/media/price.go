package media

import "latentbeam/schemas"

// price is the time of one processor for reading frames, in seconds. Measured on an AMD EPYC (AVX-512) with frames of 1280x720;
// with ffmpeg 5.1, H.264 of its test source.
type price struct {
	open    float64 // until the first frame: programs that start
	decoded float64 // for each pixel that is decoded
	read    float64 // for each pixel of the frames that are used: colours, pipes
}

var (
	piping = &price{open: 0.11, decoded: 2.8e-9, read: 10.4e-9} // by ffmpeg
	planes = &price{read: 7.1e-9}                               // y4m
	pngs   = &price{decoded: 22e-9}
	stills = &price{decoded: 13e-9} // other images
)

// The time of one processor for resizing: for each pixel of a resized frame, and with a filter for each pixel of the file's frame too.
const (
	interpolated   = 12e-9
	filtered       = 15e-9
	filteredSource = 6.5e-9
)

// priceOf returns the price of a file. A folder, whose Look is empty, counts as one of png.
func priceOf(l Look) *price {
	switch {
	case l.byFFmpeg():
		return piping
	case l.format == y4mFormat:
		return planes
	case l.format == pngFormat || l.format == "":
		return pngs
	}
	return stills
}

// Seconds estimates the processor time for reading the frames of a cut, each resized to a number of pixels.
func (f StreamInfo) Seconds(c schemas.Cut, pixels int) float64 {
	if f.price == nil {
		return 0
	}
	count := float64(c.Count)
	if f.Still {
		count = 1
	}
	decoded := count
	if f.price == piping { // and the frames before and between them
		decoded = float64(c.Start+c.Count-f.seek(c.Start).Frame) * f.perFrame
	}
	size := float64(f.Width * f.Height)
	fit := interpolated * float64(pixels)
	if c.Filter != "" || f.Still {
		fit = filtered*float64(pixels) + filteredSource*size
	}
	return f.price.open + decoded*size*f.price.decoded + count*(size*f.price.read+fit)
}
