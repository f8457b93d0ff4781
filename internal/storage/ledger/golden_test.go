package ledger

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/v1.seg")

// TestFormatStays: segments of version 1 can be read, and the writer still writes the same bytes.
func TestFormatStays(t *testing.T) {
	const path = "testdata/v1.seg"
	if *update {
		must(t, os.WriteFile(path, sample(), 0o644))
	}
	golden, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(golden, sample()) {
		t.Error("the writer no longer writes version 1; give the new layout a new version number")
	}
	recs, err := readAll(golden)
	if err != nil || len(recs) != 3 || recs[1].Status != Failed ||
		string(recs[1].Row) != `{"id":1,"try":0}` || recs[2].Blobs[0].Name != "latents" ||
		len(recs[2].Blobs[0].Data) != 306 {
		t.Errorf("read %d records, %v", len(recs), err)
	}
}
