package pipelines

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"latentbeam/internal/results/audit"
	"latentbeam/internal/storage/store"
)

// keepIDs lets rows of media files keep the ids that they have in the output. Earlier releases gave files of one name one id.
func (j *Job) keepIDs(ctx context.Context) error {
	if !j.input.SharesNames() {
		return nil
	}
	ids, err := audit.IDs(ctx, j.engine.Store)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrChanged) {
		return err // somebody else has finished a run meanwhile, see again
	}
	if err != nil {
		slog.Warn("ids of the output cannot be read: media files of one name get new ids", "error", err)
	}
	j.engine.Rules.IDs = ids
	return ctx.Err()
}
