package tensors

import (
	"context"
	"errors"
	"log/slog"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/schemas"
)

// Check finds files of tensor tables that have changed since they were written, and marks them as damaged. Each row of a damaged file
// is checked before it is used, and the file is written again.
func (h *Home) Check(ctx context.Context, look fingerprints.Look) error {
	for _, table := range tables.WithTensors {
		infos, err := tables.Infos(ctx, h.Output.Store, table)
		if err != nil {
			return err
		}
		for _, info := range infos {
			whole, err := h.Output.IsAsWritten(ctx, info, look)
			if err == nil && whole && look == fingerprints.LookAtAll { // the file may have been damaged before its digest was recorded
				var bad []schemas.Key
				bad, err = h.Damage(ctx, info.Name)
				whole = len(bad) == 0
			}
			if err != nil {
				return err
			}
			if !whole {
				h.Output.Damage(info.Name)
				slog.Warn("a table is not as it was written: what is lost of it is computed again", "file", info.Name)
			}
		}
	}
	return nil
}

// DamageAll marks all files of tensor tables as damaged. A run calls it after it finds one damaged file, because others may be damaged
// too.
func (h *Home) DamageAll(ctx context.Context) error {
	for _, table := range tables.WithTensors {
		names, err := tables.All(ctx, h.Output.Store, table)
		if err != nil {
			return err
		}
		for _, name := range names {
			h.Output.Damage(name)
		}
	}
	return nil
}

// maxDamage limits the rows that Damage returns.
const maxDamage = 1000

// Damage reads all tensors of a table's file and returns the keys of rows whose tensors differ from the ledger's digests, at most
// maxDamage. The zero key says that the file cannot be read to its end.
func (h *Home) Damage(ctx context.Context, name string) (bad []schemas.Key, err error) {
	f, readable, err := h.openFile(ctx, name)
	if err != nil {
		return nil, err
	}
	if !readable {
		return []schemas.Key{{}}, nil
	}
	defer f.table.Close()
	f.damaged = false // check every row by its digest only
	cursor := h.Ledger.Cursor()
	defer cursor.Close()
	whole, err := f.rows(func(key schemas.Key, row int64) error {
		ok, err := f.sound(cursor, key, row)
		if err == nil && !ok && len(bad) < maxDamage {
			bad = append(bad, key)
		}
		return errors.Join(err, ctx.Err())
	})
	if err == nil && !whole {
		bad = append(bad, schemas.Key{})
	}
	return bad, err
}
