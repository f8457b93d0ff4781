package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"latentbeam/internal/results/marking"
	"latentbeam/internal/results/where"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/schemas/fault"
)

// copyParts maps the values of --only to the prefix of the objects that are copied.
var copyParts = map[string]string{"": "", "videos": "videos/", "tables": "tables/"}

func copyCommand() *cobra.Command {
	var only, chosen string
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy an output, or a part of it, between directories and buckets",
		Long: "Copy an output, or a part of it, between directories and buckets. FROM and TO are paths, or addresses that\n" +
			"begin with gs:// or s3://. After a copy was cut off, the same command continues it. A job can continue in a full copy.\n\n" +
			"Exit codes: 0; 2 when the copy makes no sense; 75 when it may succeed later.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, known := copyParts[only]
			if !known {
				return fault.Usage(fmt.Errorf("--only %s: give videos or tables", only))
			}
			c := copier{prefix: prefix}
			if chosen != "" {
				if only != "" {
					return fault.Usage(errors.New("--where copies chosen videos and their table: leave out --only"))
				}
				var err error
				if c.where, err = where.Parse(chosen); err != nil {
					return err
				}
			}
			if err := c.run(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d objects copied, %d bytes; %d were there\n", c.copied.Load(), c.bytes.Load(), c.skipped.Load())
			return nil
		},
	}
	cmd.Flags().StringVar(&chosen, "where", "", "copy only videos, posters and metadata.parquet, and "+whereUsage)
	cmd.Flags().StringVar(&only, "only", "", "videos or tables: copy only these")
	return cmd
}

const (
	copyLock     = ".lock"   // lock of a job's output
	videosPrefix = "videos/" // prefix of the objects that runs write once: existing copies are kept
	copyTries    = 3         // attempts, if an object is replaced while it is read
	copySlots    = 8         // objects that are copied at once
)

// copier copies objects from one store to another.
type copier struct {
	from, to               store.Store
	prefix                 string // only objects whose names begin with this are copied; "": all
	where                  *where.Filter
	compareBytes           bool // compare existing files by their bytes, not by size alone
	copied, skipped, bytes atomic.Int64
}

func (c *copier) run(ctx context.Context, from, to string) (err error) {
	if c.from, err = open.Existing(ctx, from); err != nil {
		return fault.Usage(err)
	}
	defer c.from.Close()
	if c.to, err = open.Output(ctx, to); err != nil {
		return err
	}
	defer c.to.Close()
	if c.from.URL() == c.to.URL() {
		return fault.Usage(fmt.Errorf("copy %s: it is the same output; name another", from))
	}
	release, err := c.to.Lock(ctx, copyLock, "copy from "+c.from.URL())
	if err != nil {
		return err
	}
	defer release()
	if c.where != nil {
		return c.copySelected(ctx)
	}
	names, err := c.listObjects(ctx)
	if err != nil {
		return err
	}
	// Objects outside of directories, such as the summary, mean that the output is complete. So they are copied last.
	last := slices.IndexFunc(names, func(name string) bool { return !strings.Contains(name, "/") })
	if last < 0 {
		last = len(names)
	}
	if c.compareBytes, err = c.otherMarks(ctx); err != nil {
		return err
	}
	if err := c.copyAll(ctx, names[:last]); err != nil {
		return err
	}
	return c.copyAll(ctx, names[last:])
}

// listObjects returns the names of the objects to copy; objects outside of directories are last. It returns an error if the
// target holds an object that the source does not have.
func (c *copier) listObjects(ctx context.Context) ([]string, error) {
	names, err := store.Names(ctx, c.from, "", store.Deep)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	for info, err := range c.to.List(ctx, "", store.Deep) {
		if err != nil {
			return nil, err
		}
		if !known[info.Name] && !isLock(info.Name) && !runfiles.Owns(info.Name) {
			return nil, fault.Usage(fmt.Errorf("copy to %s: it holds %s, which %s does not: it is another output; give a new place",
				c.to.URL(), info.Name, c.from.URL()))
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return isLock(name) || runfiles.Owns(name) || !strings.HasPrefix(name, c.prefix)
	})
	slices.SortStableFunc(names, func(a, b string) int {
		return bytes.Compare([]byte{copyOrder(a)}, []byte{copyOrder(b)})
	})
	return names, nil
}

// copySelected copies the videos and posters of the rows that --where selects, then their table.
func (c *copier) copySelected(ctx context.Context) error {
	table, names, err := where.Choose(ctx, c.from, c.where)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Usage(fmt.Errorf("copy %s: it has no %s, the table of a finished output's videos: run its job to the end first", c.from.URL(), where.Dataset))
	}
	if err != nil {
		return err
	}
	known := map[string]bool{where.Dataset: true}
	for _, name := range names {
		known[name] = true
	}
	for info, err := range c.to.List(ctx, "", store.Deep) {
		if err != nil {
			return err
		}
		if !known[info.Name] && !isLock(info.Name) {
			return fault.Usage(fmt.Errorf("copy to %s: it holds %s, which is none of the chosen files: give a new place", c.to.URL(), info.Name))
		}
	}
	if err := c.copyAll(ctx, names); err != nil {
		return err
	}
	err = c.to.Replace(ctx, where.Dataset, func(w io.Writer) error {
		_, err := w.Write(table)
		return err
	})
	if err == nil {
		c.copied.Add(1)
		c.bytes.Add(int64(len(table)))
	}
	return err
}

// isLock reports whether an object is the lock of a job or of one of its shards.
func isLock(name string) bool { return strings.HasPrefix(name, ".") && strings.HasSuffix(name, "lock") }

// copyOrder is the sort key of an object: 1 for objects that are copied last, else 0.
func copyOrder(name string) byte {
	if strings.Contains(name, "/") {
		return 0
	}
	return 1
}

// copyAll copies objects, copySlots of them at once.
func (c *copier) copyAll(ctx context.Context, names []string) error {
	copying, within := errgroup.WithContext(ctx)
	copying.SetLimit(copySlots)
	for _, name := range names {
		if within.Err() != nil {
			break
		}
		copying.Go(func() error { return c.copyObject(within, name) })
	}
	return cmp.Or(copying.Wait(), ctx.Err())
}

// copyObject copies an object. It tries again if the object is replaced while it is read.
func (c *copier) copyObject(ctx context.Context, name string) (err error) {
	for range copyTries {
		if err = c.attempt(ctx, name); !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
	return fault.TryAgain(fmt.Errorf("copy %s: it was replaced %d times meanwhile: %w", name, copyTries, err))
}

func (c *copier) attempt(ctx context.Context, name string) error {
	source, err := c.from.Open(ctx, name)
	if err != nil {
		return err
	}
	defer source.Close()
	if strings.HasPrefix(name, videosPrefix) { // only `latentbeam mark` changes such an object
		info, err := c.to.Stat(ctx, name)
		there := err == nil && info.Size == source.Size()
		if there && c.compareBytes {
			if there, err = c.sameBytes(ctx, name, source); err != nil {
				return err
			}
		}
		if there {
			c.skipped.Add(1)
			return nil
		}
	}
	err = c.to.Replace(ctx, name, func(w io.Writer) error {
		// The buffer is large because each read is a request to the store.
		_, err := io.CopyBuffer(w, onlyReader{io.NewSectionReader(source, 0, source.Size())}, make([]byte, 4<<20))
		return err
	})
	if err == nil {
		c.copied.Add(1)
		c.bytes.Add(source.Size())
	}
	return err
}

// otherMarks reports whether videos in the target may carry other marks than the source: marks.json differs, or only one of the
// two has it. Videos with other marks can have the same size, so sizes do not show that a video is already copied.
func (c *copier) otherMarks(ctx context.Context) (bool, error) {
	from, err := store.Exists(ctx, c.from, marking.Name)
	if err != nil || !from {
		there, toErr := store.Exists(ctx, c.to, marking.Name)
		return there, errors.Join(err, toErr)
	}
	source, err := c.from.Open(ctx, marking.Name)
	if err != nil {
		return false, err
	}
	defer source.Close()
	same, err := c.sameBytes(ctx, marking.Name, source)
	return !same, err
}

// sameBytes reports whether the target has an object with the bytes of source.
func (c *copier) sameBytes(ctx context.Context, name string, source store.Reader) (bool, error) {
	target, err := c.to.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer target.Close()
	if target.Size() != source.Size() {
		return false, nil
	}
	var sums [2][sha256.Size]byte
	for i, r := range []store.Reader{source, target} {
		h := sha256.New()
		if _, err := io.CopyBuffer(h, onlyReader{io.NewSectionReader(r, 0, r.Size())}, make([]byte, 1<<20)); err != nil {
			return false, err
		}
		sums[i] = [sha256.Size]byte(h.Sum(nil))
	}
	return sums[0] == sums[1], nil
}

// onlyReader hides the WriteTo method of a reader, because io.CopyBuffer would call it and not use the given buffer.
type onlyReader struct{ io.Reader }
