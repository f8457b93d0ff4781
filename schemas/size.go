package schemas

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

// Sized returns the row with height and width in place of a resolution and an aspect ratio, as naming reads them. The error
// begins with the parameter at fault.
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
