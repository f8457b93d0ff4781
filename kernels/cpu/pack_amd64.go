package cpu

import "unsafe"

// packFunc packs up to 16 columns (AVX-512), or blocks of 8 terms of up to 8 columns (AVX2).
type packFunc func(dst, src unsafe.Pointer, stride, columns, k, step int)

var (
	packNK512 = [forms]packFunc{formF32: packNK512F32, formBF16: packNK512BF16, formF16: packNK512F16,
		formPairs: packNK512Pairs}
	packKN512 = [forms]packFunc{formF32: packKN512F32, formBF16: packKN512BF16, formF16: packKN512F16,
		formPairs: packKN512Pairs}
	packNK256 = [forms]packFunc{formF32: packNK256F32, formBF16: packNK256BF16, formF16: packNK256F16}
	packKN256 = [forms]func(dst, src unsafe.Pointer, stride, k, step int){
		formF32: packKN256F32, formBF16: packKN256BF16, formF16: packKN256F16}
)

// packTermsMax limits one call of assembly to about 10 us, because it cannot be preempted.
const packTermsMax = 4096

// packers512 packs for AVX-512; masks handle the remainders.
var packers512 = packers{
	nk: func(f form, dst, src unsafe.Pointer, stride, width, cols, k int) {
		packGroups(packNK512[f], f, dst, src, stride, stride, f.bytes(), width, cols, k)
	},
	kn: func(f form, dst, src unsafe.Pointer, stride, width, cols, k int) {
		packGroups(packKN512[f], f, dst, src, stride, f.bytes(), stride, width, cols, k)
	},
}

// packGroups packs 16 columns at a time. The distance of columns is column bytes, of their elements element bytes.
func packGroups(
	pack packFunc, f form, dst, src unsafe.Pointer, stride, column, element, width, cols, k int,
) {
	perTerm := 1
	if f == formPairs {
		perTerm = 2
	}
	for k0 := 0; k0 < k; k0 += packTermsMax {
		n := min(packTermsMax, k-k0)
		to, from := unsafe.Add(dst, k0/perTerm*width*4), unsafe.Add(src, k0*element)
		for g := 0; g < cols; g += 16 {
			pack(unsafe.Add(to, g*4), unsafe.Add(from, g*column), stride, min(16, cols-g), n, width*4)
		}
	}
}

// packers256 packs for AVX2 in blocks of 8, and the remainder in Go.
var packers256 = packers{
	nk: func(f form, dst, src unsafe.Pointer, stride, width, cols, k int) {
		whole := k / 8 * 8
		for g := 0; g < cols; g += 8 {
			to, from := unsafe.Add(dst, g*4), unsafe.Add(src, g*stride)
			packNK256[f](to, from, stride, min(8, cols-g), whole/8, width*4)
		}
		if whole < k {
			packNKGo(f, unsafe.Add(dst, whole*width*4), unsafe.Add(src, whole*f.bytes()), stride, width, cols, k-whole)
		}
	},
	kn: func(f form, dst, src unsafe.Pointer, stride, width, cols, k int) {
		if cols < width {
			packKNGo(f, dst, src, stride, width, cols, k)
			return
		}
		for g := 0; g < cols; g += 8 {
			packKN256[f](unsafe.Add(dst, g*4), unsafe.Add(src, g*f.bytes()), stride, k, width*4)
		}
	},
}
