package cpu

import "unsafe"

// attentionRoutines holds a tier's attention routines other than its micro-kernels.
type attentionRoutines struct {
	softmax [dots]func(*softmax)
	// softmaxUnit is the factor that the softmax expects on its scale: log2 e if the softmax uses powers of 2.
	softmaxUnit float32
	scaleRows   [dots]scaleFunc // to fp32, and with dotBF16 to bf16
	copyRows    copyFunc
	short       *shortRoutines // attention over few keys; nil: use the general routines
}

// attentionGo belongs to the portable tier.
var attentionGo = attentionRoutines{
	softmax: [dots]func(*softmax){softmaxGo}, softmaxUnit: 1,
	scaleRows: [dots]scaleFunc{scaleRowsGo}, copyRows: copyRowsGo,
}

// scaleFunc multiplies each row of fp32 by its own factor.
type scaleFunc func(
	dst, src unsafe.Pointer, dstStride, srcStride int, factors unsafe.Pointer, rows, columns int,
)

// scaleRowsGo is the portable scaleFunc.
func scaleRowsGo(
	dst, src unsafe.Pointer, dstStride, srcStride int, factors unsafe.Pointer, rows, columns int,
) {
	for i, x := range unsafe.Slice((*float32)(factors), rows) {
		to := unsafe.Slice((*float32)(unsafe.Add(dst, i*dstStride)), columns)
		for j, y := range unsafe.Slice((*float32)(unsafe.Add(src, i*srcStride)), columns) {
			to[j] = float32(y * x)
		}
	}
}

// copyFunc copies rows of bytes and fills the last 64 bytes of each row up with zeros.
type copyFunc func(dst, src unsafe.Pointer, dstStride, srcStride, rows, bytes int)

// copyRowsGo is the portable copyFunc.
func copyRowsGo(dst, src unsafe.Pointer, dstStride, srcStride, rows, bytes int) {
	whole := (bytes + lineSize - 1) / lineSize * lineSize
	for i := range rows {
		to := unsafe.Slice((*byte)(unsafe.Add(dst, i*dstStride)), whole)
		clear(to[copy(to, unsafe.Slice((*byte)(unsafe.Add(src, i*srcStride)), bytes)):])
	}
}
