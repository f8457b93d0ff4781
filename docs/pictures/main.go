// Command pictures makes the pictures of docs: it runs the jobs of docs/pictures and opens their outputs in Chromium.
// Run it in the root of the repository: go run ./docs/pictures. It writes the pictures beside this file.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"latentbeam/internal/dev/browser"
)

// The outputs of the jobs.
const (
	output = "out/pictures"        // job.yaml
	scores = "out/pictures-scores" // scores.yaml
	clips  = "out/pictures-clips"  // clips.yaml
)

// jobs are what is run, in this order.
var jobs = []struct{ file, output string }{{"job.yaml", output}, {"scores.yaml", scores}, {"clips.yaml", clips}}

// picture is one picture: a page in a window, and the script that runs there before the picture is taken.
type picture struct {
	output     string
	name, page string
	window     browser.Window
	do         string
}

var (
	desktop = browser.Window{Width: 1280, Height: 900}
	dark    = browser.Window{Width: 1280, Height: 900, Dark: true}
	phone   = browser.Window{Width: 390, Height: 844, Scale: 2, Phone: true}
)

// Scripts of pages.
const (
	filters = "document.getElementById('more').open = true; const r = document.querySelector('.range input'); r.value = '1'; " +
		"r.dispatchEvent(new Event('input', {bubbles: true})); r.dispatchEvent(new Event('change', {bubbles: true}))"
	ratings = "[...document.querySelectorAll('.card')].slice(0, 5).forEach((c, i) => { c.querySelector('.media').focus(); " +
		"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'gbggb'[i], bubbles: true})) })"
	compare = "[...document.querySelectorAll('.card')].slice(0, 3).forEach((c) => { c.querySelector('.media').focus(); " +
		"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'c', bubbles: true})) }); " +
		"document.getElementById('compare').click()"
)

var pictures = []picture{
	{output, "gallery", "index.html", desktop, ""},
	{output, "gallery-failed", "index.html#show=failed", desktop, "for (const d of document.querySelectorAll('.cause')) d.open = true"},
	{output, "gallery-video", "index.html#row=shape-02", dark, ""},
	{output, "gallery-phone", "index.html", phone, ""},
	{output, "gallery-phone-video", "index.html#row=shape-02", phone, ""},
	{output, "report", "runs/*/report.html", browser.Window{Width: 1000, Height: 1150}, ""},
	{scores, "gallery-filters", "index.html", desktop, filters},
	{scores, "gallery-ratings", "index.html", desktop, ratings},
	{scores, "gallery-compare", "index.html", dark, compare},
	{scores, "gallery-phone-filters", "index.html", phone, filters},
	{scores, "gallery-phone-compare", "index.html", phone, compare},
	{clips, "gallery-clips", "index.html", desktop, ""},
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	for _, j := range jobs {
		if err := os.RemoveAll(j.output); err != nil {
			return err
		}
		job := exec.CommandContext(ctx, "go", "run", "./cmd/latentbeam", "run", "docs/pictures/"+j.file)
		job.Stdout, job.Stderr = os.Stdout, os.Stderr
		if err := job.Run(); err != nil && job.ProcessState.ExitCode() != 1 { // rows fail, as they are meant to
			return err
		}
	}
	for _, p := range pictures {
		folder, err := filepath.Abs(p.output)
		if err == nil {
			err = p.capture(ctx, folder)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	folder, err := filepath.Abs(output)
	if err != nil {
		return err
	}
	return terminal(ctx, folder)
}

// capture writes docs/pictures/NAME.webp.
func (p picture) capture(ctx context.Context, folder string) error {
	page := p.page
	if found, err := filepath.Glob(filepath.Join(folder, page)); err == nil && len(found) == 1 {
		page = filepath.ToSlash(found[0][len(folder)+1:])
	}
	b, err := browser.Open(ctx, p.window)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Go("file://" + folder + "/" + page); err != nil {
		return err
	}
	if p.do != "" {
		if err := b.Eval(p.do, nil); err != nil {
			return err
		}
	}
	time.Sleep(2 * time.Second) // videos have begun to play
	data, err := b.Picture("webp")
	if err != nil {
		return err
	}
	if len(b.Errors) > 0 {
		return fmt.Errorf("the page has errors: %v", b.Errors)
	}
	name := filepath.Join("docs", "pictures", p.name+".webp")
	fmt.Println(name, len(data), "bytes")
	return os.WriteFile(name, data, 0o644)
}
