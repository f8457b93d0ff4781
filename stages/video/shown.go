package video

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"latentbeam/internal/media"
	"latentbeam/internal/storage/source"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Shown returns the frames that a player shows for the element's video: those that its encoder reported, else those that ffmpeg
// decodes. Both are equal, byte for byte, for videos of the embedded encoder. Decoded frames are not stored in the element, so
// that the frames of a whole batch are not in memory at once. A file that cannot be read is an error of the row.
func Shown(ctx context.Context, e *stages.Element) (*schemas.Clip, error) {
	if e.Video.Recon != nil {
		return e.Video.Recon, nil
	}
	file, err := source.Temporary(e.Video.Data, e.Video.Ext)
	if err != nil {
		return nil, fault.TryAgain(err)
	}
	defer file.Release()
	c, err := decoded(ctx, file.Path)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, media.ErrNoFFmpeg):
		return nil, fault.Usage(fmt.Errorf("decode a finished video: %w", withoutPath(err, file.Path, e.Video.Ext)))
	case err != nil:
		return nil, fault.Row(fmt.Errorf("the video cannot be read: %w", withoutPath(err, file.Path, e.Video.Ext)))
	}
	return c, nil
}

// TogetherBytes limits the decoded size of videos for which ShownTogether is meant.
const TogetherBytes = 2 << 20

// ShownTogether returns the results of Shown for small videos, decoded by a single ffmpeg. If a result is nil, call Shown,
// which returns the error.
func ShownTogether(ctx context.Context, all []*stages.Element) []*schemas.Clip {
	out := make([]*schemas.Clip, len(all))
	var paths []string
	for _, e := range all {
		file, err := source.Temporary(e.Video.Data, e.Video.Ext)
		if err != nil {
			return out
		}
		defer file.Release()
		paths = append(paths, file.Path)
	}
	frames, release, err := media.Together(ctx, paths)
	if err != nil {
		return out
	}
	defer release()
	for i, path := range frames {
		if c, err := decoded(ctx, path); err == nil {
			out[i] = c
		}
	}
	return out
}

// withoutPath removes the path of a temporary file from an error, so that failures of two runs are equal.
func withoutPath(err error, path, ext string) error {
	text := strings.ReplaceAll(err.Error(), path, "video"+ext)
	if errors.Is(err, media.ErrNoFFmpeg) {
		return fmt.Errorf("%s (%w)", text, media.ErrNoFFmpeg)
	}
	return errors.New(text)
}

// decoded decodes all frames of a file.
func decoded(ctx context.Context, path string) (*schemas.Clip, error) {
	src, err := media.OpenSource(ctx, path, media.SourceOptions{AsShown: true})
	if err != nil {
		return nil, err
	}
	defer src.Close()
	info := src.Info()
	c := &schemas.Clip{Width: info.Width, Height: info.Height}
	if info.RateNum > 0 {
		c.FPS = float64(info.RateNum) / float64(info.RateDen)
	}
	for {
		if err := media.Fits(int64(len(c.Frames)+1) * int64(info.Width) * int64(info.Height) * 3); err != nil {
			return nil, fmt.Errorf("frame %d of %dx%d: %w", len(c.Frames), info.Width, info.Height, err)
		}
		frame := make([]byte, info.Width*info.Height*3)
		switch err := src.Next(frame); {
		case errors.Is(err, io.EOF) && len(c.Frames) > 0:
			return c, nil
		case err != nil:
			return nil, err
		}
		c.Frames = append(c.Frames, frame)
	}
}
