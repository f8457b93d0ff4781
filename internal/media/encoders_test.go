package media

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"latentbeam/schemas"
)

// raw is an encoder for tests. It shows that a new format needs only a type and an entry in formats.
type raw struct{}

func (raw) Version() string { return "1" }

func (raw) Encode(_ context.Context, c *schemas.Clip) (*schemas.Encoded, error) {
	return &schemas.Encoded{Data: slices.Concat(c.Frames...), Ext: ".raw", Codec: "raw"}, nil
}

func TestFormats(t *testing.T) {
	formats = append(formats, Format{"raw", "plain", func(Options) (Encoder, error) { return raw{}, nil }})
	defer func() { formats = formats[:len(formats)-1] }()
	if got := Codecs(); !slices.Equal(got, []string{"h264", "raw"}) || !slices.Equal(Encoders("raw"), []string{"plain"}) {
		t.Errorf("codecs %q, encoders of raw %q", got, Encoders("raw"))
	}
	e, err := New("raw", "plain", Options{})
	if err != nil {
		t.Fatal(err)
	}
	clip := testClip(4, 2, 3, 8, false)
	if out, err := e.Encode(t.Context(), clip); err != nil || out.Ext != ".raw" || len(out.Data) != 3*4*2*3 {
		t.Errorf("%+v, %v", out, err)
	}
	for _, c := range [][3]string{
		{"h266", "embedded", `codec "h266" is unknown; there are h264 and raw`},
		{"h264", "plain", `encoder "plain" is unknown; there are embedded and ffmpeg`},
	} {
		_, err := New(c[0], c[1], Options{})
		if wrong := (*OptionError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
}
