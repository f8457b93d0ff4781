package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/objects"
)

// CheckPrefix is the folder for the objects of a check, below the prefix of an output. Listings of the store do not show them.
// A check removes all its objects, and objects of a check that was killed more than leftTime ago.
const (
	CheckPrefix = store.TempPrefix + "check/"
	leftTime    = time.Hour
)

// trial is one check of a service.
type trial struct {
	*Bucket
	ctx      context.Context
	dir      string // folder for the objects of this check, below the prefix of the output
	promises []store.Promise
	begun    time.Time // start of the current promise
	wrote    time.Time // time of a write, by the service's clock
	left     []string  // names of this check's objects that are not removed yet
	denied   bool      // the service refuses to remove objects
}

// Prove checks, with objects below CheckPrefix, whether the service keeps the promises that jobs rely on. If whole is
// false, Prove makes about a dozen requests, one after another; if true, it also checks listings of several pages, odd names and
// uploads in parts. It returns an error if the service does not answer or refuses everything.
func (b *Bucket) Prove(ctx context.Context, whole bool) ([]store.Promise, error) {
	if err := b.checkCall(ctx, "check"); err != nil {
		return nil, err
	}
	t := &trial{Bucket: b, ctx: ctx, dir: CheckPrefix + rand.Text() + "/", begun: b.clock.Now()}
	steps := []func() error{t.putIfAbsent, t.readAfterWrite, t.replaceByVersion, t.missing, t.listing}
	if whole {
		steps = append(steps, t.paged, t.names, t.parts, t.abandoned)
	}
	var err error
	for _, step := range steps {
		if err = step(); err != nil {
			break
		}
	}
	if cleaned := t.clean(); err == nil {
		err = cleaned
	}
	return t.promises, err
}

// Values of Promise.Needed: without a needed promise a job could lose or mix results; a told promise is only reported.
const (
	needed = true
	told   = false
)

// record records the result for a promise. If wrong is "", the promise is kept, and kept says what was seen; else it is broken.
func (t *trial) record(name string, needed bool, kept, wrong string) {
	p := store.Promise{Name: name, State: store.Kept, Needed: needed, Found: kept, Took: t.clock.Now().Sub(t.begun)}
	if wrong != "" {
		p.State, p.Found = store.Broken, Redact(wrong, t.secrets...)
	}
	t.promises = append(t.promises, p)
	t.begun = t.clock.Now()
}

// answered explains the error of a request. wrong says how the service's answer breaks a promise. failure is an error that proves
// nothing about promises, such as a network error or a missing right. Both are empty if err is nil.
func answered(err error) (wrong string, failure error) {
	var f *objects.Refusal
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, objects.ErrRefused):
		return "it is refused as if there were another version", nil
	case errors.Is(err, fs.ErrNotExist):
		return "it is answered as if there were no object", nil
	case errors.As(err, &f) && f.Code == objects.NoTag:
		return f.Text, nil
	case errors.As(err, &f) && (f.Status == 501 || f.Status == 304 || f.Status == 405 || f.Status == 400 && f.Code == "InvalidArgument"):
		return "the service answers " + f.Error(), nil
	}
	return "", err
}

// writersAtOnce is how many writers write one name at the same time.
const writersAtOnce = 4

// putIfAbsent lets several writers write one new object with different contents.
func (t *trial) putIfAbsent() error {
	const name = "put if absent"
	key := t.dir + "race"
	errs := make([]error, writersAtOnce)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = t.write(t.ctx, key, objects.Absent, content(key, raced(i))) })
	}
	all.Wait()
	var winners []int
	for i, err := range errs {
		wrong, failure := answered(err)
		switch {
		case failure != nil:
			return t.failed("check", name, failure)
		case err == nil:
			winners = append(winners, i)
		case !errors.Is(err, objects.ErrRefused):
			t.record(name, needed, "", "a write that is only for a new object: "+wrong)
			return nil
		}
	}
	there, err := t.whole(key)
	if err == nil {
		t.left = append(t.left, key)
	}
	wrong, failure := answered(err)
	if failure != nil {
		return t.failed("check", name, failure)
	}
	switch {
	case len(winners) > 1:
		wrong = fmt.Sprintf("%d of %d writers of one new object were told that they wrote it", len(winners), len(errs))
	case errors.Is(err, fs.ErrNotExist) && len(winners) == 0:
		wrong = "a write of a new object is refused because there is one, and there is none"
	case wrong != "":
		wrong = "an object that was just written: " + wrong
	case !isRaced(there, len(errs)):
		wrong = "the object holds other bytes than any writer has sent"
	case len(winners) == 1 && !bytes.Equal(there, raced(winners[0])):
		wrong = "a writer was told that it wrote a new object, and the object holds what another one wrote"
	}
	t.record(name, needed, fmt.Sprintf("one of %d writers wrote a new object", len(errs)), wrong)
	return nil
}

// isRaced reports whether one of n writers of the race wrote this content.
func isRaced(content []byte, n int) bool {
	for i := range n {
		if bytes.Equal(content, raced(i)) {
			return true
		}
	}
	return false
}

// raced returns the content of a writer in the race.
func raced(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 4000) }

// whole reads an object, whatever its version. It returns the service's error.
func (t *trial) whole(key string) ([]byte, error) {
	o, err := t.stat(t.ctx, key)
	if err != nil {
		return nil, err
	}
	o.Version = objects.Any
	return t.part(o, 0, o.Size)
}

// part reads bytes of a version. It returns the service's error.
func (t *trial) part(o objects.Object, offset, length int64) (data []byte, err error) {
	err = t.retry(t.ctx, reading, func(ctx context.Context) error {
		ctx, cancel := t.bound(ctx, length)
		defer cancel()
		body, err := t.service.Read(ctx, o, offset, length)
		if err != nil {
			return err
		}
		defer body.Close()
		data = make([]byte, length)
		_, err = io.ReadFull(body, data)
		return err
	})
	return data, err
}

// readAfterWrite reads a new object immediately, completely and in ranges, and compares the clocks.
func (t *trial) readAfterWrite() error {
	const name = "read after write"
	text := []byte(strings.Repeat("0123456789abcdef", 300))
	key := t.dir + "read"
	_, err := t.write(t.ctx, key, objects.Absent, content(key, text))
	wrong, failure := answered(err)
	if failure != nil {
		return t.failed("check", name, failure)
	}
	if wrong != "" {
		return nil // putIfAbsent has reported it
	}
	t.left = append(t.left, key)
	o, err := t.stat(t.ctx, key)
	if wrong, failure = answered(err); failure != nil {
		return t.failed("check", name, failure)
	}
	if wrong != "" {
		t.record(name, needed, "", "an object that was just written: "+wrong)
		return nil
	}
	ours := t.clock.Now()
	t.wrote = o.Time
	got, err := t.part(o, 0, o.Size)
	if wrong, failure = answered(err); failure != nil {
		return t.failed("check", name, failure)
	}
	switch {
	case errors.Is(err, objects.ErrRefused):
		wrong = "an object is described by a version, and a read of this version is refused: a proxy changes entity tags"
	case wrong == "" && !bytes.Equal(got, text):
		wrong = fmt.Sprintf("the service sends other bytes than were written (%d of %d bytes differ)", differing(got, text), len(text))
	}
	t.record(name, needed, fmt.Sprintf("%d bytes are there at once", len(text)), wrong)
	if wrong != "" {
		return nil
	}
	got, err = t.part(o, 1000, 16)
	if wrong, failure = answered(err); failure != nil {
		return t.failed("check", name, failure)
	}
	if wrong == "" && !bytes.Equal(got, text[1000:1016]) {
		wrong = "a read of bytes 1000 to 1015 sends others"
	}
	t.record("ranged reads", needed, "bytes 1000 to 1015 alone were read", wrong)
	skew, wrong := o.Time.Sub(ours).Round(time.Second), ""
	if skew.Abs() > clockSkew {
		wrong = fmt.Sprintf("the clock of the service and the one of this host are %v apart; requests may be refused", skew.Abs())
	}
	t.record("clock", told, fmt.Sprintf("within %v of this host's", clockSkew), wrong)
	return nil
}

// clockSkew is the largest difference of clocks without a warning. AWS refuses requests from 15 minutes on.
const clockSkew = time.Minute

// differing counts the bytes that differ.
func differing(a, b []byte) (n int) {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			n++
		}
	}
	return n + max(len(a), len(b)) - min(len(a), len(b))
}

// replaceByVersion replaces an object on the condition that it has its present version. Then it tries to replace it on the condition
// that it has the old version, which the service must refuse.
func (t *trial) replaceByVersion() error {
	const name = "replace by version"
	key := t.dir + "race"
	old, err := t.stat(t.ctx, key)
	wrong, failure := answered(err)
	if failure != nil {
		return t.failed("check", name, failure)
	}
	if wrong != "" {
		return nil // reported before
	}
	_, err = t.write(t.ctx, key, old.Version, content(key, []byte("the second content")))
	if wrong, failure = answered(err); failure != nil {
		return t.failed("check", name, failure)
	}
	if wrong != "" {
		t.record(name, needed, "", "a write over the version that is there: "+wrong)
		return nil
	}
	_, err = t.write(t.ctx, key, old.Version, content(key, []byte("the third content")))
	if _, failure = answered(err); failure != nil {
		return t.failed("check", name, failure)
	}
	if err == nil {
		wrong = "a write over a version that is not there any more replaces the one that is"
	}
	t.record(name, needed, "the version that was replaced is refused", wrong)
	return nil
}

// missing requests an object that does not exist.
func (t *trial) missing() error {
	_, err := t.stat(t.ctx, t.dir+"missing")
	var f *objects.Refusal
	wrong := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.As(err, &f) && (f.Status == 401 || f.Status == 403):
		wrong = "the service answers " + f.Error() + ": this process needs the right to list the bucket"
	case err == nil:
		wrong = "an object that nobody wrote is described"
	default:
		return t.failed("check", "a missing object", err)
	}
	t.record("a missing object is told", needed, "it is answered as missing", wrong)
	return nil
}

// listing lists what was written, removes it, and lists again.
func (t *trial) listing() error {
	names, old, err := t.listed()
	if err != nil {
		return err
	}
	wrong, missing := "", 0
	for _, name := range t.left {
		if !slices.Contains(names, name) {
			missing++
		}
	}
	if missing > 0 {
		wrong = fmt.Sprintf("of %d objects that were written, %d are not listed", len(t.left), missing)
	}
	t.record("listing after write", needed, fmt.Sprintf("%d objects are listed at once", len(names)), wrong)
	for _, name := range append(names, old...) { // also objects whose write was reported as failed
		if !slices.Contains(t.left, name) {
			t.left = append(t.left, name)
		}
	}
	if err := t.removeAll(); err != nil || t.denied {
		return err
	}
	if names, _, err = t.listed(); err != nil {
		return err
	}
	wrong = ""
	if len(names) > 0 {
		wrong = fmt.Sprintf("%d objects that were removed are listed", len(names))
	}
	t.record("listing after delete", needed, "nothing is listed any more", wrong)
	return nil
}

// listed lists the objects of this check, and the objects that earlier checks left.
func (t *trial) listed() (names, old []string, err error) {
	for o, err := range t.Objects(t.ctx, CheckPrefix, false) {
		if err != nil {
			return nil, nil, err
		}
		name := strings.TrimPrefix(o.Key, t.prefix)
		switch {
		case strings.HasPrefix(name, t.dir):
			names = append(names, name)
		case !t.wrote.IsZero() && o.Time.Before(t.wrote.Add(-leftTime)):
			old = append(old, name)
		}
	}
	return names, old, nil
}

// removeAll removes the objects of this check. A missing right is reported once and is not an error.
func (t *trial) removeAll() error {
	if t.denied || len(t.left) == 0 {
		return nil
	}
	removals, ctx := errgroup.WithContext(context.WithoutCancel(t.ctx))
	removals.SetLimit(2 * putsAtOnce)
	for _, key := range t.left {
		removals.Go(func() error {
			err := t.retry(ctx, removing, func(ctx context.Context) error {
				ctx, cancel := t.bound(ctx, 0)
				defer cancel()
				return t.service.Remove(ctx, objects.Object{Key: t.prefix + key, Version: objects.Any})
			})
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
	}
	err := removals.Wait()
	var f *objects.Refusal
	if errors.As(err, &f) && !passes(f) {
		t.denied = true
		t.promises = append(t.promises, store.Promise{Name: "delete", State: store.Unknown, Found: fmt.Sprintf(
			"the service answers %v; %d small objects stay below %s/%s; a job that has to remove something ends with exit code 75", f, len(t.left), t.url, t.dir), Took: t.clock.Now().Sub(t.begun)})
		t.begun = t.clock.Now()
		return nil
	}
	if err == nil {
		t.left = nil
	}
	return t.failed("check", "delete", err)
}

// clean removes the remaining objects.
func (t *trial) clean() error { return t.removeAll() }
