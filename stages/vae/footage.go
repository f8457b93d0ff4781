package vae

import (
	"context"
	"fmt"

	"latentbeam/internal/media"
	"latentbeam/internal/media/marks"
	"latentbeam/internal/storage/source"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// FootageError says that a media file cannot be read. It concerns a single element.
type FootageError struct{ Err error }

// Error returns the text of the cause.
func (e *FootageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FootageError) Unwrap() error { return e.Err }

// LocalFootage returns a local copy of a media file. The error is a FootageError if the file itself is the reason.
func LocalFootage(ctx context.Context, at string) (source.Local, error) {
	file, err := source.Media(ctx, at)
	if err != nil && fault.ClassOf(err) == fault.ClassRow {
		err = &FootageError{err}
	}
	return file, err
}

// Footage is the frames of an element's media, resized to the size of its row.
type Footage struct {
	file   source.Local
	frames *media.Frames
	name   string
	count  func(kernels.Op, kernels.Count) // may be nil
}

// OpenFootage opens the media of an element for a stage on dev. made is the file of an earlier stage; if it is nil, the media
// is the file that the row names.
func OpenFootage(ctx context.Context, dev kernels.Backend, made *schemas.MediaFile, row *schemas.PromptRow) (*Footage, error) {
	var file source.Local
	var err error
	cut := row.Cut
	if made == nil {
		file, err = LocalFootage(ctx, row.Media)
	} else {
		file, err = source.Temporary(made.Data, made.Ext)
		err = fault.TryAgain(err)
		if cut != nil { // Seek and Origin are times of another file
			own := *cut
			own.Seek, own.Origin = 0, 0
			cut = &own
		}
	}
	if err != nil {
		return nil, err
	}
	frames, err := openFrames(ctx, file.Path, row, cut)
	if err != nil {
		defer file.Release()
		return nil, &FootageError{file.Named(err)}
	}
	return &Footage{file, frames, source.Shown(row.Media), dev.Capabilities().Count}, nil
}

func openFrames(ctx context.Context, path string, row *schemas.PromptRow, cut *schemas.Cut) (*media.Frames, error) {
	if cut != nil {
		return media.OpenCut(ctx, path, row.NumFrames, row.FPS, row.Height, row.Width, *cut, media.RulesOf(row))
	}
	return media.OpenFrames(ctx, path, row.NumFrames, row.FPS, row.Height, row.Width, media.RulesOf(row))
}

// At fills dst (height, width, 3) with frame i, with values in [-1, 1]. Frames must be requested in order.
func (f *Footage) At(dst []float32, i int) error {
	if err := f.frames.At(dst, i); err != nil {
		return &FootageError{fmt.Errorf("read %s: %w", f.name, err)}
	}
	return nil
}

// Readings returns the readings of the frames, see schemas.ReadingDecodeErrors. It is valid after the last frame was read.
func (f *Footage) Readings() map[string]string {
	readings := f.frames.Readings()
	if names := marks.Names(f.file.Path); names != "" {
		readings[schemas.ReadingSourceMarks] = names
	}
	return readings
}

// Close stops the reader and releases the file. The time for reading is counted as work of the device.
func (f *Footage) Close() {
	if f.count != nil {
		s := f.frames.Spent()
		f.count(kernels.OpDecode, kernels.Count{Calls: s.Frames, Time: s.Decode, Bytes: s.Decoded})
		f.count(kernels.OpResize, kernels.Count{Calls: s.Frames, Time: s.Resize, Bytes: s.Decoded + s.Resized})
	}
	_ = f.frames.Close() // read only, nothing to flush
	f.file.Release()
}
