package stdit

import (
	"encoding/json"
	"fmt"
	"strings"

	"latentbeam/stages/diffuse/dit"
)

// Version is a generation of the architecture, named by the Open-Sora that it belongs to.
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

// recognise reports whether a config.json is that of a version of the family. One that names no architecture is.
func recognise(config []byte) bool {
	class, err := dit.ClassName(config)
	_, versionErr := identity{}.version(class)
	return err == nil && versionErr == nil
}

// identity is what a config.json says of the architecture. STDiT3 of 1.3 goes by the same name as that of 1.2,
// but knows keys of its own, and has latents of 16 channels.
type identity struct {
	InChannels     int             `json:"in_channels"`
	KernelSize     json.RawMessage `json:"kernel_size"`
	UseSpatialRope *bool           `json:"use_spatial_rope"`
}

// version finds the version that a config.json of the named architecture describes; one that names no architecture is of 1.0, whose
// files came without.
func (id identity) version(class string) (Version, error) {
	family, _, _ := strings.Cut(class, "-") // "STDiT2-XL/2" is its name in the reference's registry
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
