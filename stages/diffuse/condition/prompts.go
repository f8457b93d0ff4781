package condition

import (
	"fmt"
	"strconv"
	"strings"
)

// Segment is a prompt that is used from a clip of a video on.
type Segment struct {
	Loop int
	Text string
}

// Segments parses the prompt of a video of several clips, such as "|0|a sunny day|3|a rainy day". Each text is used from its
// clip on. A prompt that does not start with "|0|" is one text for all clips.
func Segments(prompt string) ([]Segment, error) {
	rest, ok := strings.CutPrefix(prompt, "|0|")
	if !ok {
		return []Segment{{0, prompt}}, nil
	}
	parts := strings.Split(rest, "|")
	segments := []Segment{{0, strings.TrimSpace(parts[0])}}
	for i := 1; i < len(parts); i += 2 {
		loop, err := strconv.Atoi(strings.TrimSpace(parts[i]))
		last := segments[len(segments)-1].Loop
		if err != nil || loop <= last || i+1 == len(parts) {
			return nil, fmt.Errorf("prompt: %q after %q does not begin another clip: "+
				"write |0|one text|3|another, with growing numbers", parts[i], segments[len(segments)-1].Text)
		}
		segments = append(segments, Segment{loop, strings.TrimSpace(parts[i+1])})
	}
	return segments, nil
}
