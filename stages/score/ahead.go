package score

import (
	"context"
	"runtime"
	"sync"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/video"
)

// aheadBytes bounds the frames that are decoded before they are looked at.
const aheadBytes = 256 << 20

// ahead decodes the videos of a batch in order, some before they are asked for: a program starts for each, and the processors would wait.
type ahead struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	of      map[*stages.Element]chan decoded
	room    chan struct{} // of clips that are decoded and not yet taken
}

type decoded struct {
	clip *schemas.Clip
	err  error
}

// decodeAhead begins to decode videos. close ends it.
func decodeAhead(ctx context.Context, all []*stages.Element) *ahead {
	a := &ahead{of: map[*stages.Element]chan decoded{}}
	if len(all) < 2 {
		return a
	}
	ctx, a.cancel = context.WithCancel(ctx)
	var largest int64 = 1
	for _, e := range all {
		largest = max(largest, int64(e.Row.Height*e.Row.Width)*int64(e.Row.NumFrames)*3, int64(e.Video.Height*e.Video.Width)*int64(e.Video.Frames)*3)
		a.of[e] = make(chan decoded, 1)
	}
	ways := min(runtime.GOMAXPROCS(0), int(max(1, aheadBytes/largest)))
	a.room = make(chan struct{}, ways)
	a.running.Go(func() {
		for _, e := range all {
			select {
			case a.room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			a.running.Go(func() {
				c, err := video.Shown(ctx, e)
				a.of[e] <- decoded{c, err}
			})
		}
	})
	return a
}

// shown returns what a player shows of an element's video. It is asked in the order of decoding, once for each.
func (a *ahead) shown(ctx context.Context, e *stages.Element) (*schemas.Clip, error) {
	waits := a.of[e]
	if waits == nil {
		return video.Shown(ctx, e)
	}
	select {
	case d := <-waits:
		<-a.room
		return d.clip, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (a *ahead) close() {
	if a.cancel != nil {
		a.cancel()
		a.running.Wait()
	}
}
