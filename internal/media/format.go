package media

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

// format is the format of a file by its first bytes, independent of its name.
type format string

// The formats that this package reads. ffmpeg reads everything else.
const (
	y4mFormat   format = "y4m"
	pngFormat   format = "png"
	jpegFormat  format = "jpeg"
	webpFormat  format = "webp"
	bmpFormat   format = "bmp"
	tiffFormat  format = "tiff"
	gifFormat   format = "gif" // with one frame
	otherFormat format = "ffmpeg"
	noFormat    format = "none" // it has the name of an image or a y4m, but is neither, and not a video
)

// headBytes is the number of bytes that formatOf needs.
const headBytes = 32

// formatOf returns the format of a file. An animated gif is a video, which ffmpeg reads.
func formatOf(f io.ReaderAt) (format, error) {
	var space [headBytes]byte
	n, err := f.ReadAt(space[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	head := space[:n]
	starts := func(text string) bool { return bytes.HasPrefix(head, []byte(text)) }
	switch {
	case starts("YUV4MPEG2"):
		return y4mFormat, nil
	case starts("\x89PNG\r\n\x1a\n"):
		return pngFormat, nil
	case starts("\xff\xd8\xff"):
		return jpegFormat, nil
	case starts("RIFF") && n >= 12 && string(head[8:12]) == "WEBP":
		return webpFormat, nil
	case starts("BM") && n >= 18 && binary.LittleEndian.Uint32(head[14:]) <= 124 && binary.LittleEndian.Uint32(head[14:]) >= 12:
		return bmpFormat, nil
	case starts("II*\x00"), starts("MM\x00*"):
		return tiffFormat, nil
	case starts("GIF87a"), starts("GIF89a"):
		if gifFrames(f, 2) < 2 {
			return gifFormat, nil
		}
	}
	return otherFormat, nil
}

// isImage reports whether files of the format are images.
func (f format) isImage() bool { return f != y4mFormat && f != otherFormat && f != noFormat }

// codec reads the images of a format.
type codec struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	bytes  int // most bytes per pixel for decoding; png and jpeg: see decodedBytes
}

var codecs = map[format]codec{
	pngFormat:  {png.DecodeConfig, png.Decode, 0},
	jpegFormat: {jpeg.DecodeConfig, jpeg.Decode, 0},
	webpFormat: {webp.DecodeConfig, webp.Decode, 8},
	bmpFormat:  {bmp.DecodeConfig, bmp.Decode, 4},
	tiffFormat: {tiff.DecodeConfig, tiff.Decode, 16},
	gifFormat:  {gif.DecodeConfig, decodeGIF, 2},
}

// decodeImage decodes an image.
func (f format) decodeImage(r io.ReaderAt) (image.Image, error) {
	m, err := codecs[f].decode(bufio.NewReader(section(r)))
	if gray, ok := m.(*image.Gray); ok && f == tiffFormat {
		unfax(gray, r)
	}
	return m, f.explain(err)
}

// decodeConfig reads the size of an image.
func (f format) decodeConfig(r io.ReaderAt) (image.Config, error) {
	var head [headBytes]byte
	n, _ := r.ReadAt(head[:], 0)
	const animated = 1 << 1
	if f == webpFormat && n > 20 && string(head[12:16]) == "VP8X" && head[20]&animated != 0 {
		return image.Config{}, errors.New("an animated webp is not read; convert it to mp4, gif or a folder of png images")
	}
	c, err := codecs[f].config(bufio.NewReader(section(r)))
	return c, f.explain(err)
}

func section(r io.ReaderAt) *io.SectionReader { return io.NewSectionReader(r, 0, math.MaxInt64) }

// explain adds advice to the error of an image that cannot be read.
func (f format) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case f == webpFormat, f == bmpFormat, f == tiffFormat:
		return fmt.Errorf("a %s of a kind that is not read, or a damaged one (%w); convert it to png", f, err)
	case f == gifFormat:
		return fmt.Errorf("the gif is damaged (%w)", err)
	}
	return err
}

// unfax inverts a fax in which 0 is black: golang.org/x/image/tiff v0.46 reads it as white, libtiff does not.
func unfax(m *image.Gray, r io.ReaderAt) {
	const group3, group4, blackIsZero = 3, 4, 1
	packed, _, _ := tiffTag(r, tagCompression)
	photometric, _, _ := tiffTag(r, tagPhotometric)
	if (packed == group3 || packed == group4) && photometric == blackIsZero {
		for i, v := range m.Pix {
			m.Pix[i] = ^v
		}
	}
}

// gifFrames counts the frames of a gif, up to most.
func gifFrames(f io.ReaderAt, most int) int {
	frames, _ := scanGIF(section(f), most)
	return frames
}

// scanGIF counts the frames of a gif from its blocks (GIF89a, appendix A), up to most. control is the position of the flags of
// the last graphic control block, 0 if there is none.
func scanGIF(r io.Reader, most int) (frames int, control int64) {
	in, at := bufio.NewReader(r), int64(0)
	skip := func(n int) bool {
		done, err := in.Discard(n)
		at += int64(done)
		return err == nil
	}
	next := func() (byte, bool) {
		b, err := in.ReadByte()
		at++
		return b, err == nil
	}
	table := func(flags byte) bool { return flags&0x80 == 0 || skip(3<<(flags&7+1)) }
	blocks := func() bool { // skips sub-blocks up to an empty one
		for {
			n, ok := next()
			if !ok || !skip(int(n)) {
				return false
			}
			if n == 0 {
				return true
			}
		}
	}
	if !skip(10) {
		return 0, 0
	}
	flags, ok := next()
	if !ok || !skip(2) || !table(flags) {
		return 0, 0
	}
	for frames < most {
		kind, ok := next()
		if !ok {
			return frames, control
		}
		const extension, picture, graphicControl = 0x21, 0x2c, 0xf9
		switch kind {
		case extension:
			label, ok := next()
			if label == graphicControl {
				control = at + 1 // after the size
			}
			if !ok || !blocks() {
				return frames, control
			}
		case picture:
			frames++
			if !skip(8) {
				return frames, control
			}
			if flags, ok = next(); !ok || !table(flags) || !skip(1) || !blocks() {
				return frames, control
			}
		default:
			return frames, control
		}
	}
	return frames, control
}

// maxGIF limits a gif with one frame, in bytes.
const maxGIF = 1 << 28

// decodeGIF decodes the only frame of a gif. As in Pillow, the area around it has the transparent colour, else the first
// colour, and transparent pixels have their palette colour.
func decodeGIF(r io.Reader) (image.Image, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxGIF))
	if err != nil {
		return nil, err
	}
	rest := byte(0)
	const transparent = 1 // flags, a delay of two bytes, and the index of the colour are adjacent
	if _, at := scanGIF(bytes.NewReader(data), 1); at > 0 && at+3 < int64(len(data)) && data[at]&transparent != 0 {
		data[at] &^= transparent
		rest = data[at+3]
	}
	all, err := gif.DecodeAll(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	m := all.Image[0]
	whole := image.Rect(0, 0, all.Config.Width, all.Config.Height)
	if m.Rect == whole {
		return m, nil
	}
	canvas := image.NewPaletted(whole, m.Palette)
	for i := range canvas.Pix {
		canvas.Pix[i] = min(rest, byte(len(m.Palette)-1))
	}
	for y := m.Rect.Min.Y; y < m.Rect.Max.Y; y++ {
		copy(canvas.Pix[canvas.PixOffset(m.Rect.Min.X, y):][:m.Rect.Dx()], m.Pix[m.PixOffset(m.Rect.Min.X, y):])
	}
	return canvas, nil
}
