package main

import "fmt"

// amxShapes lists the kernels that are written: the number of tiles of 16 rows, and the largest number of tiles of 16 columns. Two
// by two tiles use all eight registers.
var amxShapes = map[int]int{1: 4, 2: 2}

// Tiles of sums come first, then those of A, then those of B (see tileConfigs in ../amx_amd64.go).
const amxA, amxB = 4, 5

// gemmAMX is the micro-kernel for AMX: pairs of bf16 added by TDPBF16PS.
func gemmAMX() *file {
	f := newFile("gemm_amx")
	f.goCode("\n// tileKernels are the kernels by rows of tiles and columns of tiles.")
	f.goCode("var tileKernels = [...][5]func(r *reduce, config *tileConfig, chunks, step, stride int){")
	for rows := 1; rows <= 2; rows++ {
		line := ""
		for columns := 1; columns <= amxShapes[rows]; columns++ {
			f.amx(rows, columns)
			line += fmt.Sprintf("%d: tiles%dx%d, ", columns, rows, columns)
		}
		f.goCode("\t%d: {%s},", rows, line[:len(line)-2])
	}
	f.goCode("}")
	f.peakAMX()
	return f
}

// amx writes the kernel for a number of tiles. In the loop AX and R9 point to the rows of tiles of A, and BX points to B.
func (f *file) amx(rows, columns int) {
	sum := func(i, j int) int { return 2*i + j }
	b := func(j int) int { return amxB + rows - 1 + j%(4-rows) }
	f.fn(fmt.Sprintf("tiles%dx%d", rows, columns), "r *reduce, config *tileConfig, chunks, step, stride int", 40,
		fmt.Sprintf("computes up to %d x %d sums: chunks of step bytes of a row of A, rows of B stride bytes apart.",
			16*rows, 16*columns))
	f.p("MOVQ config+8(FP), AX\n%s", loadTileConfig)
	f.p("MOVQ r+0(FP), DX\nMOVQ stride+32(FP), R12\nMOVQ step+24(FP), R13\nIMULQ R12, R13\nSHRQ $2, R13")
	f.p("MOVQ %d(DX), SI\nMOVQ %d(DX), DI\nMOVQ %d(DX), R10", argLdc, argC, argBlocks)
	f.p("MOVQ %d(DX), R11\nMOVQ %d(DX), BX\nMOVQ %d(DX), R8", argOffs, argB, argLda)
	f.p("MOVQ %d(DX), CX\nTESTQ CX, CX\nJZ clear", argAdd)
	f.sums(rows, columns, sum, tileLoad)
	f.p("JMP begin")
	f.at("clear")
	for i := range rows {
		for j := range columns {
			f.p("%s", tileZero(sum(i, j)))
		}
	}
	f.at("begin")
	f.p("MOVQ step+24(FP), DI")
	f.at("block")
	f.p("MOVQ %d(DX), AX\nADDQ (R11), AX\nADDQ $8, R11\nMOVQ chunks+16(FP), CX", argA)
	if rows == 2 {
		f.p("MOVQ R8, R9\nSHLQ $4, R9\nADDQ AX, R9")
	}
	f.at("loop")
	f.p("%s", tileLoad(amxA, regAX, regR8, 0))
	if rows == 2 {
		f.p("%s", tileLoad(amxA+1, regR9, regR8, 0))
	}
	for j := range columns {
		f.p("%s", tileLoad(b(j), regBX, regR12, 64*j))
		for i := range rows {
			f.p("%s", tdpbf16ps(sum(i, j), amxA+i, b(j)))
		}
	}
	f.p("ADDQ DI, AX\nADDQ R13, BX")
	if rows == 2 {
		f.p("ADDQ DI, R9")
	}
	f.p("DECQ CX\nJNZ loop\nDECQ R10\nJNZ block")
	f.p("MOVQ %d(DX), DI", argC)
	f.sums(rows, columns, sum, tileStore)
	f.p("%s\nRET", tileRelease)
}

// sums loads or stores all sums, at DI and above.
func (f *file) sums(rows, columns int, sum func(i, j int) int, move func(tile, base, index, offset int) string) {
	for i := range rows {
		if i > 0 {
			f.p("MOVQ SI, CX\nSHLQ $4, CX\nADDQ CX, DI")
		}
		for j := range columns {
			f.p("%s", move(sum(i, j), regDI, regSI, 64*j))
		}
	}
}

// peakAMX writes a loop that only multiplies tiles.
func (f *file) peakAMX() {
	f.fn("peakAMX", "config *tileConfig, n int", 16, "runs 4 independent products of tiles n times.")
	f.p("MOVQ config+0(FP), AX\n%s\nMOVQ n+8(FP), CX", loadTileConfig)
	for i := range 8 {
		f.p("%s", tileZero(i))
	}
	f.at("loop")
	for i := range 4 {
		f.p("%s", tdpbf16ps(i, amxA+i/2, 6+i%2))
	}
	f.p("DECQ CX\nJNZ loop\n%s\nRET", tileRelease)
}

// Numbers of registers in instructions.
const (
	regAX  = 0
	regBX  = 3
	regSI  = 6
	regDI  = 7
	regR8  = 8
	regR9  = 9
	regR12 = 12
)

// Mandatory prefixes of VEX.
const (
	prefixNone = iota
	prefix66
	prefixF3
	prefixF2
)

// vexOf returns the bytes of an instruction of map 0F38 with a VEX prefix of three bytes (Intel SDM volume 2, 2.3.5).
// base and index are registers of an address, 0 if there is none; source is the register in vvvv.
func vexOf(prefix, opcode, source, base, index int) []int {
	return []int{0xC4, 1<<7 | (1-index>>3)<<6 | (1-base>>3)<<5 | 2, (^source&15)<<3 | prefix, opcode}
}

func bytes(code []int, comment string) string {
	text := ""
	for _, b := range code {
		text += fmt.Sprintf("BYTE $0x%02x; ", b)
	}
	return text + "// " + comment
}

var (
	loadTileConfig = bytes(append(vexOf(prefixNone, 0x49, 0, regAX, 0), 0x00), "LDTILECFG (AX)")
	tileRelease    = bytes(append(vexOf(prefixNone, 0x49, 0, 0, 0), 0xC0), "TILERELEASE")
)

// tileMove is a load or a store. The rows of the tile start at base + offset and are index bytes apart.
func tileMove(prefix, tile, base, index, offset int) []int {
	return append(vexOf(prefix, 0x4B, 0, base, index), 0x80|tile<<3|4, index&7<<3|base&7,
		offset&0xFF, offset>>8&0xFF, 0, 0)
}

// tileLoad loads a tile.
func tileLoad(tile, base, index, offset int) string {
	return bytes(tileMove(prefixF2, tile, base, index, offset), fmt.Sprintf("TILELOADD %d(r%d)(r%d*1), TMM%d", offset, base, index, tile))
}

// tileStore stores a tile.
func tileStore(tile, base, index, offset int) string {
	return bytes(tileMove(prefixF3, tile, base, index, offset), fmt.Sprintf("TILESTORED TMM%d, %d(r%d)(r%d*1)", tile, offset, base, index))
}

// tileZero clears a tile.
func tileZero(tile int) string {
	return bytes(append(vexOf(prefixF2, 0x49, 0, 0, 0), 0xC0|tile<<3), fmt.Sprintf("TILEZERO TMM%d", tile))
}

// tdpbf16ps adds the products of the pairs of tiles a and b to tile sum.
func tdpbf16ps(sum, a, b int) string {
	return bytes(append(vexOf(prefixF3, 0x5C, b, 0, 0), 0xC0|sum<<3|a), fmt.Sprintf("TDPBF16PS TMM%d, TMM%d, TMM%d", b, a, sum))
}
