package gallery

import (
	"encoding/json"
	"fmt"
)

// cardJSON encodes an item for the page's data: a JSON array of the columns that rows.js names. The seed is a string,
// because JavaScript numbers cannot hold all 64 bits. The encoder escapes "<", ">" and "&", so no text can close the element
// that holds the data.
func cardJSON(it *Item) ([]byte, error) {
	if err := it.validate(); err != nil {
		return nil, err
	}
	video := clean(it.Outside)
	var err error
	if video == "" && !it.Unseen {
		if video, err = link(it.Video); err != nil {
			return nil, fmt.Errorf("video: %w", err)
		}
	}
	poster := ""
	if it.Poster != "" {
		if poster, err = link(it.Poster); err != nil {
			return nil, fmt.Errorf("poster: %w", err)
		}
	}
	shown, err := shownDetails(it.Details)
	if err != nil {
		return nil, err
	}
	details := make([][]string, 0, len(shown))
	for _, d := range shown {
		detail := []string{d.Name, d.Value}
		if d.URL != "" {
			detail = append(detail, d.URL)
		}
		details = append(details, detail)
	}
	seed := fmt.Sprint(it.Seed)
	if it.Unseeded {
		seed = ""
	}
	return json.Marshal([]any{clean(it.ID), clean(it.Source), clean(it.Prompt), video, poster, it.Width, it.Height,
		it.NumFrames, it.FPS, seed, it.Steps, it.Guidance, clean(it.Model), clean(it.Key), details, it.Sample})
}

// shownDetails converts details to the form that templates use.
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
