package gallery

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// pixelBelow is the larger side, in pixels, under which a video is enlarged as sharp squares: blurred, a
// picture this small shows nothing.
const pixelBelow = 128

// card is what one item shows.
type card struct {
	Index         int // on the page, from 1
	URL, Poster   string
	Still, Pixel  bool
	Width, Height int
	Prompt        string
	Caption       []string // short facts under the prompt
	Details       []shownDetail
}

func newCard(index int, it *Item) (*card, error) {
	if err := it.validate(); err != nil {
		return nil, err
	}
	c := &card{
		Index: index, Width: it.Width, Height: it.Height,
		Still: strings.EqualFold(path.Ext(it.Video), ".png"),
		Pixel: max(it.Width, it.Height) < pixelBelow, Prompt: clean(it.Prompt),
		Caption: caption(it),
	}
	var err error
	if c.URL, err = link(it.Video); err != nil {
		return nil, fmt.Errorf("video: %w", err)
	}
	if it.Poster != "" {
		if c.Poster, err = link(it.Poster); err != nil {
			return nil, fmt.Errorf("poster: %w", err)
		}
	}
	c.Details, err = shownDetails(append(ownDetails(it), it.Details...))
	return c, err
}

// caption is "64×64", "16 frames", "seed 42".
func caption(it *Item) []string {
	return []string{
		fmt.Sprintf("%d×%d", it.Width, it.Height),
		plural(it.NumFrames, "frame"),
		"seed " + strconv.FormatInt(it.Seed, 10),
	}
}

// ownDetails are the item's fields as the viewer lists them.
func ownDetails(it *Item) []Detail {
	var d []Detail
	if it.ID != "" {
		d = append(d, Detail{Name: "ID", Value: it.ID})
	}
	d = append(d, Detail{Name: "Seed", Value: strconv.FormatInt(it.Seed, 10)},
		Detail{Name: "Size", Value: fmt.Sprintf("%d × %d", it.Width, it.Height)})
	if it.NumFrames > 1 {
		d = append(d, Detail{Name: "Length", Value: length(it.NumFrames, it.FPS)})
	}
	return append(d, Detail{Name: "File", Value: it.Video, Link: it.Video})
}

// length is "16 frames at 8 fps, 2 s".
func length(frames int, fps float64) string {
	text := plural(frames, "frame")
	if !(fps > 0) {
		return text
	}
	seconds := strconv.FormatFloat(float64(frames)/fps, 'f', 2, 64)
	seconds = strings.TrimRight(strings.TrimRight(seconds, "0"), ".")
	return fmt.Sprintf("%s at %s fps, %s s", text, strconv.FormatFloat(fps, 'g', 6, 64), seconds)
}

func shownDetails(details []Detail) ([]shownDetail, error) {
	var shown []shownDetail
	for _, d := range details {
		s := shownDetail{Name: clean(d.Name), Value: clean(d.Value)}
		if d.Link != "" {
			u, err := link(d.Link)
			if err != nil {
				return nil, fmt.Errorf("detail %q: %w", d.Name, err)
			}
			s.URL = u
		}
		shown = append(shown, s)
	}
	return shown, nil
}
