package config

import (
	"cmp"
	"strings"

	"latentbeam/schemas"
)

// size checks that a size is given in one way only and that its name is known.
func (v *validator) size() {
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

// sizeNames checks the names of a size, of which rows may give the other one.
func sizeNames(resolution, ratio string) (err error) {
	for _, r := range schemas.Resolutions() {
		if _, _, err = schemas.SizeByName(cmp.Or(resolution, r), cmp.Or(ratio, "1:1")); err == nil || resolution != "" {
			break
		}
	}
	return err
}
