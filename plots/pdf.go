package plots

import (
	"image/color"
	"io"
	"sync"
	"time"

	pdf "codeberg.org/go-pdf/fpdf"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgpdf"
)

// pdfDefaults guards the defaults of package fpdf: its documents take their
// dates from there when they are made, and gonum's canvas gives no access to the
// document.
var pdfDefaults sync.Mutex

// writePDF writes c with the date of the run, so that the same results give the
// same file.
func writePDF(w io.Writer, c *chart, date time.Time) error {
	pdfDefaults.Lock()
	defer pdfDefaults.Unlock()
	if date.IsZero() {
		date = time.Unix(0, 0)
	}
	pdf.SetDefaultCompression(true)
	pdf.SetDefaultCatalogSort(true)
	pdf.SetDefaultCreationDate(date.UTC())
	pdf.SetDefaultModificationDate(date.UTC())
	defer pdf.SetDefaultCatalogSort(false)
	defer pdf.SetDefaultCreationDate(time.Time{})
	defer pdf.SetDefaultModificationDate(time.Time{})

	canvas := pdfCanvas{vgpdf.New(c.size.Width, c.size.Height)}
	c.draw(draw.New(canvas))
	_, err := canvas.WriteTo(w)
	return err
}

// pdfCanvas mends what gonum/plot 0.17 does to text and colour of a PDF.
type pdfCanvas struct{ *vgpdf.Canvas }

// FillString writes text in the encoding that the canvas gives its fonts, code
// page 1252. The canvas itself passes UTF-8 on, which shows µ as two characters.
// A letter that the code page has not becomes a substitute.
func (c pdfCanvas) FillString(f font.Face, at vg.Point, txt string) {
	enc := encoding.ReplaceUnsupported(charmap.Windows1252.NewEncoder())
	if s, err := enc.String(txt); err == nil {
		txt = s
	}
	c.Canvas.FillString(f, at, txt)
}

// SetColor keeps the colour of translucent things. The canvas takes it
// multiplied by its opacity and lets the viewer multiply again.
func (c pdfCanvas) SetColor(clr color.Color) {
	if clr == nil {
		clr = color.Black
	}
	c.Canvas.SetColor(straight(color.NRGBAModel.Convert(clr).(color.NRGBA)))
}

// straight gives its components without multiplying them by its opacity.
type straight color.NRGBA

func (s straight) RGBA() (r, g, b, a uint32) {
	return uint32(s.R) * 0x101, uint32(s.G) * 0x101, uint32(s.B) * 0x101, uint32(s.A) * 0x101
}
