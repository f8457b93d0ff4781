package h264

import "math/bits"

// bitWriter collects an RBSP, most significant bit first.
type bitWriter struct {
	buf []byte
	acc uint64 // the low n bits are not yet in buf
	n   uint   // always below 8 between calls
}

// bits appends the low n bits of v, n at most 32.
func (w *bitWriter) bits(v uint32, n uint) {
	w.acc = w.acc<<n | uint64(v)
	w.n += n
	for w.n >= 8 {
		w.n -= 8
		w.buf = append(w.buf, byte(w.acc>>w.n))
	}
}

func (w *bitWriter) flag(set bool) {
	if set {
		w.bits(1, 1)
		return
	}
	w.bits(0, 1)
}

// ue appends an unsigned Exp-Golomb code (clause 9.1).
func (w *bitWriter) ue(v uint32) {
	n := uint(bits.Len32(v + 1))
	w.bits(0, n-1)
	w.bits(v+1, n)
}

// se appends a signed Exp-Golomb code (clause 9.1.1).
func (w *bitWriter) se(v int) {
	w.ue(signedCode(v))
}

// align appends zero bits up to the next byte.
func (w *bitWriter) align() {
	if w.n > 0 {
		w.bits(0, 8-w.n)
	}
}

// trailing appends rbsp_trailing_bits (clause 7.3.2.11).
func (w *bitWriter) trailing() {
	w.bits(1, 1)
	w.align()
}

// length returns the number of bits written so far.
func (w *bitWriter) length() int { return len(w.buf)*8 + int(w.n) }

// rewind removes everything that was written after mark was copied from the writer.
func (w *bitWriter) rewind(mark bitWriter) {
	w.buf, w.acc, w.n = w.buf[:len(mark.buf)], mark.acc, mark.n
}

func signedCode(v int) uint32 {
	if v > 0 {
		return uint32(2*v - 1)
	}
	return uint32(-2 * v)
}

// ueLen and seLen are the lengths in bits of the codes of ue and se.
func ueLen(v uint32) int { return 2*bits.Len32(v+1) - 1 }
func seLen(v int) int    { return ueLen(signedCode(v)) }

// nalUnit puts a one-byte header before an RBSP and escapes it (clause 7.4.1.1). There is no start code.
func nalUnit(header byte, rbsp []byte) []byte {
	out := make([]byte, 1, len(rbsp)+len(rbsp)/64+8)
	out[0] = header
	zeros := 0
	for _, b := range rbsp {
		if zeros >= 2 && b <= 3 {
			out = append(out, 3)
			zeros = 0
		}
		out = append(out, b)
		if b == 0 {
			zeros++
		} else {
			zeros = 0
		}
	}
	return out
}
