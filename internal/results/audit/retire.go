package audit

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
)

// FinishedAt returns the time at which an output was finished; false: it is not finished, or not an output.
func FinishedAt(ctx context.Context, s store.Store) (time.Time, bool, error) {
	sum, err := report.ReadSummary(ctx, s, summaryFile)
	if err != nil || sum.State != report.Complete {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return time.Time{}, false, err
	}
	info, err := s.Stat(ctx, summaryFile)
	return time.Unix(0, info.Time), err == nil, err
}

// summaryFile marks an output as finished. Retire removes it last, so that another Retire can complete an interrupted
// one.
const summaryFile = "summary.json"

// Retire removes a whole output, except files that latentbeam did not write. It acquires the output's lock. It returns an error
// while a run works on the output.
func Retire(ctx context.Context, s store.Store) (removed Cleaned, err error) {
	removed = Cleaned{Output: s.URL(), Applied: true}
	if err := checkIdle(ctx, s); err != nil {
		return removed, err
	}
	release, err := s.Lock(ctx, ".lock", "latentbeam clean")
	if err != nil {
		return removed, err
	}
	defer release()
	free, err := locks(ctx, s)
	if err != nil {
		return removed, err
	}
	if removed.Partial, err = s.CleanTemps(ctx, free...); err != nil {
		return removed, err
	}
	var names []string
	for info, err := range s.List(ctx, "", store.Deep) {
		if err != nil {
			return removed, err
		}
		if what, _ := classOf(info.Name); what == foreign || info.Name == summaryFile || info.Name == ".lock" {
			continue
		}
		names = append(names, info.Name)
		removed.Files++
		removed.Bytes += info.Size
	}
	for _, name := range append(names, summaryFile) {
		if err := s.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
	}
	return removed, nil
}
