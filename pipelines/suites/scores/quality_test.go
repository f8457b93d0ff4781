package scores

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
)

// choosy has the stages of a job that drops dark clips and clips that look like earlier ones.
const choosy = "[quality, {guard: {limits: {luminance: {min: 20}}, duplicates: 6}}, encode_vae, encode_text]"

// alikeTable has one dark clip, one copy of another clip, and one clip that occurs twice.
func alikeTable(t *testing.T) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copied.y4m")
	data, err := os.ReadFile(jobtest.Clips + "square.y4m")
	if err == nil {
		err = os.WriteFile(copied, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return jobtest.MediaTable(t, "copy,"+copied+",a blue square once more,16\nwords,"+jobtest.Clips+"square.y4m,a square in other words,16\n")
}

// TestDroppedClips: clips that are too dark or look like an earlier one are dropped. They do not count as failures, but are in the failures
// table. The counts add up, and the readings are columns.
func TestDroppedClips(t *testing.T) {
	j := jobtest.MediaJob(t, alikeTable(t), choosy, "on_error.stop_after=0")
	r := j.MustRun(t)
	if tt := r.Totals; tt.Rows != 5 || tt.Done != 3 || tt.Dropped != 2 || tt.Failed != 0 || tt.Pending != 0 {
		t.Errorf("got totals %+v", tt)
	}
	ids := func() (ids []string) {
		for _, row := range jobtest.ReadRows[schemas.LatentRow](t, j.Out, "latents") {
			ids = append(ids, row.ID)
		}
		return ids
	}
	if got := ids(); !slices.Equal(got, []string{"square", "triangle", "words"}) {
		t.Errorf("got latents of %v", got)
	}
	var left []string
	for _, row := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
		left = append(left, fmt.Sprintf("%s %s %s: %s", row.ID, row.Class, row.Stage, row.Message))
	}
	if len(left) != 2 || !strings.HasPrefix(left[0], "disc dropped guard: luminance is ") ||
		!strings.HasSuffix(left[0], "below the limit of 20") ||
		left[1] != "copy dropped guard: looks like square (0 of 64 bits differ)" {
		t.Errorf("dropped are %q", left)
	}
	for _, table := range []string{"latents", "embeddings"} {
		columns := columnsOf(t, j.Out, table)
		for _, want := range []string{"measured_scene_cuts", "measured_motion", "measured_sharpness", "measured_luminance",
			"measured_black_rows", "measured_black_columns", "measured_phash"} {
			if !slices.Contains(columns, want) {
				t.Errorf("%s has no column %s: %v", table, want, columns)
			}
		}
	}
	j.Computes(t, 0)

	j.Stages = "[quality, {guard: {limits: {luminance: {min: 20}}}}, encode_vae, encode_text]"
	if r := j.MustRun(t); r.Done != 0 || !slices.Equal(ids(), []string{"square", "triangle", "copy", "words"}) {
		t.Errorf("without the limit on duplicates: %d rows computed, latents of %v", r.Done, ids())
	}
	j.Stages = choosy
	if r := j.MustRun(t); r.Done != 0 || len(ids()) != 3 || r.Totals.Dropped != 2 {
		t.Errorf("with the limit again: %d rows computed, latents of %v, %+v", r.Done, ids(), r.Totals)
	}
}

// columnsOf returns the names of the columns of a table.
func columnsOf(t *testing.T, out, table string) (names []string) {
	t.Helper()
	file, err := os.Open(filepath.Join(out, "tables", table, "00000.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range p.Schema().Fields() {
		names = append(names, field.Name())
	}
	return names
}

// TestDroppedClipsSameBytes: which rows are dropped does not depend on batches, workers or shards.
func TestDroppedClipsSameBytes(t *testing.T) {
	one := jobtest.MediaJob(t, alikeTable(t), choosy)
	one.MustRun(t)
	want := jobtest.MustRead(t, one.Out)
	other := one.Elsewhere(t)
	other.Sets = append(other.Sets, "resources.batch_size=1", "resources.workers=2")
	other.MustRun(t)
	shards := one.Elsewhere(t)
	for i := range 3 {
		shard := shards
		shard.Opts.Shard, shard.Opts.Shards = 2-i, 3
		shard.MustRun(t)
	}
	for name, j := range map[string]jobtest.Job{"batches of one": other, "shards": shards} {
		for _, wrong := range want.Diff(jobtest.MustRead(t, j.Out)) {
			t.Errorf("%s: the output differs: %s", name, wrong)
		}
	}
}

// TestUnreadLimits: a guard whose readings no stage computes is an error before any work.
func TestUnreadLimits(t *testing.T) {
	for list, want := range map[string]string{
		"[{guard: {limits: {luminance: {min: 20}}}}, quality, encode_vae]": `guard: no stage before it reads "luminance"`,
		"[{guard: {duplicates: 6}}, encode_vae]":                           `guard: no stage before it reads "phash"`,
		"[quality, {guard: {limits: {luminanc: {min: 20}}}}, encode_vae]":  "did you mean luminance?",
		"[quality, {guard: {limits: {motion: {}}}}, encode_vae]":           "limits of motion: give min, max",
		"[quality, {guard: {duplicates: 16}}, encode_vae]":                 "give 0 to 15 of 64 bits",
		"[{quality: {cut_threshold: 0}}, encode_vae]":                      "cut_threshold is 0: give a number above 0",
		"[{quality: {black_level: 300}}, encode_vae]":                      "black_level is 300: give 0 to 255",
	} {
		j := jobtest.MediaJob(t, jobtest.MediaTable(t, ""), list, "output.write=[latents]")
		if _, err := j.Run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", list, err, want)
		}
	}
}
