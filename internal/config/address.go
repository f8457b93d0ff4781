package config

import (
	"latentbeam/internal/config/document"
	"slices"
	"strings"
)

// Schemes of the addresses that a job may name. A program with stores of its own adds to them (internal/storage/store/open).
var (
	BucketSchemes = []string{"gs", "s3"}
	InputSchemes  = []string{"gs", "s3", "https", "http"}
)

// IsAddress reports whether text is an address such as gs://bucket/x, not a path.
func IsAddress(text string) bool {
	scheme, _, found := strings.Cut(text, "://")
	return found && !strings.ContainsAny(scheme, "/.")
}

// CheckAddress returns what is wrong with an address and how to fix it, or "" if it is right or a path. The returned texts
// contain no credentials.
func CheckAddress(text string, schemes []string) (problem, fix string) {
	if !IsAddress(text) {
		return "", ""
	}
	scheme, rest, _ := strings.Cut(text, "://")
	host, key, _ := strings.Cut(rest, "/")
	web := scheme == "http" || scheme == "https"
	switch {
	case strings.Contains(host, "@"):
		return "the address holds an @, as if it had credentials", "credentials come from the environment"
	case !slices.Contains(schemes, scheme):
		return "no address of " + document.Clip(scheme, document.ValueRunes) + ":// can be read here",
			"give a path, or an address that begins with " + OrList(schemes)
	case web && strings.ContainsAny(text, "?#"):
		return "the address has a query (?), which often is a credential, and an output shows its job",
			"download the file, and give its path"
	case web && strings.ContainsAny(text, "*["):
		return "an address of a web server names one file", "give one address for each file"
	case host == "" || strings.ContainsAny(host, " ?#%\\*[") || !web && strings.Contains(host, ":"):
		return "the name of the bucket or server is missing or no name", "write " + scheme + "://" + exampleHost(web) + "/..."
	case web && key == "":
		return "the address names a server and no file", "write https://host/file.csv"
	}
	return "", ""
}

func exampleHost(web bool) string {
	if web {
		return "host"
	}
	return "bucket"
}

// OrList formats schemes for a message: "gs://, s3:// or https://".
func OrList(schemes []string) string {
	var b strings.Builder
	for i, s := range schemes {
		switch {
		case i > 0 && i == len(schemes)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(s + "://")
	}
	return b.String()
}
