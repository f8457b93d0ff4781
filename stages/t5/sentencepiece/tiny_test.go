package sentencepiece

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// TestTinyEqualsLibrary encodes the golden texts with the vocabulary of the built-in model.
func TestTinyEqualsLibrary(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/tiny/text_encoder/spiece.model")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		SHA256 string
		IDs    [][]int32
	}
	if err := json.Unmarshal(readGzip(t, "testdata/tiny.json.gz"), &want); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want.SHA256 {
		t.Fatal("the built-in spiece.model has changed: make testdata/tiny.json.gz again with make_goldens.py")
	}
	m, err := Load(data)
	if err != nil {
		t.Fatal(err)
	}
	rows := readGolden(t)
	if len(want.IDs) != len(rows) {
		t.Fatalf("%d rows of ids for %d texts", len(want.IDs), len(rows))
	}
	for i, g := range rows {
		if got := m.Encode(string(g.Text)); !slices.Equal(got, want.IDs[i]) {
			t.Errorf("Encode(%.200q) = %v, want %v", g.Text, got, want.IDs[i])
		}
	}
}
