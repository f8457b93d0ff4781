package flow

const channels = 3

// Padded returns the length of a side, rounded up to a multiple.
func Padded(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

// Pad returns an image rgb (height, width, 3) as numbers from 0 to 255, with its edges repeated until both sides are multiples.
// Half of the padding is above and on the left, as in RAFT's InputPadder.
func Pad(rgb []byte, height, width, multiple int) []float32 {
	rows, columns := Padded(height, multiple), Padded(width, multiple)
	out := make([]float32, rows*columns*channels)
	top, left := (rows-height)/2, (columns-width)/2
	for y := range rows {
		line := rgb[min(max(y-top, 0), height-1)*width*channels:]
		for x := range columns {
			from := line[min(max(x-left, 0), width-1)*channels:]
			for c := range channels {
				out[(y*columns+x)*channels+c] = float32(from[c])
			}
		}
	}
	return out
}
