package report

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// rows returns the elements of three rows. The ids of the first two differ only in case.
func rows() []*stages.Element {
	seed := int64(7)
	return []*stages.Element{
		{Row: schemas.PromptRow{ID: "a", Seed: &seed, Extra: `{"color":"red"}`}, Key: schemas.Key{1}},
		{Row: schemas.PromptRow{ID: "A"}, Key: schemas.Key{2}},
		{Row: schemas.PromptRow{ID: "b"}, Key: schemas.Key{3}},
	}
}

// TestCollect: rows with the same name, ignoring case, and columns that no row has are found.
func TestCollect(t *testing.T) {
	for _, c := range []struct {
		template string
		conflict bool
		unknown  bool
	}{
		{"{id}", true, false},
		{"{id}-{seed}", false, false},
		{"{id}-{color}", false, false},
		{"{id}-{colour}", true, true},
	} {
		template, err := config.ParseName(c.template)
		if err != nil {
			t.Fatal(err)
		}
		n := CollectNames(template)
		for _, e := range rows() {
			n.Add(e)
		}
		first, second, found := n.Conflict()
		if found != c.conflict || found && (first != 0 || second != 1) || (n.Unknown() != nil) != c.unknown {
			t.Errorf("%s: rows %d and %d, %v; %v", c.template, first, second, found, n.Unknown())
		}
	}
}

// TestFolder: a file gets its name, and names that were not added in this run are removed.
func TestFolder(t *testing.T) {
	out := t.TempDir()
	for _, name := range []string{"one.mp4", "two.mp4"} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, given := range [][]string{{"one.mp4", "two.mp4"}, {"two.mp4"}} {
		folder, err := OpenNamedFolder(out)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, file := range given {
			if err := folder.Add(file, "of "+file[:3]); err != nil {
				t.Fatal(err)
			}
			want = append(want, filepath.Join(out, "names", "of "+file[:3]+".mp4"))
		}
		if err := folder.RemoveOthers(); err != nil {
			t.Fatal(err)
		}
		if err := folder.Close(); err != nil {
			t.Fatal(err)
		}
		got, _ := filepath.Glob(filepath.Join(out, "names", "*"))
		if !slices.Equal(got, want) {
			t.Errorf("given %v: there are %v", given, got)
		}
		if data, err := os.ReadFile(want[len(want)-1]); string(data) != "two.mp4" {
			t.Errorf("%s has %q: %v", want[len(want)-1], data, err)
		}
	}
}
