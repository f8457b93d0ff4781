package forecast

import (
	"context"
	"path/filepath"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// TestMediaSeconds: the forecast of the time in which rows read their media is the mean duration that the rows of a shape have. Rows without a duration take that of the first file.
func TestMediaSeconds(t *testing.T) {
	var w Work
	add := func(row schemas.PromptRow) {
		row.Width, row.Height = 16, 16
		w.Add(&stages.Element{Row: row, Key: schemas.Key{byte(w.New)}})
	}
	add(schemas.PromptRow{NumFrames: 4, MediaSeconds: 1, Cut: &schemas.Cut{}})
	add(schemas.PromptRow{NumFrames: 4, MediaSeconds: 4, Cut: &schemas.Cut{}})
	add(schemas.PromptRow{NumFrames: 2, Media: filepath.Join("..", "..", "testdata", "media", "square.y4m")})
	add(schemas.PromptRow{NumFrames: 1, Media: "none.mp4"})
	w.Seal()
	got := readable(context.Background(), w).Buckets
	if s := got[0].First.MediaSeconds; s != 2.5 {
		t.Errorf("two clips: got %g s", s)
	}
	if s := got[1].First.MediaSeconds; s <= 0 || s > 1 {
		t.Errorf("a whole file: got %g s", s)
	}
	if s := got[2].First.MediaSeconds; s != 0 {
		t.Errorf("a file that does not exist: got %g s", s)
	}
}
