package sentencepiece

import (
	"slices"
	"unicode/utf8"
)

// bestWay is the best known path to a position of the text: its score and its last piece.
type bestWay struct {
	score  float32
	id     int32
	length int32 // of the last piece, in bytes; 0 if no path is known yet
}

// Encode splits s into the most likely pieces and returns their ids, without start and end tokens. Bytes that are not UTF-8
// count as U+FFFD. Time and memory are linear in len(s).
func (m *Model) Encode(s string) []int32 {
	text := m.normalize(s)
	if text == "" {
		return nil
	}
	return m.backtrack(text, m.bestPath(text))
}

// resetThreshold is the largest score of a path. When a score is larger, the library subtracts it from all open paths, so that
// long texts are scored as precisely as short ones.
const resetThreshold = 100000

// bestPath is the Viterbi search: it finds the best last piece for every position of text. Equal scores are common ("..." as
// ".." and "."), so the precision of the sums decides ids. All sums are float32, as in release 0.2.3 of the library. Releases
// up to 0.2.0 compared sums in double, which decides some of these ties differently.
func (m *Model) bestPath(text string) []bestWay {
	best := make([]bestWay, len(text)+1)
	frontier := 0 // the furthest position reached
	for start := 0; start < len(text); {
		_, char := utf8.DecodeRuneInString(text[start:])
		if score := best[start].score; score < -resetThreshold || score > resetThreshold {
			rebase(best[start:frontier+1], score)
		}
		score := best[start].score
		covered := false
		for node, end := int32(0), start; end < len(text); {
			if node = m.ids.child(node, text[end]); node == 0 {
				break
			}
			end++
			id := m.ids.value[node]
			if id < 0 || m.pieces[id].kind == unused {
				continue
			}
			frontier = max(frontier, end)
			length := end - start
			best[end].offer(score+m.pieceScore(id, length), id, length)
			covered = covered || length == char
		}
		if !covered {
			frontier = max(frontier, start+char)
			best[start+char].offer(score+m.unknownScore, m.unk, char)
		}
		start += char
	}
	return best
}

// offer replaces the best path if the new piece has a better score. Of equal scores the first stays.
func (s *bestWay) offer(score float32, id int32, length int) {
	if s.length == 0 || score > s.score {
		*s = bestWay{score, id, int32(length)}
	}
}

// rebase subtracts offset from the scores of all positions that are reached.
func rebase(open []bestWay, offset float32) {
	for i := range open {
		if i == 0 || open[i].length > 0 {
			open[i].score -= offset
		}
	}
}

// pieceScore returns a piece's log probability. A user-defined symbol has a score above zero that grows with its length, so
// that it wins over any other split.
func (m *Model) pieceScore(id int32, length int) float32 {
	p := &m.pieces[id]
	if p.kind == userDefined {
		return float32(0.1 * float64(length-1))
	}
	return p.score
}

// backtrack reads the pieces of the best path from the end of text. Adjacent unknown characters become one id, or with byte
// fallback the ids of their bytes.
func (m *Model) backtrack(text string, best []bestWay) []int32 {
	var ids []int32
	for end := len(text); end > 0; {
		s := best[end]
		start := end - int(s.length)
		switch {
		case s.id == m.unk && m.bytes != nil:
			for i := end - 1; i >= start; i-- {
				ids = append(ids, m.bytes[text[i]])
			}
		case s.id == m.unk && len(ids) > 0 && ids[len(ids)-1] == m.unk:
		default:
			ids = append(ids, s.id)
		}
		end = start
	}
	slices.Reverse(ids)
	return ids
}
