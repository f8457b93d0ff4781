package score

import (
	"context"
	"runtime"
	"sync"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/video"
)

// aheadBytes limits the frames that are decoded before they are needed.
const aheadBytes = 256 << 20

// maxPerProgram limits how many videos one program decodes.
const maxPerProgram = 16

// ahead decodes the videos of a batch in order, some before they are needed. Each video, or group of small videos, starts a
// program; without decoding ahead the processors would wait for it.
type ahead struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	of      map[*stages.Element]chan decoded
	room    chan struct{} // one slot for each decoded group that was not taken yet
}

type decoded struct {
	clip *schemas.Clip
	err  error
	last bool // the last of its group
}

// decodeAhead starts to decode videos. The caller must call close.
func decodeAhead(ctx context.Context, all []*stages.Element) *ahead {
	a := &ahead{of: map[*stages.Element]chan decoded{}}
	if len(all) < 2 {
		return a
	}
	ctx, a.cancel = context.WithCancel(ctx)
	groups, largest := group(all)
	for _, e := range all {
		a.of[e] = make(chan decoded, 1)
	}
	ways := min(runtime.GOMAXPROCS(0), int(max(1, aheadBytes/largest)))
	a.room = make(chan struct{}, ways)
	a.running.Go(func() {
		for _, g := range groups {
			select {
			case a.room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			a.running.Go(func() {
				clips := make([]*schemas.Clip, len(g))
				if len(g) > 1 {
					clips = video.ShownTogether(ctx, g)
				}
				for i, e := range g {
					var err error
					if clips[i] == nil {
						clips[i], err = video.Shown(ctx, e)
					}
					a.of[e] <- decoded{clips[i], err, i == len(g)-1}
				}
			})
		}
	})
	return a
}

// group groups adjacent small videos. It also returns the bytes of the frames of the largest group, as far as known.
func group(all []*stages.Element) (groups [][]*stages.Element, largest int64) {
	var together int64 // bytes of the last group; 0: it is complete
	for _, e := range all {
		size := max(1, int64(e.Row.Height*e.Row.Width)*int64(e.Row.NumFrames)*3, int64(e.Video.Height*e.Video.Width)*int64(e.Video.Frames)*3)
		last := len(groups) - 1
		switch small := size > 1 && size <= video.TogetherBytes; {
		case small && together > 0 && len(groups[last]) < maxPerProgram:
			groups[last] = append(groups[last], e)
			together += size
		default:
			groups, together = append(groups, []*stages.Element{e}), 0
			if small {
				together = size
			}
		}
		largest = max(largest, size, together)
	}
	return groups, largest
}

// shown returns the frames that a player shows for an element's video. It must be called once for each video, in order.
func (a *ahead) shown(ctx context.Context, e *stages.Element) (*schemas.Clip, error) {
	waits := a.of[e]
	if waits == nil {
		return video.Shown(ctx, e)
	}
	select {
	case d := <-waits:
		if d.last {
			<-a.room
		}
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
