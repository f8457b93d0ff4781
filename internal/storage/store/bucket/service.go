package bucket

import (
	"strings"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/objects"
)

// infoOf describes an object for users of the store.
func infoOf(o objects.Object, name string) store.Info {
	return store.Info{Name: name, Size: o.Size, Mark: string(o.Version), Time: o.Time.Unix() * int64(time.Second)}
}

// full reports whether the service has no space for this user. That may change.
func full(f *objects.Refusal) bool {
	return f.Status == 507 || strings.Contains(f.Code, "Quota") || strings.Contains(f.Code, "StorageFull")
}

// denies reports whether the service knows the user but denies access.
func denies(f *objects.Refusal) bool {
	switch f.Code {
	case "RequestTimeTooSkewed", "ExpiredToken", "TokenRefreshRequired", "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return false
	}
	return f.Status == 403
}

// passes reports whether the same request may succeed within seconds.
func passes(f *objects.Refusal) bool {
	switch f.Status {
	case 408, 409, 425, 429, 500, 502, 503, 504:
		return true
	}
	return f.Code == "RequestTimeout" // S3 sends it with status 400
}
