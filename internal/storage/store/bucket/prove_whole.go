package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/objects"
)

// Objects for a listing with several pages. Few are requested at a time.
const (
	pagedObjects = 8
	onPage       = 3
)

// paged lists objects on several pages.
func (t *trial) paged() error {
	if t.denied {
		return nil // the objects could not be removed
	}
	names := make([]string, pagedObjects)
	for i := range names {
		names[i] = fmt.Sprintf("%spages/%d", t.dir, i)
	}
	if err := t.putAll(names); err != nil {
		return err
	}
	var found []string
	pages := 0
	for page, err := range t.Bucket.pages(t.ctx, t.dir+"pages/", false, onPage) {
		if err != nil {
			return err
		}
		pages++
		for _, o := range page {
			found = append(found, strings.TrimPrefix(o.Key, t.prefix))
		}
	}
	wrong := ""
	for i := range names {
		if len(found) != len(names) || found[i] != names[i] {
			wrong = fmt.Sprintf("of %d objects a listing shows %d, or not in order", len(names), len(found))
			break
		}
	}
	t.record("pages of a listing", needed, fmt.Sprintf("%d objects in order on %d pages", len(found), pages), wrong)
	return t.removeAll()
}

// putAll writes small new objects.
func (t *trial) putAll(names []string) error {
	writing, ctx := errgroup.WithContext(t.ctx)
	writing.SetLimit(2 * putsAtOnce)
	t.left = append(t.left, names...)
	for _, name := range names {
		writing.Go(func() error {
			_, err := t.write(ctx, name, objects.Absent, content(name, []byte(name)))
			if errors.Is(err, objects.ErrRefused) {
				return nil // an earlier attempt without an acknowledgement
			}
			return t.failed("check", name, err)
		})
	}
	return writing.Wait()
}

// oddNames are names that some clients and services encode wrongly.
var oddNames = []string{"a b", "a+b", "a%20b", "ä/ö", "日本", "a&b=c", "~a'(b)!"}

// names writes, lists and reads odd names.
func (t *trial) names() error {
	var names []string
	for _, odd := range oddNames {
		names = append(names, t.dir+"names/"+odd)
	}
	if err := t.putAll(names); err != nil {
		return err
	}
	found, _, err := t.listed()
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, name := range found {
		listed[name] = true
	}
	wrong := ""
	for _, name := range names {
		got, err := t.whole(name)
		bad, failure := answered(err)
		if failure != nil {
			return t.failed("check", name, failure)
		}
		if bad != "" || !listed[name] || string(got) != name {
			wrong = fmt.Sprintf("the name %q is listed: %v, and holds what was written: %v", name[len(t.dir):], listed[name], string(got) == name)
			break
		}
	}
	t.record("names", needed, fmt.Sprintf("%d with blanks, plus, percent and Unicode", len(names)), wrong)
	return t.removeAll()
}

// smallestPart is the smallest size that services accept for a part, except the last.
const smallestPart = 5 << 20

// parts sends an object in parts, twice, each time as a new object.
func (t *trial) parts() error {
	p := t.service.Parts()
	if p == nil {
		return nil
	}
	const name = "large objects in parts"
	key := t.dir + "parts"
	data := bytes.Repeat([]byte("parts "), smallestPart/6+1000)
	c := content(key, data)
	first, err := t.inTwo(p, key, c)
	wrong, failure := answered(err)
	if failure != nil {
		return t.failed("check", name, failure)
	}
	t.left = append(t.left, key)
	if wrong == "" {
		got, err := t.whole(key)
		if wrong, failure = answered(err); failure != nil {
			return t.failed("check", name, failure)
		}
		if wrong == "" && !bytes.Equal(got, data) {
			wrong = "the object has other bytes than its parts"
		}
	}
	t.record(name, needed, fmt.Sprintf("%d bytes in two parts, version %s", len(data), first), wrong)
	if wrong != "" {
		return t.removeAll()
	}
	_, err = t.inTwo(p, key, c)
	if _, failure = answered(err); failure != nil {
		return t.failed("check", name, failure)
	}
	wrong = ""
	if !errors.Is(err, objects.ErrRefused) {
		wrong = fmt.Sprintf("an upload that is only for a new object ends over one that is there (%v); no job relies on it", err)
	}
	t.record("parts under a condition", told, "the end of an upload over another object is refused", wrong)
	return t.removeAll()
}

// inTwo sends a new object in two parts. It returns the service's error.
func (t *trial) inTwo(p *objects.Parts, key string, c objects.Content) (v objects.Version, err error) {
	key = t.prefix + key
	upload := ""
	err = t.retry(t.ctx, writing, func(ctx context.Context) (err error) {
		upload, err = p.Begin(ctx, key, c)
		return err
	})
	if err != nil {
		return objects.Absent, err
	}
	tags := make([]string, 2)
	for i, span := range [][2]int64{{0, smallestPart}, {smallestPart, c.Size}} {
		err = t.retry(t.ctx, writing, func(ctx context.Context) (err error) {
			ctx, cancel := t.bound(ctx, span[1]-span[0])
			defer cancel()
			tags[i], err = p.Send(ctx, key, upload, i+1, io.NewSectionReader(c, span[0], span[1]-span[0]))
			return err
		})
		if err != nil {
			break
		}
	}
	if err == nil {
		err = t.retry(t.ctx, writing, func(ctx context.Context) (err error) {
			ctx, cancel := t.bound(ctx, 0)
			defer cancel()
			v, err = p.Finish(ctx, key, upload, tags, objects.Absent, c)
			return err
		})
	}
	if err != nil {
		multipart{p, t.Bucket}.drop(t.ctx, objects.Upload{Key: key, ID: upload})
	}
	return v, err
}

// abandoned starts an upload and aborts it.
func (t *trial) abandoned() error {
	p := t.service.Parts()
	if p == nil {
		return nil
	}
	const name = "uploads that were given up"
	key := t.prefix + t.dir + "abandoned"
	upload, n := "", 0
	err := t.retry(t.ctx, writing, func(ctx context.Context) (err error) {
		upload, err = p.Begin(ctx, key, objects.Content{})
		return err
	})
	if err == nil {
		multipart{p, t.Bucket}.drop(t.ctx, objects.Upload{Key: key, ID: upload})
		err = t.retry(t.ctx, writing, func(ctx context.Context) error {
			ctx, cancel := t.bound(ctx, 0)
			defer cancel()
			begun, err := p.Begun(ctx, t.prefix+t.dir, t.clock.Now().Add(oldUpload))
			n = len(begun)
			return err
		})
	}
	var f *objects.Refusal
	if errors.As(err, &f) && !passes(f) {
		t.promises = append(t.promises, store.Promise{Name: name, State: store.Unknown, Found: "the service answers " + f.Error() +
			"; set a lifecycle rule for incomplete uploads", Took: t.clock.Now().Sub(t.begun).Round(time.Millisecond)})
		return nil
	}
	if err != nil {
		return t.failed("check", name, err)
	}
	wrong := ""
	if n > 0 {
		wrong = fmt.Sprintf("%d uploads are there; set a lifecycle rule for incomplete uploads", n)
	}
	t.record(name, told, "nothing stays behind", wrong)
	return nil
}
