package h264

import "encoding/binary"

const (
	evenBytes = 0x00ff00ff00ff00ff
	lane256   = 0x0100010001000100
	lane1     = 0x0001000100010001
)

// absLanes returns |a-b| for each of four 16-bit lanes that hold a byte.
func absLanes(a, b uint64) uint64 {
	d := (a | lane256) - b   // 256 + a - b, never borrows from the next lane
	neg := ^(d >> 8) & lane1 // 1 where a < b
	mask := neg<<8 - neg     // 255 there
	return (d&evenBytes ^ mask) + neg
}

// sad16 returns the sum of absolute differences of two 16x16 blocks. It may stop early and return a partial sum that is at least limit.
func sad16(a []byte, aStride int, b []byte, bStride int, limit int) int {
	total := 0
	for y := 0; y < 16; y += 4 {
		lanes := uint64(0) // 16 differences of at most 255 a lane: below 2^16
		for i := y; i < y+4; i++ {
			p, q := a[i*aStride:][:16], b[i*bStride:][:16]
			p0, p1 := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
			q0, q1 := binary.LittleEndian.Uint64(q), binary.LittleEndian.Uint64(q[8:])
			lanes += absLanes(p0&evenBytes, q0&evenBytes) + absLanes(p0>>8&evenBytes, q0>>8&evenBytes)
			lanes += absLanes(p1&evenBytes, q1&evenBytes) + absLanes(p1>>8&evenBytes, q1>>8&evenBytes)
		}
		total += int(lanes&0xffff + lanes>>16&0xffff + lanes>>32&0xffff + lanes>>48)
		if total >= limit {
			return total
		}
	}
	return total
}

// sad8 returns the sum of absolute differences of two 8x8 blocks.
func sad8(a []byte, aStride int, b []byte, bStride int) int {
	lanes := uint64(0)
	for y := 0; y < 8; y++ {
		p, q := binary.LittleEndian.Uint64(a[y*aStride:]), binary.LittleEndian.Uint64(b[y*bStride:])
		lanes += absLanes(p&evenBytes, q&evenBytes) + absLanes(p>>8&evenBytes, q>>8&evenBytes)
	}
	return int(lanes&0xffff + lanes>>16&0xffff + lanes>>32&0xffff + lanes>>48)
}
