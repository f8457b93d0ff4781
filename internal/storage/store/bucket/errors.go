package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// Limits for retries.
const (
	attempts   = 12
	firstPause = 200 * time.Millisecond
	longPause  = 20 * time.Second
	budget     = 3 * time.Minute
)

// secretParts matches parts of addresses and headers that messages must not show.
var secretParts = regexp.MustCompile(
	`(?i)(://)[^\s"'@]*@|\?[^\s"':]*|(\bbearer\s|\bauthorization["']?\s*[:=]|signature=|credential=)\s*[^\s"',]+`)

// Redact removes possible credentials from a text: the given secrets, and parts of addresses after a question mark or before an
// @.
func Redact(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	return secretParts.ReplaceAllStringFunc(text, func(part string) string {
		if strings.HasPrefix(part, "://") {
			return "://[secret]@"
		}
		return "[...]"
	})
}

// failure is an error of a bucket for people. Its text contains no credential.
type failure struct {
	text string
	is   error // error for errors.Is, or nil
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// Unwrap returns only errors without text of a service.
func (f *failure) Unwrap() error { return f.is }

// contact is a kind of request. Until one of its kind has succeeded, a refusal counts as the user's mistake (exit code 2);
// later it counts as a temporary problem.
type contact int

const (
	reading contact = iota
	listing
	writing
	removing
)

// firstContact is a refusal before any request of its kind has succeeded.
type firstContact struct{ *objects.Refusal }

// Unwrap returns the refusal.
func (f *firstContact) Unwrap() error { return f.Refusal }

// met records the result of a request, and marks the refusal of a first contact. Every refusal of a web server is a first contact,
// because its files have rights of their own.
func (b *Bucket) met(kind contact, err error) error {
	var f *objects.Refusal
	switch {
	case !errors.As(err, &f):
		b.contacts[kind].Store(true)
	case b.contacts[kind].Load() && !b.web || full(f):
	case kind != removing:
		return &firstContact{f}
	case denies(f): // other refusals may be new: objects can be removed during a run
		denied := *f
		denied.Fix = "the promise that objects can be removed is broken: give this process the right to delete below the prefix (on S3 " +
			"s3:DeleteObject), or take a new output"
		return &firstContact{&denied}
	}
	return err
}

// settled reports whether err would not change if the request were repeated.
func settled(err error) bool {
	var f *objects.Refusal
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, objects.ErrRefused):
		return true
	case errors.As(err, &f):
		return !passes(f)
	}
	return false
}

// retry calls try until its result is settled, at most attempts times and within the time budget.
func (b *Bucket) retry(ctx context.Context, kind contact, try func(ctx context.Context) error) error {
	return b.retryFor(ctx, kind, "", try)
}

// retryFor is retry for a request about key. It gives up an input's host earlier (see Reach).
func (b *Bucket) retryFor(ctx context.Context, kind contact, key string, try func(ctx context.Context) error) error {
	if err := b.reach.givenUp(key); err != nil {
		return err
	}
	waits := b.wait(ctx, key)
	defer waits.stop()
	began := b.clock.Now()
	pause := time.Duration(0)
	for n := 1; ; n++ {
		err := try(ctx)
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		b.reach.record(err, b.clock.Now())
		if settled(err) {
			return b.met(kind, err)
		}
		if b.reach != nil && nowhere(err) {
			return b.reach.noHost(b.url, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = errSlow
		}
		waits.tried(err)
		most, first, time := b.reach.limits(err)
		pause = max(pause, first)
		wait := jitter(pause)
		if n >= most || b.clock.Now().Add(wait).Sub(began) > time {
			return b.reach.giveUp(b.url, key, began, fmt.Errorf("tried %d times: %w", n, err))
		}
		if err := b.clock.Pause(ctx, wait); err != nil {
			return err
		}
		pause = min(2*pause, longPause)
	}
}

// failed returns the error for the caller.
func (b *Bucket) failed(what, name string, err error) error {
	where := b.address(name)
	var f *objects.Refusal
	var done *failure
	var none *noHostError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &done):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return &fs.PathError{Op: what, Path: where, Err: fs.ErrNotExist}
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s %s: %w", what, where, context.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s %s: %w", what, where, context.DeadlineExceeded)
	case errors.Is(err, ErrUnreachable), errors.As(err, &none):
		return b.unreachable(what, where, err)
	}
	out := &failure{text: fmt.Sprintf("%s %s: %s", what, where, Redact(err.Error(), b.secrets...))}
	if !errors.As(err, &f) {
		return fault.TryAgain(out)
	}
	switch {
	case f.Status == 404:
		out.text = fmt.Sprintf("%s %s: there is no such bucket; make it first, or mend the address", what, where)
		return fault.Usage(out)
	case f.Fix != "":
		out.text += "; " + Redact(f.Fix, b.secrets...)
	case b.web:
		out.text += "; the server refuses this file: mend its address, or download it and name the copy"
	case f.Status == 401 || f.Status == 403:
		out.text += "; check the credentials of this process and their rights on the bucket"
	}
	var first *firstContact
	if errors.As(err, &first) {
		return fault.Usage(out)
	}
	return fault.TryAgain(out)
}
