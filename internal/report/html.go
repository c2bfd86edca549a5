package report

import (
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page.html").Parse(pageHTML))

// writeHTML writes one file with everything in it: no script, no other file.
func writeHTML(w io.Writer, p *page) error { return pageTemplate.Execute(w, p) }

// Image is the chart as the address of an image. As an image, and not as part of
// the page, it can neither load nor run anything.
func (c *chart) Image() template.URL {
	return template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(c.svg))
}
