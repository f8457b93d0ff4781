package media

import (
	"math"
	"testing"

	"latentbeam/schemas"
)

// TestSeconds: a clip costs what its file has to decode, from the last keyframe before it on, and not only its own pixels.
func TestSeconds(t *testing.T) {
	file := StreamInfo{Width: 1280, Height: 720, perFrame: 3, Keys: []Keyframe{{0, 0}, {50, 5e6}}, price: piping}
	const pixels, size = 64 * 64, 1280 * 720
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g s, want %g", what, got, want)
		}
	}
	first := file.Seconds(schemas.Cut{Count: 10}, pixels)
	near("the first clip", first, piping.open+10*size*(3*piping.decoded+piping.read)+10*pixels*interpolated)
	near("10 frames behind a keyframe", file.Seconds(schemas.Cut{Start: 60, Count: 10}, pixels), first+10*size*3*piping.decoded)
	near("with a filter", file.Seconds(schemas.Cut{Count: 10, Filter: "area"}, pixels),
		first+10*(pixels*(filtered-interpolated)+size*filteredSource))
	still := StreamInfo{Width: 1280, Height: 720, Still: true, price: stills}
	near("an image as ten frames", still.Seconds(schemas.Cut{Count: 10}, pixels), size*(stills.decoded+filteredSource)+pixels*filtered)
}
