package stores

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/browser"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
)

// pictureEnv names a directory for screenshots of the pages.
const pictureEnv = "LATENTBEAM_PICTURES"

// loaded waits for the page's videos. It returns their number, the number of those with a picture, and the links of the page.
const loaded = `(async () => {
	const until = Date.now() + 60000
	const pause = () => new Promise(done => setTimeout(done, 100))
	let videos = []
	while (Date.now() < until) {
		videos = [...document.querySelectorAll('video')]
		videos.forEach(v => { v.preload = 'auto'; if (v.readyState < 2 && !v.asked) { v.asked = true; v.load() } })
		if (videos.length && videos.every(v => v.readyState >= 2)) break
		await pause()
	}
	const links = new Set()
	for (const e of document.querySelectorAll('video, img, source')) for (const a of ['src', 'poster']) if (e[a]) links.add(e[a])
	for (const a of document.querySelectorAll('a[href]')) if (a.href.startsWith(location.origin)) links.add(a.href.split('#')[0])
	return {videos: videos.length, wide: videos.filter(v => v.videoWidth > 0).length, links: [...links].filter(l => !l.startsWith('data:'))}
})()`

// TestPageOfBucket opens the gallery of a bucket by its address in a browser. Videos and posters load, because the links are relative
// and the objects have media types.
func TestPageOfBucket(t *testing.T) {
	testaid.Long(t, "starts a browser")
	for scheme, service := range jobtest.Buckets {
		t.Run(scheme, func(t *testing.T) {
			server := service(t)
			server.Use(t)
			j := jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", "id,prompt\na,a red circle moves left\nb,a blue square\n"),
				Out: scheme + "://bucket/jobs/one", Sets: []string{"defaults.height=64", "defaults.width=64", "defaults.num_frames=8"}}
			j.MustRun(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			page, err := browser.Open(ctx, browser.Window{Width: 900, Height: 600})
			if errors.Is(err, browser.ErrNone) {
				t.Skip(err)
			}
			jobtest.Must(t, err)
			defer page.Close()
			jobtest.Must(t, page.Go(server.URL+"/bucket/jobs/one/index.html"))
			var got struct {
				Videos, Wide int
				Links        []string
			}
			jobtest.Must(t, page.Eval(loaded, &got))
			if got.Videos != 2 || got.Wide != 2 || len(got.Links) < 4 || len(page.Errors) > 0 {
				t.Errorf("the page has loaded %+v, errors %q", got, page.Errors)
			}
			for _, link := range got.Links {
				answer, err := http.Get(link)
				jobtest.Must(t, err)
				answer.Body.Close()
				kind := answer.Header.Get("Content-Type")
				if answer.StatusCode != http.StatusOK || strings.HasSuffix(link, ".mp4") && kind != "video/mp4" {
					t.Errorf("the link %s gives status %s, media type %s", link, answer.Status, kind)
				}
			}
			if dir := os.Getenv(pictureEnv); dir != "" {
				picture, err := page.Picture("png")
				jobtest.Must(t, err)
				jobtest.Must(t, os.WriteFile(dir+"/"+scheme+".png", picture, 0o644))
			}
		})
	}
}
