package config

import (
	"cmp"
	"strings"

	"latentbeam/schemas"
)

// validateSize checks that a size is given either by sides or by name, and that the name is known.
func (v *validator) validateSize() {
	d := v.config.Defaults
	named := d.Resolution != "" || d.AspectRatio != ""
	switch {
	case named && (d.Height != 0 || d.Width != 0):
		v.problem("defaults", "give height and width, or resolution and aspect_ratio",
			"defaults gives a size twice, by its sides and by a name")
	case named:
		if err := sizeNames(string(d.Resolution), string(d.AspectRatio)); err != nil {
			at, _, _ := strings.Cut(err.Error(), " ")
			v.problem("defaults."+at, "", "defaults: %v", err)
		}
	}
}

// sizeNames checks the names of a size. One of them may be "", because rows can give it. A ratio may be height:width or
// width:height here: which one it is depends on the model.
func sizeNames(resolution, ratio string) (err error) {
	for _, r := range schemas.Resolutions() {
		for _, naming := range []*schemas.Naming{nil, schemas.OpenSora} {
			if _, _, err = naming.Size(cmp.Or(resolution, r), cmp.Or(ratio, "1:1")); err == nil {
				return nil
			}
		}
		if resolution != "" {
			break
		}
	}
	return err
}
