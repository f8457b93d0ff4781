package forecast

import (
	"context"
	"slices"

	"latentbeam/internal/media"
	"latentbeam/internal/storage/source"
	"latentbeam/schemas"
)

// readable returns w with the time to read the media of rows that are not cut, by the file of the first row of each shape. Files
// that are not on this host are not read.
func readable(ctx context.Context, w Work) Work {
	w.Buckets = slices.Clone(w.Buckets)
	for i := range w.Buckets {
		row := &w.Buckets[i].First
		if _, member := source.ParseMember(row.Media); row.Media == "" || row.Cut != nil || member || source.IsAddress(row.Media) {
			continue
		}
		if f, err := media.Probe(ctx, row.Media, row.FPS); err == nil { // otherwise the row fails
			row.MediaSeconds = f.Seconds(schemas.Cut{Count: row.NumFrames}, row.Height*row.Width)
		}
	}
	return w
}
