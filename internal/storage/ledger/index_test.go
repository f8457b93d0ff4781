package ledger

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

func never(Ref) (bool, error)  { return false, nil }
func always(Ref) (bool, error) { return true, nil }

// TestIndexAgainstMap does random work on an index and on a Go map.
func TestIndexAgainstMap(t *testing.T) {
	x, err := newIndex()
	must(t, err)
	defer x.close()
	rng := rand.New(rand.NewPCG(1, 2))
	model := map[uint64]Ref{}
	for step := range 200_000 {
		fp := rng.Uint64N(20_000)
		ref := pack(uint32(step), int64(rng.IntN(1000))*recordAlign, Status(1+rng.IntN(2)))
		switch op := rng.IntN(20); {
		case op < 15:
			must(t, x.insert(fp, ref, always))
			if old, ok := model[fp]; !ok || ref.supersedes(old) {
				model[fp] = ref
			}
		case op < 19:
			old, ok := model[fp]
			if x.move(fp, old, gone) != ok {
				t.Fatalf("step %d: drop of %d", step, fp)
			}
			delete(model, fp)
		case step%1000 == 0:
			x.drop(func(ref Ref) bool { return ref.status() == Failed })
			for fp, ref := range model {
				if ref.status() == Failed {
					delete(model, fp)
				}
			}
		}
	}
	if x.live() != len(model) || x.used < x.live() || x.used > len(x.slots) {
		t.Errorf("%d live, %d used, want %d", x.live(), x.used, len(model))
	}
	for fp := range uint64(20_000) {
		got, err := x.find(fp, always)
		if err != nil || got != model[fp] || got != (Ref{}) && !x.isCurrent(fp, got) ||
			x.isCurrent(fp, pack(1<<29, 8, Done)) {
			t.Errorf("%d: %v, want %v", fp, got, model[fp])
		}
	}
}

func TestPack(t *testing.T) {
	for _, segment := range []uint32{0, 1, segmentsMax - 1} {
		for _, offset := range []int64{0, headerBytes, segmentFileBytesMax} {
			for _, status := range []Status{Done, Failed} {
				r := pack(segment, offset, status)
				if r.segment() != segment || r.offset() != offset || r.status() != status ||
					r == gone || r == (Ref{}) {
					t.Errorf("segment %d offset %d %v became %d %d %v",
						segment, offset, status, r.segment(), r.offset(), r.status())
				}
			}
		}
	}
}

func TestSegmentNames(t *testing.T) {
	n := segmentNumbers{folder: folder}
	ids := []segmentID{{1, 7, 0}, {1, 7, 1}, {1, 7, 3}, {1, 9, 0}, {2, 1, 0}, {2, 1, 1}, {2, 1, 2}}
	for i, id := range ids {
		number, err := n.add(id)
		if err != nil || number != uint32(i) {
			t.Fatalf("number %d, %v", number, err)
		}
		if got, err := parseSegmentName(folder, id.name(folder)); err != nil || got != id {
			t.Errorf("%s parsed as %v, %v", id.name(folder), got, err)
		}
	}
	for i, id := range ids {
		if n.name(uint32(i)) != id.name(folder) {
			t.Errorf("number %d is %s, want %s", i, n.name(uint32(i)), id.name(folder))
		}
	}
	if len(n.runs) != 4 {
		t.Errorf("%d runs", len(n.runs))
	}
	good := ids[0].name(folder)
	for _, bad := range []string{"ledger/.seg", "ledger/1-2-3.seg", good + "x", "x" + good} {
		if _, err := parseSegmentName(folder, bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

// procStatus reads one line of /proc/self/status in bytes.
func procStatus(t testing.TB, field string) int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc/self/status")
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	return kb << 10
}

// TestIndexMemory: at every size up to a million the index takes at most 25 bytes a record, nothing of the Go heap, and the old and the new
// table together at most 45 while it grows, of which the old one's are released as they are copied.
func TestIndexMemory(t *testing.T) {
	const n = 1_000_000
	x, err := newIndex()
	must(t, err)
	defer x.close()
	debug.FreeOSMemory()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rss := procStatus(t, "VmRSS")
	worst, worstGrowing := 0.0, 0.0
	for i := range n {
		slots := len(x.slots)
		must(t, x.insert(mix(uint64(i)), pack(uint32(i), headerBytes, Done), never))
		if len(x.slots) != slots && i > 10_000 {
			worstGrowing = max(worstGrowing, float64((len(x.slots)+slots)*slotBytes)/float64(i))
			worst = max(worst, float64(len(x.slots)*slotBytes)/float64(i))
		}
	}
	runtime.ReadMemStats(&after)
	perRecord := float64(procStatus(t, "VmRSS")-rss) / n
	heap := float64(after.TotalAlloc-before.TotalAlloc) / n
	t.Logf("%d records: resident %.1f bytes each; table at most %.1f, %.1f while growing; Go heap %.2f",
		n, perRecord, worst, worstGrowing, heap)
	if perRecord > 26 || worst > 25 || worstGrowing > 45 || heap > 1 {
		t.Error("over the budget")
	}
	if unsafe.Sizeof(slot{}) != 16 {
		t.Error("a slot is not 16 bytes")
	}
}

// mix makes well spread fingerprints.
func mix(i uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], i*0x9e3779b97f4a7c15)
	return binary.BigEndian.Uint64(b[:])
}

func BenchmarkIndexInsert(b *testing.B) {
	x, err := newIndex()
	must(b, err)
	defer x.close()
	for i := 0; b.Loop(); i++ {
		must(b, x.insert(mix(uint64(i)), pack(uint32(i%segmentsMax), headerBytes, Done), never))
	}
}

func BenchmarkIndexFind(b *testing.B) {
	const n = 1_000_000
	x, err := newIndex()
	must(b, err)
	defer x.close()
	for i := range uint64(n) {
		must(b, x.insert(mix(i), pack(uint32(i), headerBytes, Done), never))
	}
	b.Run("hit", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i++ {
			if ref, _ := x.find(mix(i*7919%n), always); ref == (Ref{}) {
				b.Fatal("missing")
			}
		}
	})
	b.Run("miss", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i++ {
			if ref, _ := x.find(mix(n+i), always); ref != (Ref{}) {
				b.Fatal("found")
			}
		}
	})
}
