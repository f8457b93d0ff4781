package schemas

import (
	"errors"
)

// None in a text parameter says that a default of the job does not hold for the row.
const None = "none"

// sizeFrom takes the size from d where the row has none. A row's resolution or aspect ratio alone goes with the
// other one of d; sides that are given stand above both.
func (r PromptRow) sizeFrom(d PromptRow) PromptRow {
	named := r.Resolution != "" || r.AspectRatio != ""
	switch {
	case r.Height != 0 || r.Width != 0:
		fill(&r.Height, d.Height)
		fill(&r.Width, d.Width)
		r.Resolution, r.AspectRatio = "", ""
	case named || d.Height == 0 && d.Width == 0:
		fill(&r.Resolution, d.Resolution)
		fill(&r.AspectRatio, d.AspectRatio)
	default:
		r.Height, r.Width = d.Height, d.Width
		r.Resolution, r.AspectRatio = d.Resolution, d.AspectRatio
	}
	return r
}

// Sized returns the row with height and width in place of a resolution and an aspect ratio. The error begins
// with the parameter at fault.
func (r PromptRow) Sized() (PromptRow, error) {
	switch {
	case r.Height != 0 || r.Width != 0 || r.Resolution == "" && r.AspectRatio == "":
	case r.AspectRatio == "":
		return r, errors.New("aspect_ratio is missing: a resolution needs one, such as 9:16 (height:width)")
	case r.Resolution == "":
		return r, errors.New("resolution is missing: an aspect_ratio needs one, such as 720p")
	default:
		h, w, err := SizeByName(r.Resolution, r.AspectRatio)
		if err != nil {
			return r, err
		}
		r.Height, r.Width = h, w
	}
	r.Resolution, r.AspectRatio = "", ""
	return r, nil
}
