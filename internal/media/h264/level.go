package h264

// codecLevel is one row of table A-1, with the limits that this encoder could exceed.
type codecLevel struct {
	idc           int
	maxRate       int // macroblocks a second (MaxMBPS)
	maxSize       int // macroblocks a picture (MaxFS)
	maxVectorY    int // samples (MaxVmvR)
	maxBitsPerSec int // MaxBR in bits of the NAL stream: 1200 for each kbit/s of the table (table A-2)
}

const nalBitsPerUnit = 1200

var levelTable = []codecLevel{
	{10, 1485, 99, 64, 64 * nalBitsPerUnit},
	{11, 3000, 396, 128, 192 * nalBitsPerUnit},
	{12, 6000, 396, 128, 384 * nalBitsPerUnit},
	{13, 11880, 396, 128, 768 * nalBitsPerUnit},
	{20, 11880, 396, 128, 2000 * nalBitsPerUnit},
	{21, 19800, 792, 256, 4000 * nalBitsPerUnit},
	{22, 20250, 1620, 256, 4000 * nalBitsPerUnit},
	{30, 40500, 1620, 256, 10000 * nalBitsPerUnit},
	{31, 108000, 3600, 512, 14000 * nalBitsPerUnit},
	{32, 216000, 5120, 512, 20000 * nalBitsPerUnit},
	{40, 245760, 8192, 512, 20000 * nalBitsPerUnit},
	{41, 245760, 8192, 512, 50000 * nalBitsPerUnit},
	{42, 522240, 8704, 512, 50000 * nalBitsPerUnit},
	{50, 589824, 22080, 512, 135000 * nalBitsPerUnit},
	{51, 983040, 36864, 512, 240000 * nalBitsPerUnit},
	{52, 2073600, 36864, 512, 240000 * nalBitsPerUnit},
}

// fits reports whether pictures of this size and rate may use the level. Beside their number, the
// macroblocks of a row and of a column are limited (clause A.3.1 f and g).
func (l *codecLevel) fits(mbWidth, mbHeight int, c Config) bool {
	mbs := mbWidth * mbHeight
	side := max(mbWidth, mbHeight)
	rate := (int64(mbs)*int64(c.FPSNum) + int64(c.FPSDen) - 1) / int64(c.FPSDen)
	return mbs <= l.maxSize && side*side <= 8*l.maxSize && rate <= int64(l.maxRate)
}

// level returns the lowest level for pictures of this size and rate with a stream of bitsPerSec. Streams that are faster than
// any level get the highest one, because decoders of files need not work in real time.
func (c Config) level(bitsPerSec int) codecLevel {
	w, h := c.macroblocks()
	for _, l := range levelTable {
		if l.fits(w, h, c) && bitsPerSec <= l.maxBitsPerSec {
			return l
		}
	}
	return levelTable[len(levelTable)-1]
}
