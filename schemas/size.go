package schemas

// None is the value of a text parameter that disables the job's default for the row.
const None = "none"

// sizeFrom takes the size from d if the row has none. If the row has only a resolution or only an aspect ratio, the other one
// comes from d. Height and width win over both.
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

// Sized replaces resolution and aspect ratio by the height and width that naming gives. The error starts with the name of the
// wrong parameter.
func (r PromptRow) Sized(naming *Naming) (PromptRow, error) {
	if r.Height == 0 && r.Width == 0 && (r.Resolution != "" || r.AspectRatio != "") {
		h, w, err := naming.Size(r.Resolution, r.AspectRatio)
		if err != nil {
			return r, err
		}
		r.Height, r.Width = h, w
	}
	r.Resolution, r.AspectRatio = "", ""
	return r, nil
}
