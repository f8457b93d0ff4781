package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxBytes is the most that a name takes, without its extension.
const MaxBytes = 200

// hashBytes is the length of what is put behind a name that was cut: "-" and eight digits.
const hashBytes = 9

// NameTemplate is text with columns in braces, such as "{id}-{seed}".
type NameTemplate struct{ parts []namePart }

// namePart is a text, or a column where name is set.
type namePart struct{ text, name string }

// ParseName reads a template. It has one column at least, for names must differ, and no slash.
func ParseName(text string) (*NameTemplate, error) {
	t := &NameTemplate{}
	rest := text
	for rest != "" {
		before, after, found := strings.Cut(rest, "{")
		if strings.ContainsAny(before, "}/") {
			return nil, fmt.Errorf("%q has a brace without its other half, or a slash; write it as in {id}-{seed}", text)
		}
		if before != "" {
			t.parts = append(t.parts, namePart{text: before})
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		if name = strings.TrimSpace(name); !closed || name == "" || strings.Contains(name, "{") {
			return nil, fmt.Errorf("%q has a brace without its other half, or no column in it; write it as in {id}-{seed}", text)
		}
		t.parts = append(t.parts, namePart{name: name})
		rest = behind
	}
	if len(t.Columns()) == 0 {
		return nil, fmt.Errorf("%q names no column, so all files would have one name; write it as in {id}-{seed}", text)
	}
	return t, nil
}

// Columns lists the columns that the template names.
func (t *NameTemplate) Columns() []string {
	var names []string
	for _, p := range t.parts {
		if p.name != "" && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// Name is the name of a row, cleaned. value gives the text of a column.
func (t *NameTemplate) Name(value func(column string) string) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			b.WriteString(p.text)
		} else {
			b.WriteString(value(p.name))
		}
	}
	return CleanName(b.String())
}

// CleanName makes a name that every system takes. What no system takes becomes "_". A name longer than MaxBytes is cut and
// gets a hash of all of it. An empty name becomes "_".
func CleanName(s string) string {
	whole := norm.NFC.String(strings.ToValidUTF8(s, "_"))
	name := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune(`<>:"/\|?*`, r) {
			return '_'
		}
		return r
	}, whole)
	name = strings.TrimRight(strings.TrimSpace(name), ". ")
	if strings.HasPrefix(name, ".") || reserved(name) {
		name = "_" + name
	}
	if name == "" {
		return "_"
	}
	return ShortName(name, whole)
}

// ShortName is a name of at most MaxBytes: one that is longer is cut, and ends in a digest of whole.
func ShortName(name, whole string) string {
	if len(name) <= MaxBytes {
		return name
	}
	cut := MaxBytes - hashBytes
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	sum := sha256.Sum256([]byte(whole))
	return strings.TrimRight(name[:cut], ". ") + "-" + hex.EncodeToString(sum[:])[:hashBytes-1]
}

// IDStem is the name, without an extension, of the files that exports write for an id. Different ids may have one stem.
func IDStem(id string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '-'
		}
		return r
	}, id)
}

// FoldName is a name as systems compare it that know no case.
func FoldName(name string) string { return strings.ToLower(norm.NFC.String(name)) }

// reserved reports whether Windows keeps the name for a device, with any extension.
func reserved(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	stem = strings.TrimSpace(stem)
	if slices.Contains([]string{"con", "prn", "aux", "nul"}, stem) {
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && stem[3] >= '0' && stem[3] <= '9'
}
