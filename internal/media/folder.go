package media

import (
	"fmt"
	"image"
	_ "image/jpeg" // formats of images
	_ "image/png"
	"io"
	"os"
	"path/filepath"
)

// folder is a list of image files as the frames of a video. One frame is decoded at a time.
type folder struct {
	info  Info
	files []string
	at    int
}

func openFolder(dir string) (Source, error) {
	files, err := folderImages(dir)
	if err != nil {
		return nil, err
	}
	return openFolderOf(files, false)
}

// openFolderOf learns the size of the frames from the first image.
func openFolderOf(files []string, still bool) (Source, error) {
	f, err := os.Open(files[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	config, _, err := image.DecodeConfig(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(files[0]), err)
	}
	s := &folder{info: Info{Width: config.Width, Height: config.Height, Still: still}, files: files}
	return s, s.info.check()
}

func (s *folder) Info() Info   { return s.info }
func (s *folder) Close() error { return nil }

// Skip passes over images without opening them.
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
		return fmt.Errorf("%s: %w", filepath.Base(file), unplaced(err))
	}
	return nil
}

func (s *folder) decode(rgb []byte, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	config, _, err := image.DecodeConfig(f)
	if err != nil {
		return err
	}
	if config.Width != s.info.Width || config.Height != s.info.Height {
		return fmt.Errorf("the image has %dx%d pixels, the first of the folder %dx%d", config.Width, config.Height,
			s.info.Width, s.info.Height)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	m, _, err := image.Decode(f)
	if err != nil {
		return err
	}
	fromImage(rgb, m)
	return nil
}

// fromImage copies the colours of an image; how transparent they are is left out, as PIL's convert("RGB")
// does.
func fromImage(rgb []byte, m image.Image) {
	if jpeg, ok := m.(*image.YCbCr); ok {
		fromYCbCr(rgb, jpeg)
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
	case *image.NRGBA:
		copy(out, m.Pix[m.PixOffset(x, y):][:3])
	case *image.NRGBA64:
		p := m.Pix[m.PixOffset(x, y):]
		out[0], out[1], out[2] = p[0], p[2], p[4]
	default:
		r, g, b, a := m.At(x, y).RGBA()
		if a > 0 && a < 0xffff {
			r, g, b = r*0xffff/a, g*0xffff/a, b*0xffff/a
		}
		out[0], out[1], out[2] = byte(r>>8), byte(g>>8), byte(b>>8)
	}
}
