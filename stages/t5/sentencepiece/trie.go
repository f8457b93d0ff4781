package sentencepiece

// trie maps byte strings to ids. Nodes are numbered breadth first, so the children of a node are adjacent: the children of n
// are first[n] to first[n+1]-1, each with its label, in ascending order. A node takes 9 bytes.
type trie struct {
	first []int32
	label []byte
	value []int32 // id of the key that ends here, or -1
}

// scanBelow is the number of children from which a binary search is faster.
const scanBelow = 8

type trieEntry struct {
	key string
	id  int32
}

// newTrie builds the trie of sorted, distinct, non-empty keys.
func newTrie(sorted []trieEntry) *trie {
	type span struct{ from, to, depth int } // the keys below a node
	t := &trie{label: []byte{0}}
	spans := []span{{0, len(sorted), 0}}
	for n := 0; n < len(spans); n++ {
		s := spans[n]
		id := int32(-1)
		if s.from < s.to && len(sorted[s.from].key) == s.depth {
			id = sorted[s.from].id
			s.from++
		}
		t.value = append(t.value, id)
		t.first = append(t.first, int32(len(spans)))
		for s.from < s.to {
			c := sorted[s.from].key[s.depth]
			end := s.from + 1
			for end < s.to && sorted[end].key[s.depth] == c {
				end++
			}
			spans = append(spans, span{s.from, end, s.depth + 1})
			t.label = append(t.label, c)
			s.from = end
		}
	}
	t.first = append(t.first, int32(len(spans)))
	return t
}

// child returns the node that c leads to, or 0. (The root is never a child.)
func (t *trie) child(n int32, c byte) int32 {
	lo, hi := t.first[n], t.first[n+1]
	for hi-lo > scanBelow {
		mid := lo + (hi-lo)/2
		if t.label[mid] <= c {
			lo = mid
		} else {
			hi = mid
		}
	}
	for ; lo < hi; lo++ {
		if t.label[lo] == c {
			return lo
		}
	}
	return 0
}

// longest returns the length of the longest key that s starts with, 0 if there is none.
func (t *trie) longest(s string) int {
	best := 0
	for n, i := int32(0), 0; i < len(s); i++ {
		if n = t.child(n, s[i]); n == 0 {
			break
		}
		if t.value[n] >= 0 {
			best = i + 1
		}
	}
	return best
}
