package condition

import (
	"fmt"
	"strconv"
	"strings"
)

// Piece is one group of a mask strategy: latent frames of a reference that are put into a clip. Negative positions count from
// the end.
type Piece struct {
	Loop      int // clip number
	Reference int // index among the row's references
	From, To  int // first latent frame in the reference and in the clip
	Length    int // latent frames
	// Edit is how much the frames change: 0 keeps them, 1 makes them from noise.
	Edit float64
}

// Limits of a mask strategy.
const (
	maxPieces = 1024
	maxFrames = 1 << 20
)

// Parse parses a mask strategy: groups of up to six values "loop,reference,from,to,length,edit", separated by ";". Missing
// values are 0, and a missing length is 1. "" has no groups.
func Parse(strategy string) ([]Piece, error) {
	if strategy == "" {
		return nil, nil
	}
	groups := strings.Split(strategy, ";")
	if len(groups) > maxPieces {
		return nil, fmt.Errorf("mask_strategy has %d groups, more than %d", len(groups), maxPieces)
	}
	var pieces []Piece
	for _, group := range groups {
		p, err := parseGroup(group)
		if err != nil {
			return nil, fmt.Errorf("mask_strategy: group %q %w; write loop,reference,from,to,length,edit, "+
				"such as 0,0,0,0,1,0", group, err)
		}
		pieces = append(pieces, p)
	}
	return pieces, nil
}

func parseGroup(group string) (Piece, error) {
	p := Piece{Length: 1}
	whole := []*int{&p.Loop, &p.Reference, &p.From, &p.To, &p.Length}
	values := strings.Split(group, ",")
	if len(values) > len(whole)+1 {
		return p, fmt.Errorf("has %d values, more than 6", len(values))
	}
	for i, v := range values {
		v = strings.TrimSpace(v)
		if i == len(whole) {
			edit, err := strconv.ParseFloat(v, 64)
			if err != nil || !(edit >= 0 && edit <= 1) {
				return p, fmt.Errorf("ends in %q, which is not a part from 0 to 1", v)
			}
			p.Edit = edit
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n > maxFrames || n < -maxFrames {
			return p, fmt.Errorf("has %q, which is not a whole number", v)
		}
		*whole[i] = n
	}
	if p.Loop < 0 || p.Reference < 0 || p.Length < 0 {
		return p, fmt.Errorf("has a negative loop, reference or length")
	}
	return p, nil
}

// Continue returns the strategy with one more group: clip number loop starts with the last length latent frames of reference n,
// with the edit ratio edit.
func Continue(strategy string, loop, n, length int, edit float64) string {
	if strategy != "" {
		strategy += ";"
	}
	part := strconv.FormatFloat(edit, 'g', -1, 64)
	return strategy + fmt.Sprintf("%d,%d,-%d,0,%d,%s", loop, n, length, length, part)
}
