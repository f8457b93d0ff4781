package measure

import "math"

// named is a colour of the world.
type named struct {
	name string
	rgb  [3]uint8
}

// colors and backgrounds are those of testdata/tiny/train/README.md.
var (
	colors = []named{
		{"red", [3]uint8{225, 40, 40}},
		{"orange", [3]uint8{245, 130, 20}},
		{"yellow", [3]uint8{245, 220, 40}},
		{"green", [3]uint8{30, 160, 54}},
		{"blue", [3]uint8{40, 82, 230}},
		{"purple", [3]uint8{170, 50, 210}},
	}
	backgrounds = []named{
		{"black", [3]uint8{10, 10, 10}},
		{"grey", [3]uint8{128, 128, 128}},
		{"white", [3]uint8{245, 245, 245}},
	}
)

// maxColorDistance is how far a colour may be from its name in CIELAB. The closest two names, blue and
// purple, are 36 apart; decoders and compression move a colour by 10 to 20.
const maxColorDistance = 30

func nameColor(rgb [3]uint8) (string, float64) {
	name, d := nearest(colors, rgb)
	if d > maxColorDistance {
		return Unknown, d
	}
	return name, d
}

func nameBackground(rgb [3]uint8) string {
	name, d := nearest(backgrounds, rgb)
	if d > maxGreyDistance {
		return Unknown
	}
	return name
}

// nearest finds the name by the distance in CIELAB (CIE76).
func nearest(list []named, rgb [3]uint8) (name string, distance float64) {
	p := toLab(rgb)
	distance = math.Inf(1)
	for _, n := range list {
		q := toLab(n.rgb)
		d := math.Sqrt((p[0]-q[0])*(p[0]-q[0]) + (p[1]-q[1])*(p[1]-q[1]) + (p[2]-q[2])*(p[2]-q[2]))
		if d < distance {
			name, distance = n.name, d
		}
	}
	return name, distance
}

// toLab converts sRGB to CIELAB under D65 (IEC 61966-2-1, CIE 15).
func toLab(rgb [3]uint8) [3]float64 {
	var lin [3]float64
	for k, v := range rgb {
		if c := float64(v) / 255; c <= 0.04045 {
			lin[k] = c / 12.92
		} else {
			lin[k] = math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	x := (0.4124*lin[0] + 0.3576*lin[1] + 0.1805*lin[2]) / 0.95047
	y := 0.2126*lin[0] + 0.7152*lin[1] + 0.0722*lin[2]
	z := (0.0193*lin[0] + 0.1192*lin[1] + 0.9505*lin[2]) / 1.08883
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	return [3]float64{116*f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))}
}
