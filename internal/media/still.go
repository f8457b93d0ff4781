package media

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"

	"latentbeam/schemas"
)

// posterQuality is the JPEG quality with which a poster looks like its video.
const posterQuality = 85

// Poster returns one frame of width x height RGB pixels as JPEG.
func Poster(frame []byte, width, height int) ([]byte, error) {
	c := schemas.Clip{Width: width, Height: height, FPS: 1, Frames: [][]byte{frame}}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("make poster: %w", err)
	}
	var b bytes.Buffer
	options := &jpeg.Options{Quality: posterQuality}
	if err := jpeg.Encode(&b, toImage(frame, width, height), options); err != nil {
		return nil, fmt.Errorf("make poster of %dx%d: %w", width, height, err)
	}
	return b.Bytes(), nil
}

// encodePNG encodes the first frame without loss.
func encodePNG(c *schemas.Clip) (*schemas.Encoded, error) {
	var b bytes.Buffer
	if err := png.Encode(&b, toImage(c.Frames[0], c.Width, c.Height)); err != nil {
		return nil, fmt.Errorf("encode png of %dx%d: %w", c.Width, c.Height, err)
	}
	return &schemas.Encoded{Data: b.Bytes(), Ext: ".png", Codec: "png", Recon: c}, nil
}

func toImage(rgb []byte, width, height int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for i, o := 0, 0; i+2 < len(rgb); i, o = i+3, o+4 {
		m.Pix[o], m.Pix[o+1], m.Pix[o+2], m.Pix[o+3] = rgb[i], rgb[i+1], rgb[i+2], 255
	}
	return m
}
