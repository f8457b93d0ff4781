// Command pictures makes the pictures of docs: it runs docs/pictures/job.yaml and opens the output of the job in Chromium.
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

// output is where job.yaml writes.
const output = "out/pictures"

// picture is one picture: a page in a window, and the script that runs there before the picture is taken.
type picture struct {
	name, page string
	window     browser.Window
	do         string
}

var (
	desktop = browser.Window{Width: 1280, Height: 900}
	dark    = browser.Window{Width: 1280, Height: 900, Dark: true}
	phone   = browser.Window{Width: 390, Height: 844, Scale: 2, Phone: true}
)

var pictures = []picture{
	{"gallery", "index.html", desktop, ""},
	{"gallery-failed", "index.html#show=failed", desktop, "for (const d of document.querySelectorAll('.cause')) d.open = true"},
	{"gallery-video", "index.html#row=shape-02", dark, ""},
	{"gallery-phone", "index.html", phone, ""},
	{"gallery-phone-video", "index.html#row=shape-02", phone, ""},
	{"report", "runs/*/report.html", browser.Window{Width: 1000, Height: 1150}, ""},
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if err := os.RemoveAll(output); err != nil {
		return err
	}
	job := exec.CommandContext(ctx, "go", "run", "./cmd/latentbeam", "run", "docs/pictures/job.yaml")
	job.Stdout, job.Stderr = os.Stdout, os.Stderr
	if err := job.Run(); err != nil && job.ProcessState.ExitCode() != 1 { // rows fail, as they are meant to
		return err
	}
	folder, err := filepath.Abs(output)
	if err != nil {
		return err
	}
	for _, p := range pictures {
		if err := p.capture(ctx, folder); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
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
