package read

import (
	"fmt"
	"strings"
	"testing"
)

// usesOf opens a table and lists what its columns are for.
func usesOf(t *testing.T, path string, o Options) (all []string) {
	t.Helper()
	o.Uses = &Uses{}
	p, err := Open([]string{path}, o)
	if err != nil {
		t.Fatal(err)
	}
	for range p.All() {
	}
	for _, use := range o.Uses.Columns() {
		kind := map[Purpose]string{Carried: "carried", Parameter: "is", Alias: "alias of", OfSource: "source's", Program: "program's"}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", use.Column, kind[use.Purpose], use.Field)))
	}
	return all
}

// TestSlips: a column that is nearly a parameter is told of, unless another column gives that parameter.
func TestSlips(t *testing.T) {
	for header, want := range map[string]string{
		"prompt,heigth,Num_Frame,color,motion": "Num_Frame carried num_frames; color carried; heigth carried height; motion carried",
		"prompt,frames,uid,prompts,note":       "frames carried num_frames; note carried; prompts carried; uid carried",
		"prompt,heigth,height":                 "heigth carried",
		"prompt, Width ,see":                   "see carried",
	} {
		var got []string
		for _, use := range usesOf(t, textFile(t, "s.csv", header+"\n"), Options{}) {
			if strings.Contains(use, "carried") {
				got = append(got, use)
			}
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	mapped := Options{Columns: map[string]string{"height": "h"}}
	if got := usesOf(t, textFile(t, "s.csv", "prompt,heigth,h\n"), mapped); got[len(got)-1] != "heigth carried" {
		t.Errorf("a field that is mapped: %q", got)
	}
}

// TestToolNames: the names that other tools use give the fields, in each format, and are carried all the same. What belongs
// to a job is carried with advice.
func TestToolNames(t *testing.T) {
	csv := textFile(t, "wan.csv", "id,prompt,cfg,neg_prompt,sample_steps,frame_num,base_seed,sample_shift,lora,size,image\n"+
		"a,a cat,7,ugly,9,9,5,8,x.safetensors,64*48,cat.png\n")
	jsonl := textFile(t, "wan.jsonl", `{"id": "a", "prompt": "a cat", "cfg": 7, "neg_prompt": "ugly", "sample_steps": 9, "frame_num": 9, `+
		`"base_seed": 5, "sample_shift": 8, "lora": "x.safetensors", "size": "64x48", "image": "cat.png"}`)
	for _, path := range []string{csv, jsonl} {
		o := Options{Uses: &Uses{}}
		p, err := Open([]string{path}, o)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := p.Next()
		if err != nil || rec.Bad != nil {
			t.Fatal(err, rec.Bad)
		}
		r := rec.Row
		if r.Guidance() != 7 || r.NegativePrompt != "ugly" || r.NumInferenceSteps != 9 || r.NumFrames != 9 || *r.Seed != 5 ||
			r.Width != 64 || r.Height != 48 || r.Reference != "cat.png" {
			t.Errorf("%s: %+v", path, r)
		}
		if !strings.Contains(r.Extra, `"cfg"`) || !strings.Contains(r.Extra, `"size"`) {
			t.Errorf("%s: names of other tools are not carried: %s", path, r.Extra)
		}
		advice := ""
		for _, use := range Unused(o.Uses.Columns(), nil) {
			advice += use.Column + ": " + use.Advice + "\n"
		}
		if !strings.Contains(advice, "sample_shift: it belongs to the job: `stages: [..., denoise: {flow_shift") ||
			!strings.Contains(advice, "lora: it belongs to the job: `model:") || strings.Count(advice, "\n") != 2 {
			t.Errorf("%s: advice is %s", path, advice)
		}
	}
	for _, c := range []struct {
		header string
		o      Options
		want   string
	}{
		{"prompt,cfg,guidance_scale", Options{}, "guidance_scale is guidance_scale; prompt is prompt; cfg carried"},
		{"prompt,cfg", Options{Columns: map[string]string{"guidance_scale": ""}}, "prompt is prompt; cfg carried"},
		{"prompt,guidance_scale", Options{Columns: map[string]string{"guidance_scale": ""}}, "prompt is prompt; guidance_scale carried"},
		{"prompt,cfg,image", Options{Params: []string{"guidance_scale"}}, "prompt is prompt; cfg alias of guidance_scale; image carried reference"},
		{"prompt,size,height", Options{}, "height is height; prompt is prompt; size carried"},
		{"prompt,size", Options{Columns: map[string]string{"height": "", "width": ""}}, "prompt is prompt; size carried"},
		{"path,caption,image,height,resolution,length,seed", Options{Media: true}, "caption is prompt; path is media; seed is seed; " +
			"height source's height; length source's num_frames; resolution source's resolution; image carried"},
		{"path,height", Options{Media: true, Columns: map[string]string{"height": "height"}}, "height is height; path is media"},
	} {
		if got := strings.Join(usesOf(t, textFile(t, "t.csv", c.header+"\n"), c.o), "; "); got != c.want {
			t.Errorf("%s, %+v:\n%s, want\n%s", c.header, c.o, got, c.want)
		}
	}
	p, err := Open([]string{textFile(t, "t.csv", "prompt,size\na,640*\n")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := p.Next(); err != nil || rec.Bad == nil || !strings.Contains(rec.Bad.Error(), `size: "640*" is no size`) {
		t.Errorf("a wrong size: %v, %v", rec.Bad, err)
	}
}
