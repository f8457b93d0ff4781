package stdit

import (
	"encoding/json"
	"fmt"
	"strings"

	"latentbeam/stages/diffuse/dit"
)

// Version is a version of the architecture, named after the Open-Sora release.
type Version int

// The versions: STDiT, STDiT2, and STDiT3 without and with windows.
const (
	OpenSora10 Version = iota
	OpenSora11
	OpenSora12
	OpenSora13
)

// String returns "1.0" to "1.3".
func (v Version) String() string { return fmt.Sprintf("1.%d", int(v)) }

// title names the version for people.
func (v Version) title() string { return "Open-Sora " + v.String() }

// recognise reports whether a config.json belongs to a version of the family. A file that names no architecture does.
func recognise(config []byte) bool {
	class, err := dit.ClassName(config)
	_, versionErr := identity{}.version(class)
	return err == nil && versionErr == nil
}

// identity has the keys of a config.json that identify the architecture. STDiT3 of 1.3 has the same class name as STDiT3 of
// 1.2, but keys of its own, and latents with 16 channels.
type identity struct {
	InChannels     int             `json:"in_channels"`
	KernelSize     json.RawMessage `json:"kernel_size"`
	UseSpatialRope *bool           `json:"use_spatial_rope"`
}

// version returns the version that a config.json describes. A file without an architecture is 1.0, because its published files
// had no config.json.
func (id identity) version(class string) (Version, error) {
	family, _, _ := strings.Cut(class, "-") // "STDiT2-XL/2" is the name in the reference's registry
	switch family {
	case "", "STDiT":
		return OpenSora10, nil
	case "STDiT2":
		return OpenSora11, nil
	case "STDiT3":
		if id.InChannels == 16 || id.KernelSize != nil || id.UseSpatialRope != nil {
			return OpenSora13, nil
		}
		return OpenSora12, nil
	}
	return 0, fmt.Errorf("the architecture is %q; the denoiser runs STDiT, STDiT2 and STDiT3 "+
		"(Open-Sora 1.0 to 1.3)", class)
}
