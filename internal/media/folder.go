package media

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"io"
	"os"
	"path/filepath"

	"latentbeam/internal/system"
)

// folder presents a list of image files as the frames of a video. It decodes one frame at a time.
type folder struct {
	info    SourceInfo
	files   []string
	at      int
	release func() // releases the memory for a frame
}

func openFolder(ctx context.Context, dir string) (Source, error) {
	files, err := folderImages(dir)
	if err != nil {
		return nil, err
	}
	return openFolderOf(ctx, files, false)
}

// openFolderOf gets the size of the frames from the first image.
func openFolderOf(ctx context.Context, files []string, still bool) (Source, error) {
	f, err := system.OpenRegular(files[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	look, config, err := readConfig(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(files[0]), err)
	}
	s := &folder{info: SourceInfo{Width: config.Width, Height: config.Height, Still: still}, files: files}
	if err = s.info.check(); err != nil {
		return nil, err
	}
	perPixel := max(imageBytes, codecs[look.format].bytes)
	if still {
		perPixel = decodedBytes(f, look.format, config)
	}
	if look.turn > 1 {
		perPixel += rgbBytes
	}
	s.release, err = s.info.acquireRoom(ctx, perPixel+rgbBytes)
	return s, err
}

// readConfig reads the format of an image and its display size.
func readConfig(f *os.File) (l Look, c image.Config, err error) {
	if l.format, err = formatOf(f); err != nil {
		return l, c, err
	}
	if !l.format.isImage() {
		return l, c, image.ErrFormat
	}
	l.turn = orientation(f, l.format)
	c, err = l.format.decodeConfig(f)
	if l.turn >= 5 {
		c.Width, c.Height = c.Height, c.Width
	}
	return l, c, err
}

func (s *folder) Info() SourceInfo { return s.info }

func (s *folder) Close() error {
	s.release()
	return nil
}

// Skip skips images without opening them.
func (s *folder) Skip(n int) (int, error) {
	n = min(n, len(s.files)-s.at)
	s.at += n
	return n, nil
}

// Next decodes the next image.
func (s *folder) Next(rgb []byte) error {
	if s.at == len(s.files) {
		return io.EOF
	}
	file := s.files[s.at]
	s.at++
	if err := s.decode(rgb, file); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), withoutPlace(err))
	}
	return nil
}

func (s *folder) decode(rgb []byte, file string) error {
	f, err := system.OpenRegular(file)
	if err != nil {
		return err
	}
	defer f.Close()
	look, config, err := readConfig(f)
	if err != nil {
		return err
	}
	if config.Width != s.info.Width || config.Height != s.info.Height {
		return fmt.Errorf("the image has %dx%d pixels, the first of the folder %dx%d", config.Width, config.Height,
			s.info.Width, s.info.Height)
	}
	m, err := look.format.decodeImage(f)
	if err != nil {
		return err
	}
	size := m.Bounds()
	stored := rgb
	if look.turn > 1 {
		stored = make([]byte, len(rgb))
	}
	if 3*size.Dx()*size.Dy() != len(rgb) {
		return fmt.Errorf("the image has %dx%d pixels, its header says %dx%d", size.Dx(), size.Dy(), config.Width, config.Height)
	}
	fromImage(stored, m, look.format)
	if look.turn > 1 {
		turned(rgb, stored, size.Dx(), size.Dy(), look.turn)
	}
	return nil
}

// fromImage copies the colours of an image and ignores transparency, as PIL's convert("RGB") does.
func fromImage(rgb []byte, m image.Image, kind format) {
	if transparent, ok := m.(*image.NYCbCrA); ok {
		m = &transparent.YCbCr
	}
	if planes, ok := m.(*image.YCbCr); ok {
		if kind == webpFormat {
			fromVP8(rgb, planes)
		} else {
			fromYCbCr(rgb, planes)
		}
		return
	}
	b := m.Bounds()
	w := b.Dx()
	for y := range b.Dy() {
		out := rgb[y*w*3:][:w*3]
		for x := range w {
			opaque(out[3*x:][:3], m, b.Min.X+x, b.Min.Y+y)
		}
	}
}

func opaque(out []byte, m image.Image, x, y int) {
	switch m := m.(type) {
	case *image.Paletted:
		c := color.Color(color.Black) // for an index beyond the palette, in a damaged file
		if i := int(m.ColorIndexAt(x, y)); i < len(m.Palette) {
			c = m.Palette[i]
		}
		opaqueColour(out, c)
	case *image.NRGBA:
		copy(out, m.Pix[m.PixOffset(x, y):][:3])
	case *image.NRGBA64:
		p := m.Pix[m.PixOffset(x, y):]
		out[0], out[1], out[2] = p[0], p[2], p[4]
	default:
		opaqueColour(out, m.At(x, y))
	}
}

// opaqueColour writes a colour and ignores its transparency.
func opaqueColour(out []byte, c color.Color) {
	if straight, ok := c.(color.NRGBA); ok { // also in palettes, because palettes of png contain the colours of transparent pixels
		out[0], out[1], out[2] = straight.R, straight.G, straight.B
		return
	}
	r, g, b, a := c.RGBA()
	if a > 0 && a < 0xffff {
		r, g, b = r*0xffff/a, g*0xffff/a, b*0xffff/a
	}
	out[0], out[1], out[2] = byte(r>>8), byte(g>>8), byte(b>>8)
}

// decodedBytes returns how many bytes per pixel the decoder of an image allocates.
func decodedBytes(f io.ReaderAt, kind format, c image.Config) int {
	if kind == jpegFormat {
		if isBaseline(f) {
			return planesBytes
		}
		return imageBytes
	}
	var head [32]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || kind != pngFormat {
		return max(1, codecs[kind].bytes)
	}
	bytes := 8
	_, palette := c.ColorModel.(color.Palette)
	switch {
	case palette || c.ColorModel == color.GrayModel:
		bytes = 1
	case c.ColorModel == color.Gray16Model:
		bytes = 2
	case c.ColorModel == color.RGBAModel || c.ColorModel == color.NRGBAModel:
		bytes = 4
	}
	if interlaced := head[28] != 0; interlaced { // its passes are images too
		bytes *= 2
	}
	return bytes
}

// isBaseline reports whether a file is a jpeg with one to three planes whose coefficients need not be kept. It searches the
// segment that starts the frame (ITU T.81, B.1.1.3).
func isBaseline(f io.ReaderAt) bool {
	const longest = 1 << 10 // limit for the list of segments
	at := int64(2)
	for range longest {
		var segment [10]byte
		if _, err := f.ReadAt(segment[:], at); err != nil || segment[0] != 0xff {
			return false
		}
		switch segment[1] {
		case 0xc0, 0xc1:
			return segment[9] <= planesBytes
		case 0xc2:
			return false
		case 0xff: // fill byte
			at++
			continue
		}
		at += 2 + int64(segment[2])<<8 + int64(segment[3])
	}
	return false
}
