package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/system/testaid"
)

// TestOldLooks reads outputs of a release whose keys included stages that only read results (testdata/compat/README.md). The test keeps,
// removes, changes or replaces these stages: no row is new, no video changes, no program runs a second time, and the readings of
// the old release count for the same measure.
func TestOldLooks(t *testing.T) {
	const (
		make4   = "encode_text, denoise, decode_vae, encode_video"
		encode  = "{encode_vae: {posterior: sample}}, encode_text"
		program = "{exec: {name: scorer, command: [sh, scorer.sh], takes: video, gives: video, params: [prompt]}}"
	)
	reads := strings.Replace(program, "gives: video", "gives: readings", 1)
	for i, c := range []struct {
		job, stages string
		scored      int    // rows that get readings
		keeps       string // readings of the old release that stay
	}{
		{"videos", make4 + ", measure_shapes, " + program, 0, "shape own"},
		{"videos", make4, 0, ""},
		{"clips", "quality, " + encode, 0, "motion phash"},
		{"clips", "score, " + encode, 0, "motion phash"},
		{"videos", make4 + ", measure_shapes, " + reads, 0, "shape own"},
		{"videos", make4 + ", " + reads, 0, "own"},
		{"videos", make4 + ", " + program + ", measure_shapes", 0, "shape own"},
		{"videos", make4 + ", measure_shapes", 0, "shape"},
		{"videos", make4 + ", {score: {by: [motion]}}", 3, ""},
		{"clips", "{quality: {black_level: 40}}, " + encode, 2, "motion phash"},
		{"clips", encode, 0, ""},
		{"clips", "{score: {by: [temporal_flickering, motion]}}, " + encode, 2, "motion"},
	} {
		if testing.Short() && i > 3 {
			break // in a short test, because the other cases take as long
		}
		t.Run(fmt.Sprintf("%s %d", c.job, i), func(t *testing.T) {
			if c.job == "videos" && c.scored > 0 {
				testaid.Needs(t, "ffmpeg")
			}
			s := newShell(t)
			s.env = append(s.env, "LATENTBEAM_CPU=go")
			s.unpack("../../testdata/compat/looks/d74a89bf.tar.gz")
			before, were := s.made(c.job), s.readings(c.job)
			stages := "stages=[" + c.stages + "]"
			text := s.run(0, "run", c.job+".yaml", "--set", stages)
			s.says(text, "0 to do")
			if want := fmt.Sprintf("%d finished rows get only readings", c.scored); strings.Contains(text, want) != (c.scored > 0) {
				t.Errorf("want %d rows to measure: %s", c.scored, text)
			}
			s.says(s.run(0, "run", c.job+".yaml", "--set", stages), "nothing to do: all")
			after, are := s.made(c.job), s.readings(c.job)
			files := 0
			for name, text := range before {
				if folder, _, _ := strings.Cut(filepath.ToSlash(name), "/"); folder == "videos" || folder == "posters" {
					if files++; after[name] != text {
						t.Errorf("the file %s has changed", name)
					}
				}
			}
			if c.job == "videos" && files != 6 {
				t.Errorf("got %d videos and posters", files)
			}
			for _, name := range strings.Fields(c.keeps) {
				if len(were[name]) == 0 || fmt.Sprint(are[name]) != fmt.Sprint(were[name]) {
					t.Errorf("the readings %s were %v and are %v", name, were[name], are[name])
				}
			}
		})
	}
}

// readings returns the columns with readings of the first table of videos, by name.
func (s shell) readings(out string) map[string][]string {
	s.t.Helper()
	table := map[string]string{"videos": "videos", "clips": "latents"}[out]
	rows, err := parquet.ReadFile[any](filepath.Join(s.dir, out, "tables", table, "00000.parquet"))
	if err != nil || len(rows) == 0 {
		s.t.Fatalf("the table has %d rows, %v", len(rows), err)
	}
	all := map[string][]string{}
	for _, row := range rows {
		for name, value := range row.(map[string]any) {
			if reading, is := strings.CutPrefix(name, "measured_"); is {
				all[reading] = append(all[reading], fmt.Sprint(value))
			}
		}
	}
	return all
}
