package tensors

import (
	"context"
	"errors"
	"log/slog"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/schemas"
)

// Check finds the files of tensor tables that are not what was written, and notes them as damaged: each of their rows is
// checked before it is used, and they are written anew.
func (h *Home) Check(ctx context.Context, look fingerprints.Look) error {
	for _, table := range tables.WithTensors {
		infos, err := tables.Infos(ctx, h.Output.Store, table)
		if err != nil {
			return err
		}
		for _, info := range infos {
			whole, err := h.Output.IsAsWritten(ctx, info, look)
			if err == nil && whole && look == fingerprints.LookAtAll { // it may have been damaged before anybody looked
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

// DoubtAll notes all files of tensor tables as damaged: where one turned out to be, others may be too.
func (h *Home) DoubtAll(ctx context.Context) error {
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

// maxDamage bounds the rows that Damage names.
const maxDamage = 1000

// Damage reads all tensors of a table's file and returns the keys of those that are not what the ledger says, at most
// maxDamage. A file that cannot be read has the zero key.
func (h *Home) Damage(ctx context.Context, name string) (bad []schemas.Key, err error) {
	f, readable, err := h.openFile(ctx, name)
	if err != nil {
		return nil, err
	}
	if !readable {
		return []schemas.Key{{}}, nil
	}
	defer f.table.Close()
	f.damaged = false // that is the question
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
