package condition

import "testing"

// FuzzStrategy: no text in a column makes the readers of mask strategies and of prompts of several clips panic. What is
// read is within the limits.
func FuzzStrategy(f *testing.F) {
	for _, text := range []string{"", "0", "0,0,0,0,1,0", "0,0,-1,0,8,0.5;1,1,2,3", ";", "|0|a|3|b", "|0|", "1e9,0,0,0,1,nan"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pieces, err := Parse(text)
		if err == nil && len(pieces) > maxPieces {
			t.Fatalf("%d pieces", len(pieces))
		}
		for _, p := range pieces {
			if p.Length > maxFrames || p.Loop < 0 || p.Reference < 0 || !(p.Edit >= 0) {
				t.Fatalf("%q gives %+v", text, p)
			}
		}
		segments, err := Segments(text)
		for i := 1; err == nil && i < len(segments); i++ {
			if segments[i].Loop <= segments[i-1].Loop {
				t.Fatalf("%q gives %+v", text, segments)
			}
		}
	})
}
