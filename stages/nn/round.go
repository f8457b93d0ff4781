package nn

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"

	"latentbeam/kernels"
)

// Round returns x rounded to dt: to the nearest value, ties to even.
func Round(dt kernels.DType, x float32) float32 {
	switch dt {
	case kernels.BF16:
		return kernels.FromBF16(kernels.ToBF16(x))
	case kernels.F16:
		return kernels.FromF16(kernels.ToF16(x))
	}
	return x
}

// roundBlock is how many elements one goroutine converts at a time.
const roundBlock = 1 << 20

// round returns little-endian data of type from as the two-byte type to. The tensors of a model are
// gigabytes, so blocks are converted side by side.
func round(data []byte, from, to kernels.DType) []byte {
	n := len(data) / from.Size()
	out := make([]byte, n*to.Size())
	narrow := kernels.ToBF16
	if to == kernels.F16 {
		narrow = kernels.ToF16
	}
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for start := 0; start < n; start += roundBlock {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			for i := start; i < min(start+roundBlock, n); i++ {
				binary.LittleEndian.PutUint16(out[2*i:], narrow(element(data, from, i)))
			}
		})
	}
	wg.Wait()
	return out
}

// decode returns little-endian data as fp32.
func decode(data []byte, from kernels.DType) []float32 {
	out := make([]float32, len(data)/from.Size())
	for i := range out {
		out[i] = element(data, from, i)
	}
	return out
}

// element returns element i of little-endian data.
func element(data []byte, dt kernels.DType, i int) float32 {
	switch dt {
	case kernels.BF16:
		return kernels.FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
	case kernels.F16:
		return kernels.FromF16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}
