package ledger

import (
	"fmt"
	"sort"
	"strings"
)

// folder has the segments for the rows of an output.
const folder = "ledger/"

// Readings is the folder for the readings of an output, see OpenIn. They are not part of its rows.
const Readings = "readings/"

// segmentID is the name of a segment as three numbers. Names and IDs sort in the same order.
type segmentID struct {
	generation uint32
	process    uint64
	sequence   uint32
}

func (id segmentID) name(folder string) string {
	return fmt.Sprintf("%s%08x-%016x-%08x.seg", folder, id.generation, id.process, id.sequence)
}

// parseSegmentName is the inverse of segmentID.name.
func parseSegmentName(folder, name string) (id segmentID, err error) {
	base := strings.TrimPrefix(name, folder)
	_, err = fmt.Sscanf(base, "%08x-%016x-%08x.seg", &id.generation, &id.process, &id.sequence)
	if err != nil || id.name(folder) != name {
		return id, fmt.Errorf("ledger segment %s: not a name that latentbeam gives; move the file away", name)
	}
	return id, nil
}

// segmentNumbers numbers the segments of a ledger. A process writes its segments in sequence, so there is one entry for each
// run of consecutive segments.
type segmentNumbers struct {
	folder string
	runs   []runOfNames
	next   uint32
}

type runOfNames struct {
	first  segmentID
	number uint32 // number of first
	count  uint32
}

// add returns the next number for a segment.
func (n *segmentNumbers) add(id segmentID) (uint32, error) {
	if n.next == segmentsMax {
		return 0, fmt.Errorf("ledger: more than %d segments; compact it", segmentsMax)
	}
	number := n.next
	n.next++
	if len(n.runs) > 0 {
		last := &n.runs[len(n.runs)-1]
		follow := last.first
		follow.sequence += last.count
		if follow == id {
			last.count++
			return number, nil
		}
	}
	n.runs = append(n.runs, runOfNames{id, number, 1})
	return number, nil
}

// name returns the file name of a numbered segment.
func (n *segmentNumbers) name(number uint32) string { return n.id(number).name(n.folder) }

// id returns the ID of a numbered segment.
func (n *segmentNumbers) id(number uint32) segmentID {
	i := sort.Search(len(n.runs), func(i int) bool { return n.runs[i].number > number }) - 1
	id := n.runs[i].first
	id.sequence += number - n.runs[i].number
	return id
}
