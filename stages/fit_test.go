package stages

import (
	"fmt"
	"strings"
	"testing"
)

// house is a catalogue of stages that are never opened.
var house = []Spec{
	{Name: "encode_text", In: KindPrompt, Out: KindText},
	{Name: "encode_vae", In: KindMedia, Out: KindLatents},
	{Name: "denoise", In: KindText, Out: KindLatents},
	{Name: "decode_vae", In: KindLatents, Out: KindFrames},
	{Name: "guard"},
	{Name: "caption", In: KindMedia, Out: KindPrompt},
	{Name: "convert", In: KindMedia, Out: KindMedia},
	{Name: "fetch", In: KindPrompt, Out: KindMedia},
	{Name: "watermark", In: KindFrames, Out: KindFrames},
	{Name: "encode_video", In: KindFrames, Out: KindVideo},
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in    Kind
		names string
		want  string // the kinds at the seams, or the index and a part of the message
	}{
		{KindPrompt, "encode_text denoise decode_vae encode_video", "prompt text latents frames video"},
		{KindPrompt, "encode_text", "prompt text"},
		{KindText, "denoise", "text latents"},
		{KindLatents, "decode_vae watermark watermark encode_video", "latents frames frames frames video"},
		{KindPrompt, "guard encode_text guard guard denoise guard", "prompt prompt text text text latents latents"},
		{KindPrompt, "", "prompt"},
		{KindMedia, "encode_vae", "media latents"},
		{KindMedia, "encode_vae encode_text", "media latents text"},
		{KindMedia, "encode_text encode_vae guard", "media text latents latents"},
		{KindMedia, "encode_vae decode_vae encode_text", "media latents frames text"},
		{KindMedia, "caption encode_vae encode_text", "media prompt latents text"},

		{KindMedia, "convert encode_vae encode_text", "media media latents text"},
		{KindPrompt, "fetch convert encode_vae encode_text", "prompt media media latents text"},

		{KindMedia, "encode_vae encode_vae",
			`1: stage "encode_vae" takes media, but stage "encode_vae" before it gives latents`},
		{KindMedia, "encode_text encode_text",
			`1: stage "encode_text" takes prompt, but stage "encode_text" before it gives text`},
		{KindPrompt, "encode_vae", `0: stage "encode_vae" takes media, but the input gives prompt`},
		{KindPrompt, "encode_text encode_vae", `1: stage "encode_vae" takes media, but stage "encode_text" before it gives text; ` +
			`give the files, or the table that names them, as input.media`},
		{KindMedia, "decode_vae",
			`0: stage "decode_vae" takes latents, but the input gives media; put "encode_vae" between them`},

		{KindPrompt, "encode_text denoisee", `1: unknown stage "denoisee"; there are encode_text, encode_vae, de`},
		{KindPrompt, "denoise",
			`0: stage "denoise" takes text, but the input gives prompt; put "encode_text" between them`},
		{KindPrompt, "encode_text decode_vae", `1: stage "decode_vae" takes latents, but stage "encode_text" ` +
			`before it gives text; put "denoise" between them`},
		{KindLatents, "decode_vae guard denoise",
			`2: stage "denoise" takes text, but stage "guard" before it gives frames`},
		{KindPrompt, "encode_text encode_text",
			`1: stage "encode_text" takes prompt, but stage "encode_text" before it gives text`},
		{KindPrompt, "encode_video", `0: stage "encode_video" takes frames, but the input gives prompt`},
	} {
		seams, at, err := Fit(c.in, strings.Fields(c.names), house)
		got := strings.Trim(fmt.Sprint(seams), "[]")
		if err != nil {
			got = fmt.Sprintf("%d: %v", at, err)
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s from %s:\n got %s\nwant %s", c.names, c.in, got, c.want)
		}
	}
}
