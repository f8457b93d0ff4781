package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"path/filepath"
	"strings"

	"github.com/Eyevinn/mp4ff/mp4"

	"latentbeam/internal/media"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// codecs maps sample entries of mp4 to names of codecs. Other codecs have the name of their entry.
var codecs = map[string]string{"avc1": "h264", "avc3": "h264", "hvc1": "hevc", "hev1": "hevc", "av01": "av1",
	"vp09": "vp9"}

func readVideo(ctx context.Context, e *stages.Element, path string) error {
	data, err := readWhole(path)
	if err != nil {
		return err
	}
	v := &schemas.Encoded{Data: data, Ext: strings.ToLower(filepath.Ext(path))}
	switch v.Ext {
	case ".mp4":
		if err := describe(v); err != nil {
			return fmt.Errorf("the mp4 cannot be read: %w", err)
		}
		e.Video, e.Poster = v, nil
		return nil
	case ".png":
		c, err := decode(ctx, e, path, 1)
		if err != nil {
			return err
		}
		v.Codec, v.Recon, v.Width, v.Height, v.Frames = "png", c, c.Width, c.Height, 1
		if e.Poster, err = media.Poster(c.Frames[0], c.Width, c.Height); err != nil {
			return err
		}
		e.Video = v
		return nil
	}
	return fmt.Errorf("a video %s: mp4 is taken, and png for one image", filepath.Ext(path))
}

// describe reads the size, the number of frames and the codec of an mp4.
func describe(v *schemas.Encoded) (err error) {
	defer func() {
		if recover() != nil { // the mp4 reader does not check boxes
			err = errors.New("the file is damaged")
		}
	}()
	file, err := mp4.DecodeFile(bytes.NewReader(v.Data), mp4.WithDecodeMode(mp4.DecModeLazyMdat))
	if err != nil {
		return err
	}
	if file.Moov == nil || file.IsFragmented() {
		return errors.New("it is not a plain file with one index (-movflags +faststart)")
	}
	for _, track := range file.Moov.Traks {
		if track.Mdia == nil || track.Mdia.Hdlr == nil || track.Mdia.Hdlr.HandlerType != "vide" {
			continue
		}
		stbl := track.Mdia.Minf.Stbl
		if stbl == nil || stbl.Stsd == nil || stbl.Stsz == nil || len(stbl.Stsd.Children) == 0 {
			return errors.New("its video track is not described")
		}
		entry := stbl.Stsd.Children[0]
		if v.Codec = codecs[entry.Type()]; v.Codec == "" {
			v.Codec = entry.Type()
		}
		v.Width, v.Height = int(track.Tkhd.Width>>16), int(track.Tkhd.Height>>16)
		if visual, ok := entry.(*mp4.VisualSampleEntryBox); ok {
			v.Width, v.Height = int(visual.Width), int(visual.Height)
		}
		v.Frames = int(stbl.Stsz.SampleNumber)
		if v.Frames == 0 {
			return errors.New("it has no frames")
		}
		return checkSize(v.Width, v.Height)
	}
	return errors.New("it has no video track")
}

// readPoster reads an image for the gallery. A JPEG stays unchanged; other images are converted to JPEG.
func readPoster(ctx context.Context, e *stages.Element, dir, path string) error {
	path, err := inside(dir, path)
	if err != nil {
		return fmt.Errorf("poster: %w", err)
	}
	data, err := readWhole(path)
	if err != nil {
		return fmt.Errorf("poster: %w", err)
	}
	_, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err == nil && format == "jpeg" {
		e.Poster = data
		return nil
	}
	c, err := decode(ctx, e, path, 1)
	if err == nil {
		e.Poster, err = media.Poster(c.Frames[0], c.Width, c.Height)
	}
	if err != nil {
		return fmt.Errorf("poster: %w", err)
	}
	return nil
}
