package cpu

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
)

// TestZerosInFront: a convolution with padding in front of the video (ConvSpec.Front) gives the same bits as one over a video that begins with
// frames of zeros. Some numbers of channels fill the stages of a sum (see TestOrderOfAdditions), others do not.
func TestZerosInFront(t *testing.T) {
	const side, cout = 3, 70
	onTiers(t, func(t *testing.T, tier *tier) {
		for _, cin := range []int{1, 3, 16, 33, 96, 160, 192, 320, 384, 512} {
			if tier == portable && cin > 33 {
				continue
			}
			for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
				be := New(2)
				be.tier = tier
				w, bias := filled(be, dt, cout, cin, 3, 3, 3), filled(be, dt, cout)
				for front := 1; front <= 3; front++ {
					frames := max(1, 3-front)
					whole := be.Alloc(dt, 1, front+frames, side, side, cin)
					host := make([]float32, whole.Len())
					for i := front * side * side * cin; i < len(host); i++ {
						host[i] = float32(i%13)/7 - 0.6
					}
					be.Upload(whole, host)
					run := func(x kernels.Tensor, front int) []float32 {
						y := be.Alloc(dt, 1, front+x.Dim(1)-2, side, side, cout)
						be.Conv(y, x, w, kernels.ConvSpec{Bias: bias, Top: 1, Bottom: 1, Left: 1, Right: 1, Front: front})
						out := make([]float32, y.Len())
						if err := be.Download(out, y); err != nil {
							t.Fatal(err)
						}
						return out
					}
					sameBits(t, fmt.Sprint(cin, dt, front), run(whole.Narrow(1, front, frames), front), run(whole, 0))
				}
			}
		}
	})
}
