// Package browser controls an installed Chromium through its debugging pipe, without opening a port. Tests of pages use it, and it
// makes the pictures in docs. Packages that a job needs must not import it.
package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ErrNone is the error if no browser is installed.
var ErrNone = errors.New("no Chromium found: install chromium, or name one in CHROMIUM")

// Find returns the program of an installed Chromium.
func Find() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNone
}

// Window is the window in which a page is shown.
type Window struct {
	Width, Height int
	Scale         float64 // device pixels for each CSS pixel; 0: 1
	Phone         bool    // touch, and the layout of a phone
	Dark          bool
}

// Page is one open page. It is not safe for concurrent use.
type Page struct {
	cmd     *exec.Cmd
	in      *os.File
	out     *bufio.Reader
	profile string
	session string
	id      int
	// Errors are the script errors and error messages of the console so far, without errors about files that cannot be loaded.
	Errors []string
}

// Open starts a browser with an empty page. The page ends with ctx or by Close.
func Open(ctx context.Context, w Window) (*Page, error) {
	program, err := Find()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return nil, err
	}
	p := &Page{profile: profile}
	if err = p.start(ctx, program); err == nil {
		err = p.prepare(w)
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

func (p *Page) start(ctx context.Context, program string) error {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	p.in, p.out = in, bufio.NewReaderSize(out, 1<<20)
	p.cmd = exec.CommandContext(ctx, program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--hide-scrollbars", "--mute-audio", "--remote-debugging-pipe", "--user-data-dir="+p.profile, "about:blank")
	p.cmd.ExtraFiles = []*os.File{theirIn, theirOut} // descriptors 3 and 4, as --remote-debugging-pipe requires
	p.cmd.WaitDelay = 10 * time.Second
	return p.cmd.Start()
}

// prepare attaches to the page and sets its window.
func (p *Page) prepare(w Window) error {
	var created struct {
		TargetID string `json:"targetId"`
	}
	if err := p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &created); err != nil {
		return err
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	err := p.call("Target.attachToTarget", map[string]any{"targetId": created.TargetID, "flatten": true}, &attached)
	if err != nil {
		return err
	}
	p.session = attached.SessionID
	scheme := "light"
	if w.Dark {
		scheme = "dark"
	}
	for _, c := range []struct {
		method string
		params map[string]any
	}{
		{"Page.enable", nil}, {"Runtime.enable", nil}, {"Log.enable", nil}, {"Performance.enable", nil},
		{"Emulation.setDeviceMetricsOverride", map[string]any{"width": w.Width, "height": w.Height,
			"deviceScaleFactor": max(w.Scale, 1), "mobile": w.Phone}},
		{"Emulation.setTouchEmulationEnabled", map[string]any{"enabled": w.Phone}},
		{"Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
			{"name": "prefers-color-scheme", "value": scheme}}}},
	} {
		if err := p.call(c.method, c.params, nil); err != nil {
			return err
		}
	}
	return nil
}

// Go opens a URL and waits until it is loaded.
func (p *Page) Go(url string) error {
	var went struct {
		ErrorText string `json:"errorText"`
	}
	if err := p.call("Page.navigate", map[string]any{"url": url}, &went); err != nil {
		return err
	}
	if went.ErrorText != "" {
		return fmt.Errorf("open %s: %s", url, went.ErrorText)
	}
	return p.Eval(`new Promise((done) => document.readyState === 'complete' ? done() :
		addEventListener('load', () => done()))`, nil)
}

// Eval runs an expression in the page, waits for its promise and stores its value in into, which may be nil.
func (p *Page) Eval(expression string, into any) error {
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true,
		"returnByValue": true}, &got)
	if err != nil {
		return err
	}
	if e := got.Exception; e != nil {
		return fmt.Errorf("in the page: %s %s", e.Text, e.Exception.Description)
	}
	if into == nil || got.Result.Value == nil {
		return nil
	}
	return json.Unmarshal(got.Result.Value, into)
}

// Metrics returns the browser's measurements of the page, such as JSHeapUsedSize (bytes) and Nodes.
func (p *Page) Metrics() (map[string]float64, error) {
	var got struct {
		Metrics []struct {
			Name  string  `json:"name"`
			Value float64 `json:"value"`
		} `json:"metrics"`
	}
	err := p.call("Performance.getMetrics", nil, &got)
	m := map[string]float64{}
	for _, one := range got.Metrics {
		m[one.Name] = one.Value
	}
	return m, err
}

// Picture returns an image of the window, as webp, png or jpeg.
func (p *Page) Picture(format string) ([]byte, error) {
	params := map[string]any{"format": format}
	if format != "png" {
		params["quality"] = 80
	}
	var got struct {
		Data string `json:"data"`
	}
	if err := p.call("Page.captureScreenshot", params, &got); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(got.Data)
}

// Close ends the browser and removes its profile.
func (p *Page) Close() {
	if p.in != nil {
		_ = p.in.Close() // the browser ends when its pipe is closed
	}
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	_ = os.RemoveAll(filepath.Clean(p.profile))
}

// call sends a command and waits for its answer. It records errors from events that arrive in between.
func (p *Page) call(method string, params map[string]any, into any) error {
	p.id++
	message, err := json.Marshal(struct {
		ID      int            `json:"id"`
		Method  string         `json:"method"`
		Params  map[string]any `json:"params,omitempty"`
		Session string         `json:"sessionId,omitempty"`
	}{p.id, method, params, p.session})
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(message, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		data, err := p.out.ReadBytes(0)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the browser has ended")
			}
			return fmt.Errorf("%s: %w", method, err)
		}
		var answer struct {
			ID     int             `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(data[:len(data)-1], &answer); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		p.record(answer.Method, answer.Params)
		if answer.ID != p.id {
			continue
		}
		if answer.Error != nil {
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(answer.Result, into)
	}
}

// record adds the error of an event to p.Errors.
func (p *Page) record(method string, params json.RawMessage) {
	var level struct {
		Entry struct {
			Level  string `json:"level"`
			Source string `json:"source"`
		} `json:"entry"`
		Type string `json:"type"`
	}
	_ = json.Unmarshal(params, &level) // other events do not have these fields
	logged := level.Entry.Level == "error" && level.Entry.Source != "network"
	if method == "Runtime.exceptionThrown" || logged || level.Type == "error" {
		p.Errors = append(p.Errors, string(params))
	}
}
