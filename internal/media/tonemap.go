package media

import (
	"math"
	"sync"
)

// toneMapper converts frames with high dynamic range to standard colours. It decodes PQ or HLG (ITU-R BT.2100) to light,
// converts the primaries from BT.2020 to BT.709, compresses the light with Hable's curve and encodes it with the inverse of
// BT.1886. ffmpeg's filters zscale=t=linear:npl=100, zscale=p=bt709, tonemap=hable:desat=0:peak=10 and zscale=t=bt709 compute
// the same, but depend on metadata and processors. Here every product is rounded, so that no processor fuses it with a sum.
type toneMapper struct {
	light []float32 // light for a signal in 1/65535; 1 is 100 cd/m2; for HLG the light of the scene, 0 to 1
	gain  []float32 // for HLG, by luminance
	bytes []byte
	hlg   bool
}

// brightest is the brightest displayed light, in units of 100 cd/m2.
const brightest = 10

// levels16 is the number of values in a table of signals or light.
const levels16 = 1 << 16

// levels20 is the number of values in the table of bytes. Dark light needs many.
const levels20 = 1 << 20

// toneMappers has the toneMappers for PQ and HLG.
var toneMappers = map[string]func() *toneMapper{
	PQ:  sync.OnceValue(func() *toneMapper { return newToneMapper(PQ) }),
	HLG: sync.OnceValue(func() *toneMapper { return newToneMapper(HLG) }),
}

func newToneMapper(transfer string) *toneMapper {
	m := &toneMapper{light: make([]float32, levels16), gain: hlgGain(), bytes: encoded709(), hlg: transfer == HLG}
	for i := range m.light {
		signal := float64(i) / (levels16 - 1)
		if m.hlg {
			m.light[i] = float32(hlgScene(signal))
		} else {
			m.light[i] = float32(100 * pqLight(signal)) // 1 is 10,000 cd/m2
		}
	}
	return m
}

// pqLight applies PQ's EOTF (BT.2100, table 4) to a signal from 0 to 1.
func pqLight(signal float64) float64 {
	const m1, m2, c1, c2, c3 = 2610.0 / 16384, 2523.0 / 4096 * 128, 3424.0 / 4096, 2413.0 / 4096 * 32, 2392.0 / 4096 * 32
	p := math.Pow(signal, 1/m2)
	return math.Pow(max(p-c1, 0)/(c2-c3*p), 1/m1)
}

// hlgScene applies HLG's inverse OETF (BT.2100, table 5) to a signal from 0 to 1.
func hlgScene(signal float64) float64 {
	const a, b, c = 0.17883277, 0.28466892, 0.55991073
	if signal <= 0.5 {
		return signal * signal / 3
	}
	return (math.Exp((signal-c)/a) + b) / 12
}

// hlgGain is the factor for the light of an HLG pixel on a display of 1,000 cd/m2: its scene luminance to the power 0.2.
var hlgGain = sync.OnceValue(func() []float32 {
	table := make([]float32, levels16)
	for i := range table {
		table[i] = float32(brightest * math.Pow(float64(i)/(levels16-1), 0.2))
	}
	return table
})

// encoded709 has the bytes for light from 0 to 1.
var encoded709 = sync.OnceValue(func() []byte {
	table := make([]byte, levels20)
	for i := range table {
		table[i] = byte(math.Round(255 * math.Pow(float64(i)/(levels20-1), 1/2.4)))
	}
	return table
})

// tableIndex returns the index for a value from 0 to 1 in a table with n values.
func tableIndex(v float32, n int) int {
	return int(float32(min(max(v, 0), 1)*float32(n-1)) + 0.5)
}

func at16(v float32) int { return tableIndex(v, levels16) }

// hable applies the curve of Uncharted 2, as in ffmpeg.
func hable(v float32) float32 {
	const a, b, c, d, e, f = 0.15, 0.50, 0.10, 0.20, 0.02, 0.30
	return float32(float32(v*(float32(v*a)+b*c))+d*e)/float32(float32(v*(float32(v*a)+b))+d*f) - e/f
}

// pixel converts a limited-range YCbCr pixel of BT.2020 in 16 bits to BT.709 bytes.
func (m *toneMapper) pixel(rgb []byte, luma, cb, cr uint16) {
	const scaleY, scaleC = 219 << 8, 224 << 8
	y := float32(int(luma)-16<<8) / scaleY
	u, v := float32(int(cb)-128<<8)/scaleC, float32(int(cr)-128<<8)/scaleC
	r := m.light[at16(y+float32(1.4746*v))]
	g := m.light[at16(y-float32(0.16455313*u)-float32(0.57135313*v))]
	b := m.light[at16(y+float32(1.8814*u))]
	if m.hlg {
		gain := m.gain[at16(float32(0.2627*r)+float32(0.6780*g)+float32(0.0593*b))]
		r, g, b = r*gain, g*gain, b*gain
	}
	r, g, b = float32(1.660491*r)-float32(0.587641*g)-float32(0.072850*b), // BT.2087
		float32(1.132900*g)-float32(0.124550*r)-float32(0.008349*b),
		float32(1.118730*b)-float32(0.018151*r)-float32(0.100579*g)
	most := max(r, g, b, 1e-6)
	scale := hable(most) / float32(hable(brightest)*most)
	for i, light := range [3]float32{r, g, b} {
		rgb[i] = m.bytes[tableIndex(light*scale, levels20)]
	}
}
