package h264

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Stream is an encoded clip: parameter sets and one NAL unit for each picture, all without start codes or
// length prefixes.
type Stream struct {
	SPS, PPS []byte
	Samples  [][]byte
	Key      []bool // Key[i]: sample i is an IDR picture
}

// Encode encodes n pictures. It calls read(i, dst) once for each picture, which must fill dst, and then show(i, shown) with the
// picture that a decoder will show. Both are called concurrently for different i. The pictures belong to the encoder and are
// valid only during the call. show may be nil.
//
// It returns ctx's error if ctx ends first, and an error if read or show panics.
func Encode(ctx context.Context, c Config, n int, read, show func(i int, p *Picture)) (*Stream, error) {
	c, err := c.Check()
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("h264: %d pictures: nothing to encode", n)
	}
	job := job{
		Config: c, read: read, show: show,
		stream: &Stream{Samples: make([][]byte, n), Key: make([]bool, n)},
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gops := (n + c.GOP - 1) / c.GOP
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), gops) {
		workers.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					cancel(fmt.Errorf("panic: %v", r))
				}
			}()
			e, p := newEncoder(c), NewPicture(c.Width, c.Height)
			for g := int(next.Add(1) - 1); g < gops; g = int(next.Add(1) - 1) {
				job.encodeGOP(ctx, e, p, g)
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("h264: encode %d pictures of %dx%d: %w", n, c.Width, c.Height, err)
	}
	s := job.stream
	s.SPS = sequenceParams(c, c.level(peakBitsPerSecond(c, s.Samples)).idc)
	s.PPS = pictureParams()
	return s, nil
}

// job is shared by the workers of one Encode. Each writes other samples.
type job struct {
	Config
	read, show func(i int, p *Picture)
	stream     *Stream
}

// encodeGOP encodes the pictures of GOP g until ctx ends; p is scratch.
func (j *job) encodeGOP(ctx context.Context, e *encoder, p *Picture, g int) {
	first := g * j.GOP
	for i := first; i < min(len(j.stream.Samples), first+j.GOP) && ctx.Err() == nil; i++ {
		j.read(i, p)
		e.src.load(p)
		j.stream.Samples[i] = e.encode(i-first, g)
		j.stream.Key[i] = i == first
		if j.show != nil {
			e.ref.store(p)
			j.show(i, p)
		}
	}
}

// sampleOverhead is the size of a start code, which a sample needs in a byte stream besides its NAL unit.
const sampleOverhead = 4

// peakBitsPerSecond returns the largest number of bits in the pictures of one second.
func peakBitsPerSecond(c Config, samples [][]byte) int {
	window := max(1, int(c.FPSNum/c.FPSDen))
	bits, peak := 0, 0
	for i, s := range samples {
		bits += 8 * (len(s) + sampleOverhead)
		if i >= window {
			bits -= 8 * (len(samples[i-window]) + sampleOverhead)
		}
		peak = max(peak, bits)
	}
	return peak
}
