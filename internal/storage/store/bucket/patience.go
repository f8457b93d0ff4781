package bucket

import (
	"context"
	"fmt"
	"time"

	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// contradictionsMax is how many contradictory answers one call accepts. A race with another process looks the same, but is over
// at the next check.
const contradictionsMax = 7

// patience limits a loop over contradictory answers. retry is for a request that fails; patience is for requests that all
// succeed and contradict each other. Its time starts at the first contradiction, because the call may have waited for the
// holder of a lock before.
type patience struct {
	bucket *Bucket
	begun  time.Time
	pause  time.Duration
	times  int
}

func (b *Bucket) patience() *patience {
	return &patience{bucket: b, pause: firstPause}
}

// changed forgets the contradictions so far, because another process has changed the object since the last one. The time budget
// goes on.
func (p *patience) changed() { p.times, p.pause = 0, firstPause }

// waitRetry waits before the next attempt. After the last attempt it returns an error that says what was tried and what the service
// answered.
func (p *patience) waitRetry(ctx context.Context, what, name, seen string) error {
	if p.begun.IsZero() {
		p.begun = p.bucket.clock.Now()
	}
	p.times++
	spent, wait := p.bucket.clock.Now().Sub(p.begun), jitter(p.pause)
	if p.times >= contradictionsMax || spent+wait > budget {
		return p.bucket.contradicts(what, name, fmt.Sprintf("%s (seen %d times within %v)", seen, p.times, spent.Round(time.Second)))
	}
	p.pause = min(2*p.pause, longPause)
	if err := p.bucket.clock.Pause(ctx, wait); err != nil {
		return p.bucket.failed(what, name, err)
	}
	return nil
}

// contradicts returns the error for a service whose answers contradict each other.
func (b *Bucket) contradicts(what, name, seen string) error {
	where := b.address(name)
	return fault.TryAgain(&failure{text: fmt.Sprintf("%s %s: the service contradicts itself: %s. Either its conditional writes or its "+
		"entity tags are broken, or a proxy changes them: see docs/buckets.md", what, where, Redact(seen, b.secrets...))})
}

// Descriptions of contradictory answers.
const (
	seenRefusedAbsent = "it refuses to write a new object because there is one, and then says that there is none"
	seenOtherVersion  = "it describes a version of the object, and then answers that it does not have this version"
	seenRefusedOwn    = "it refuses to write over a version that it says is there"
)

// pagesWithoutKeys is how many consecutive pages of a listing may have no new key. Services return such pages for removed
// objects, and for folders that a flat listing skips.
const pagesWithoutKeys = 300

// progress detects a listing that does not end.
type progress struct {
	last  string // largest key so far
	pages int    // pages since then
}

// check says what is wrong with a page that is followed by another one, "" if nothing.
func (p *progress) check(found []objects.Object, page, next string) string {
	p.pages++
	for _, o := range found {
		if o.Key > p.last {
			p.last, p.pages = o.Key, 0
		}
	}
	switch {
	case next == "":
		return ""
	case next == page:
		return "a page of a listing names itself as the next page"
	case p.pages >= pagesWithoutKeys:
		return fmt.Sprintf("a listing goes on for %d pages without a new key", p.pages)
	}
	return ""
}
